"""The bottleneck of a training, and the commands that remove it.

    from trainer import TrainOptions
    from trainer.diagnosis.diagnosing import diagnose

    diagnosis = diagnose(TrainOptions(data="set", run_dir="unused", model="resnet50"), seconds=3)

    measuring.py     opens the training, and measures it and its step
    costs.py         seconds per example of every stage -> the rate of all together, the bottleneck
    remedies.py      a table: what makes a stage cheaper
    diagnosing.py    all of it in order, as a sentence, as commands and as JSON

Importing this package loads nothing heavy; `trainer.diagnosis.diagnosing` loads TensorFlow.
"""
