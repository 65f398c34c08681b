"""The cleaning of a set of texts: what of it is in a graph, and what is left out.

`beam_jobs.text.cleaning` has the steps. Here are two of them in TensorFlow operations; the others
need more than regular expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

# Steps that leave documents out and change none: a model answers for every text.
FILTERS = frozenset(
    {
        *("length", "language", "symbols", "stop-words", "contamination"),
        *("gopher-repetition", "gopher-quality", "fineweb"),
    }
)
_CONTROLS = (
    (r"[\x0b\x0c\x1c-\x1e]", "\n"),
    (r"\x1f", " "),
    (
        r"[\x00-\x08\x0e-\x1b\x7f-\x{84}\x{86}-\x{9f}\x{ad}\x{202a}-\x{202e}\x{2066}-\x{2069}"
        r"\x{2060}-\x{2065}\x{206a}-\x{206f}\x{feff}\x{fff9}-\x{fffb}]",
        "",
    ),
)
_BLANK = (
    r"[\t\x0b-\r\x1c-\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}"
    r"\x{3000}]"
)

_Rules = Iterator[tuple[str, str]]


def _whitespace(step: Mapping[str, Any]) -> _Rules:
    yield r"\r\n?|\x{2028}|\x{2029}|\x{85}", "\n"
    yield f"{_BLANK}+\n", "\n"
    if step.get("blanks", False):
        yield f"\n{_BLANK}+", "\n"
        yield f"{_BLANK}{{2,}}|\t", " "
    most = "\n" * (int(step.get("empty_lines", 1)) + 1)
    yield f"{most}\n+", most
    yield rf"\A(?:{_BLANK}|\n)+|(?:{_BLANK}|\n)+\z", ""


# name of a step -> its regular expressions of RE2, with their replacements
_IN_GRAPH: dict[str, Callable[[Mapping[str, Any]], _Rules]] = {
    "controls": lambda step: iter(_CONTROLS),
    "whitespace": _whitespace,
}


def steps_of(config: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The cleaning steps in the config of a manifest, with their parameters, in order."""
    return config.get("clean") or ()


def cleaning_of(config: Mapping[str, Any]) -> Callable[[Any], Any]:
    """What --clean did to the texts of a set, as far as a graph can: [batch] string -> the same."""
    rules = [
        rule
        for step in steps_of(config)
        if step["step"] in _IN_GRAPH
        for rule in _IN_GRAPH[step["step"]](step)
    ]

    def clean(texts: Any) -> Any:
        for pattern, replacement in rules:
            texts = tf.strings.regex_replace(texts, pattern, replacement)
        return texts

    return clean


def left_out(config: Mapping[str, Any], *, is_tokenized: bool) -> list[dict[str, Any]]:
    """The steps that change texts before they are in the set, and that no graph has.

    Args:
        config: Configuration in the manifest.
        is_tokenized: Whether the graph takes texts, and not token ids.
    """
    steps = [
        dict(step)
        for step in steps_of(config)
        if step["step"] not in FILTERS and not (is_tokenized and step["step"] in _IN_GRAPH)
    ]
    parts = config.get("dedup_parts", "off")
    return steps if parts == "off" else [*steps, {"step": "dedup-parts", "parts": parts}]
