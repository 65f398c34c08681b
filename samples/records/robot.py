"""Episodes of a robot, as RLDS has them: a record is an episode, with its steps nested in it.

shardmill preprocess records --from samples.records.robot:episodes --out robot-set --no-labels
"""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent / "episodes"


def items() -> list[str]:
    """The files with an episode each; one that changes is read again, the others are not."""
    return sorted(map(str, FOLDER.glob("*.npz")))


def read(item: str) -> Iterator[dict[str, Any]]:
    """The episode of a file."""
    with np.load(item) as episode:
        steps = len(episode["action"])
        ends = np.cumsum(episode["image_sizes"])
        yield {
            "id": Path(item).stem,
            "steps/observation/image": [
                one.tobytes() for one in np.split(episode["images"], ends[:-1])
            ],
            "steps/observation/state": episode["state"],
            "steps/action": episode["action"],
            "steps/reward": episode["reward"],
            "steps/is_first": np.arange(steps) == 0,
            "steps/is_last": np.arange(steps) == steps - 1,
            "language": str(episode["language"]),
            "length": steps,
        }


episodes = SimpleNamespace(
    items=items,
    read=read,
    schema={
        "steps/observation/image": "image[*]",
        "steps/observation/state": "float32[*,4]",
        "steps/action": "float32[*,2]",
        "steps/reward": "float32[*]",
        "steps/is_first": "bool[*]",
        "steps/is_last": "bool[*]",
        "language": "text",
        "length": "int64",
    },
)
