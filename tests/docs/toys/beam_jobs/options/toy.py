from __future__ import annotations

import dataclasses
from typing import ClassVar

from beam_jobs.options.base import PreprocessOptions
from foundation.options import redeclared


@dataclasses.dataclass(frozen=True)
class ToyOptions(PreprocessOptions):
    COMMAND: ClassVar[str] = "toys"
    ABOUT: ClassVar[str] = "Turn toys into a shard set."
    record_type: str = "toy"
    name: str = redeclared(PreprocessOptions, "name", default="toys")
