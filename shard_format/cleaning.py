"""The cleaning steps of a set, from its manifest."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def cleaning_steps(config: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(name, "parameter=value, ...") of every step in order; empty if the config has no list.

    Args:
        config: Of the manifest; "clean" is a list of {"step": name, parameter: value, ...}.
    """
    steps = config.get("clean")
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        return []
    return [(str(step.get("step", "")), _parameters(step)) for step in steps]


def _parameters(step: Mapping[str, Any]) -> str:
    values = {name: value for name, value in step.items() if name != "step"}
    written = (f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in values.items())
    return ", ".join(written)
