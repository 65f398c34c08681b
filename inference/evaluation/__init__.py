"""How right a trained or exported model is on records that it has not learnt from.

from inference.evaluation.evaluating import evaluate

result = evaluate(Path("run"), split="test")
result.accuracy, result.baseline, result.classes

evaluating   from a model and a set, or a folder of files, to the result
models       runs and exports behind one interface: a batch in, its outcome out
scores       the sums over batches, and the result
"""
