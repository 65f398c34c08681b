"""An advice of the doctor that always applies."""

from trainer.diagnosis.remedies import Advice, Case


def _add_toys(case: Case) -> Advice | None:
    return Advice("there are too few toys", {"--batch-size": "2"})
