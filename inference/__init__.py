"""What becomes of a trained model: it is measured, predicts, and is exported to be served.

`evaluation` measures a run or an export on records, and `export` writes files that predict from
photographs or texts as the run does.
"""
