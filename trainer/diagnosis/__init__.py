"""Why a training job is not faster, and what would make it so.

    from trainer import TrainOptions
    from trainer.diagnosis.diagnosing import diagnose

    found = diagnose(TrainOptions(data="set", run_dir="unused", model="resnet50"), seconds=3)

    job.py, measuring.py     a job, and the clock on it
    costs.py                 seconds per example of every stage -> the rate of all together
    verdict.py, advice.py    costs -> the bottleneck; what was tried -> what is proposed
    remedies/                what may help, each of which tries itself on the job
    diagnosing.py            all of it in order
    wording.py, report.py    in plain words, and as JSON

Importing this package loads nothing heavy; `trainer.diagnosis.diagnosing` loads TensorFlow.
"""
