"""Faults of images or labels, as a peer finds them with its defaults: `TOOL INPUT`.

INPUT is a folder of images for CleanVision, and for cleanlab an .npz with labels [n] and
probabilities [n, classes].
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.subjects.clock import measure


def cleanvision(folder: Path, details: dict[str, Any]) -> int:
    """Names of blurred and of dark images, and groups of copies."""
    from cleanvision import Imagelab

    lab = Imagelab(data_path=str(folder))
    kinds = ("blurry", "dark", "exact_duplicates", "near_duplicates")
    lab.find_issues({kind: {} for kind in kinds}, verbose=False)
    for kind in kinds[:2]:
        rows = lab.issues[lab.issues[f"is_{kind}_issue"]]
        details[kind] = [str(Path(name).relative_to(folder.resolve())) for name in rows.index]
    details["copies"] = [
        [str(Path(name).relative_to(folder.resolve())) for name in group]
        for kind in kinds[2:]
        for group in lab.info.get(kind, {}).get("sets", [])
    ]
    return len(lab.issues)


def cleanlab(file: Path, details: dict[str, Any]) -> int:
    """Places of likely label errors."""
    import numpy as np
    from cleanlab.filter import find_label_issues

    with np.load(file) as given:
        labels, probabilities = given["labels"], given["probabilities"]
    details["errors"] = np.flatnonzero(find_label_issues(labels, probabilities)).tolist()
    return len(labels)


TOOLS: dict[str, Callable[[Path, dict[str, Any]], int]] = {
    "cleanvision": cleanvision,
    "cleanlab": cleanlab,
}


def main() -> None:
    """Arguments: TOOL INPUT."""
    tool, given = TOOLS[sys.argv[1]], Path(sys.argv[2]).resolve()
    details: dict[str, Any] = {}
    measure(lambda: tool(given, details), details)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
