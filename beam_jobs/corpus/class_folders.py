"""Whether folders around images look like classes, where nobody said that they are.

Data sets with labels elsewhere have such folders too: of images and annotations/instances.json, as
in COCO, every image would have the class "images".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from beam_jobs.corpus.names import Selection, split_name
from beam_jobs.corpus.sampling import some_entries, some_files, some_folders
from beam_jobs.corpus.sniffing import IMAGE, content_kind, is_coco
from beam_jobs.corpus.source_io import path_of
from beam_jobs.corpus.split_folders import shown_folders
from beam_jobs.options import ImageOptions
from beam_jobs.options.command import command_line, short_path
from beam_jobs.options.values import SPLIT_BY_FOLDER, pattern_groups
from foundation import storage
from foundation.storage import Place
from foundation.wording import shortened, visible
from shard_format import InputError

_MAX_SOURCES = 64  # looked into; of more, most are files
_MAX_TABLES = 8  # JSON files of a folder that are looked into
# Names of folders that data sets with labels elsewhere have.
_NO_CLASSES = re.compile(r"(img|image|jpeg|jpegimage|annotation|label)s?", re.IGNORECASE)


def check_class_folders(options: ImageOptions, *, may_be_one: bool) -> None:
    """Checks that the folders of a job that reads class folders may be classes.

    Args:
        options: The job, with its splits settled.
        may_be_one: Whether there may be a single class.

    Raises:
        InputError: They look like something else, and nobody said that they are classes.
    """
    by_name = "label" in pattern_groups(options.label_pattern)
    if options.no_labels or by_name or options.table is not None or options.base:
        return
    roots = [storage.place_of(source) for source in options.sources[:_MAX_SOURCES]]
    folders = _class_folders(roots, options.split == SPLIT_BY_FOLDER)
    if not folders:
        return  # listing says what is wrong
    table = next(_coco_tables(roots, folders, options), None)
    where = short_path(options.sources[0])
    odd = sorted(name for name in folders if _NO_CLASSES.fullmatch(name))
    changes: dict[str, object] = {}
    if table is not None:
        fact = f"{short_path(str(table))} has labels in the form of COCO, which folders do not give"
        changes["exclude"] = ",".join(filter(None, (options.exclude, "*.json")))
    elif odd:
        fact = f"{where} has {shown_folders(odd)}, which are not named like classes"
    elif len(folders) == 1 and not may_be_one and _has_image(*folders.values()):
        fact = f"{where} has one folder with images"
    else:
        return
    raise InputError(f"{fact}. {_asked(options, folders, changes)}")


def _asked(
    options: ImageOptions, folders: Mapping[str, Place], changes: Mapping[str, object]
) -> str:
    """What would be done, and the commands for all that may be meant."""
    names = sorted(folders)
    classes = f"The classes would be {shown_folders(names)}."
    if len(names) == 1:
        classes = f"Every image would have the class {shortened(visible(names[0]), 40)!r}."
    lines = [
        f"{classes} For images without labels:",
        f"  {command_line(options, no_labels=True, **changes)}",
        "With the labels of a table, a row with path and label for each image:",
        f"  {command_line(options, labels='FILE', **changes)}",
    ]
    below = folders[names[0]]
    if len(names) == len(options.sources) == 1 and len(some_folders(below)) > 1:
        command = command_line(options, sources=(str(below),))
        lines += ["If the folders in it are the classes:", f"  {command}"]
    lines += [
        "If these folders are the classes:",
        f"  {command_line(options, source='class-folders')}",
    ]
    return "\n".join(lines)


def _class_folders(roots: list[Place], by_split: bool) -> dict[str, Place]:
    """A folder of each class, by its name."""
    folders: dict[str, Place] = {}
    for root in roots:
        for name in some_folders(root):
            if by_split and split_name(name):
                folders |= {one: root / name / one for one in some_folders(root / name)}
            else:
                folders[name] = root / name
    return folders


def _has_image(folder: Place) -> bool:
    remote = storage.local_path(folder) is None
    return IMAGE in storage.in_parallel(content_kind, some_files(folder), remote=remote)


def _coco_tables(
    roots: list[Place], folders: Mapping[str, Place], options: ImageOptions
) -> Iterator[Place]:
    """Files of COCO next to the folders, and in those whose names are not of classes."""
    selection = Selection(options)
    named = [folder for name, folder in folders.items() if _NO_CLASSES.fullmatch(name)]
    for place in (*roots, *named):
        tables = [
            place / entry.name
            for entry in some_entries(place)
            if entry.kind == storage.FILE and entry.name.lower().endswith(".json")
        ]
        for table in tables[:_MAX_TABLES]:
            if selection.takes(table.name) and is_coco(path_of(table)):
                yield table
