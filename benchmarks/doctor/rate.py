"""Measures the rate of a training: `python -m benchmarks.doctor.rate SET SECONDS [OPTIONS]`.

Prints one JSON object. The options are those of `shardmill train`.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

from cli.logs import quiet_tensorflow


def main() -> None:
    """See the module."""
    quiet_tensorflow()
    from trainer import TrainOptions
    from trainer.diagnosis.diagnosing import measure_job

    data, seconds, *flags = sys.argv[1:]
    values: dict[str, object] = {
        flag.removeprefix("--").replace("-", "_"): int(value) if value.isdigit() else value
        for flag, value in zip(flags[::2], flags[1::2], strict=True)
    }
    options = TrainOptions(data=Path(data), run_dir=Path("unused"), **values)  # type: ignore[arg-type]
    print(json.dumps(dataclasses.asdict(measure_job(options, float(seconds)))))


if __name__ == "__main__":
    main()
