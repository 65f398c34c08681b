"""Facts that make a set unfit for its use, most likely: a line for each, with what to do.

The rules on classes look at a manifest alone, so they hold for sets of any age, and for all
generations of one. What only a build knows (`stages.commit.build_info`) is in its build.json.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from foundation.wording import counted, shortened, visible
from shard_format import Manifest

_MOST_NAMED = 3  # classes, of thousands perhaps
_NAME_WIDTH = 40


def set_warnings(manifest: Manifest, build: Mapping[str, Any]) -> list[str]:
    """All warnings on a set.

    Args:
        manifest: The set, with all its generations.
        build: The content of build.json of its latest build.
    """
    warnings = list(build.get("warnings", []))
    for label in _labels(manifest):
        for rule in (_one_class, _not_in_training, _not_in_others):
            warnings += rule(label)
    return warnings


class _Label(NamedTuple):
    """The classes of one label.

    Attributes:
        of: " of 'NAME'" for a further label, else "".
        several: Whether a record may have several of the classes.
        training: The split that models learn from; "" if none of the splits is.
        counts: Records by split and class; only splits with records.
        classes: All classes.
        advice: What to do about classes that are missing in a split other than that for training.
    """

    of: str
    several: bool
    training: str
    counts: dict[str, Counter[str]]
    classes: list[str]
    advice: str


def _labels(manifest: Manifest) -> Iterator[_Label]:
    """Every label that has classes, the main one first."""
    full = {name: one.statistics for name, one in manifest.splits.items() if one.records}
    shapes = {feature.name: feature.shape for feature in manifest.schema.features}
    further = dict.fromkeys(name for own in full.values() for name in own.get("labels", {}))
    by_label = {"": full} | {
        name: {split: own.get("labels", {}).get(name, {}) for split, own in full.items()}
        for name in further
    }
    for name, statistics in by_label.items():
        counts = {split: Counter(own.get("class_counts", {})) for split, own in statistics.items()}
        classes = list(dict.fromkeys(one for own in counts.values() for one in own))
        weighted = (split for split, own in statistics.items() if "class_weights" in own)
        if classes:
            of = f" of {_shown([name])}" if name else ""
            several = not name and shapes.get("label", ()) != ()
            advice = _advice(manifest.config)
            yield _Label(of, several, next(weighted, ""), counts, classes, advice)


def _advice(config: Mapping[str, Any]) -> str:
    if not isinstance(config.get("split"), Mapping):
        return "Add records of these classes to it."
    stratify = "" if config.get("stratify") else "--stratify, "
    return f"Use {stratify}larger fractions or fewer splits."


def _one_class(label: _Label) -> Iterator[str]:
    used = [one for one in label.classes if any(own[one] for own in label.counts.values())]
    if len(used) == 1 and not label.several:
        records = sum(own[used[0]] for own in label.counts.values())
        yield (
            f"{counted(records, 'record')} and one class{label.of}, {_shown(used)}: there is "
            "nothing to tell apart. Correct the folders, names or column that labels come from, or "
            "use --no-labels."
        )


def _not_in_training(label: _Label) -> Iterator[str]:
    if not label.training:
        return
    missing = [one for one in label.classes if not label.counts[label.training][one]]
    held = {
        split: sum(own[one] for one in missing)
        for split, own in label.counts.items()
        if any(own[one] for one in missing)
    }
    if held:
        where = ", ".join(f"{split!r} has {count:,}" for split, count in held.items())
        yield (
            f"{len(missing):,} of {counted(len(label.classes), 'class', 'classes')}{label.of} have "
            f"no record in split {label.training!r} ({_shown(missing)}), so no model learns them; "
            f"of their records {where}. Merge classes of a few records or leave them out, or "
            "correct where labels or splits come from."
        )


def _not_in_others(label: _Label) -> Iterator[str]:
    known = label.counts.get(label.training, Counter(label.classes))
    known_classes = [one for one in label.classes if known[one]]
    lacking = {
        split: [one for one in known_classes if not own[one]]
        for split, own in label.counts.items()
        if split != label.training
    }
    parts = [
        f"split {split!r} has no record of {len(missing):,} of "
        f"{counted(len(known_classes), 'class', 'classes')}{label.of} ({_shown(missing)})"
        for split, missing in lacking.items()
        if missing
    ]
    if parts:
        said = "; ".join(parts)
        yield f"{said[0].upper()}{said[1:]}: scores there leave these classes out. {label.advice}"


def _shown(names: Sequence[str]) -> str:
    shown = ", ".join(repr(shortened(visible(name), _NAME_WIDTH)) for name in names[:_MOST_NAMED])
    return f"{shown}, ..." if len(names) > _MOST_NAMED else shown
