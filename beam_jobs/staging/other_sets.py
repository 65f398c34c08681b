"""The sets that the records of a build are compared with, see --against.

They are named in the work folder when a build begins, so that all workers compare with the same
ones. A corpus that is no set becomes one in the work folder: its fingerprints are those that a set
has stored, and nothing else of it is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from beam_jobs.options import PreprocessOptions
from beam_jobs.workspace import Workspace, read_marker, write_marker
from foundation import storage
from foundation.storage import Place
from shard_format import InputError, UsageError

Options = TypeVar("Options", bound=PreprocessOptions)

_OTHERS = "others.json"  # in the work folder
# What decides about the fingerprints of a corpus, and how fast they are made.
_COMPARED = {
    *("dedup", "near_threshold", "near_by", "max_record_bytes", "follow_links", "seed"),
    *("workers", "worker_type", "on_unreadable", "unit_size"),
    # images
    *("image_column", "resize", "enlarge", "resize_filter", "encoding", "quality", "max_pixels"),
    *("lenient", "background", "animated", "time_limit"),
    # documents
    *("format", "per_line", "separator", "columns", "xml_element", "text_column", "clean"),
    "languages",
}
_CAPTIONS = {"caption_column", "clean_captions"}  # where near duplicates have similar ones


class OtherSet(NamedTuple):
    """A set that records are compared with.

    Attributes:
        name: What its records are called by.
        place: Path or URL of the set.
        identity: Root hash of the set; of a corpus that is staged first, its build id.
        source: The corpus that is staged first; "" for a set.
    """

    name: str
    place: str
    identity: str
    source: str


def name_others(sources: Sequence[str]) -> list[tuple[str, str]]:
    """(name, source) of each: the last part of its path, or all of it where two share that."""
    names = [storage.place_of(source).name for source in sources]
    return [
        (name if names.count(name) == 1 else source, source)
        for name, source in zip(names, sources, strict=True)
    ]


def other_corpus(options: Options, source: str, out: Place | str) -> Options:
    """The job that stages a corpus as the records of another job are staged.

    Raises:
        UsageError: Its records come from a program.
    """
    if options.record_type == "record":
        raise UsageError(
            f"--against {source} is no shard set. Records of a program are compared with sets "
            "alone: build one of it."
        )
    near_by = getattr(options, "near_by", "image")
    names = _COMPARED | (_CAPTIONS if near_by != "image" else set())
    values = {name: getattr(options, name) for name in names if hasattr(options, name)}
    return type(options)(
        sources=(source,),
        out=str(out),
        no_labels=True,
        split="train=1",
        no_report=True,
        keep_empty=True,
        **values,
    )


def write_others(workspace: Workspace, others: Sequence[OtherSet]) -> None:
    """Writes which sets the build is compared with."""
    write_marker(workspace, workspace.work / _OTHERS, others)


def other_sets(workspace: Workspace) -> list[OtherSet]:
    """The sets that the build is compared with."""
    return [OtherSet(*one) for one in read_marker(workspace.work / _OTHERS) or ()]


def identities(workspace: Workspace) -> list[tuple[str, str]]:
    """(name, identity) of each: what the build depends on."""
    return [(one.name, one.identity) for one in other_sets(workspace)]


def check_sets(workspace: Workspace) -> None:
    """Checks that all of them are sets, in a job whose launcher does not stage one first.

    Raises:
        InputError: One is a corpus.
    """
    for other in other_sets(workspace):
        if other.source:
            raise InputError(
                f"--against {other.source} is no shard set, and a job that is handed over stages "
                "one corpus alone. Build a set of it first, and name that."
            )
