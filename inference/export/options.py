"""The options of `shardmill export`, each declared once."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

from foundation.errors import UsageError
from foundation.members import Members
from foundation.options import Limits, check_declared, flag_of, option
from foundation.storage import Place, local_place_of, place_of

TARGETS: Members[Callable[[Any, Any, Any], Any]] = Members(
    {
        "saved-model": "inference.export.targets:to_saved_model",
        "tflite": "inference.export.targets:to_tflite",
        "onnx": "inference.export.targets:to_onnx",
    }
)
"""Value of `--to` -> what exports (run, options, on_progress)."""
EPOCH_NAMES = ("last", "best")
QUANTIZATIONS = ("none", "dynamic", "float16", "int8")


def _check_quantize(name: str, value: str) -> None:
    """Checks that a value is a list of quantizations.

    Raises:
        UsageError: It is none.
    """
    names = value.split(",")
    unknown = [each for each in names if each not in QUANTIZATIONS]
    if unknown or len(set(names)) < len(names):
        raise UsageError(
            f"{name} is {value!r}. Pass one or more of {', '.join(QUANTIZATIONS)} with commas "
            "between them, each once."
        )


@dataclasses.dataclass(frozen=True)
class ExportOptions:
    """The options of one export, documented by their declarations.

    Attributes:
        run: Directory of a finished run.
        out: Directory for the exported model.
    """

    run: Path
    out: Path
    to: str = option("saved-model", "What to export to.", choices=tuple(TARGETS))
    epoch: str = option("last", "Which model: of the last or the best epoch.", choices=EPOCH_NAMES)
    data: Place | None = option(
        None,
        "The shard set, where its records are read (--evaluate, --quantize int8), if it has moved.",
        "SET",
        type=place_of,
    )
    quantize: str = option(
        "none",
        "With --to tflite: none, dynamic (int8 weights), float16 (weights) or int8 (weights and "
        "values); several with commas are compared.",
        "NAME,...",
        check=_check_quantize,
        excludes={f"--to {name}": "is for --to tflite" for name in TARGETS if name != "tflite"},
    )
    calibration: int = option(
        200,
        "With --quantize int8, number of training records that the ranges are measured on.",
        "N",
        type=int,
        limits=Limits(1),
    )
    evaluate: bool = option(
        False, "Measure the accuracy on the validation split, next to that of Keras.", type=bool
    )
    max_records: int | None = option(
        None,
        "With --evaluate, so many records of the split at most.",
        "N",
        type=int,
        limits=Limits(1),
    )

    strict: bool = option(
        False,
        "Refuse to export a model of texts if a graph cannot have a step of --clean.",
        type=bool,
        excludes={
            f"--to {name}": "is for --to saved-model" for name in TARGETS if name != "saved-model"
        },
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "run", local_place_of(self.run))
        object.__setattr__(self, "out", local_place_of(self.out))
        if self.data is not None:
            object.__setattr__(self, "data", place_of(self.data))
        check_declared(self, name_of=flag_of)

    def as_json(self) -> dict[str, Any]:
        """All options, paths as text."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        plain = (bool, int, str, type(None))
        return {k: v if isinstance(v, plain) else str(v) for k, v in values.items()}
