"""Which files of an archive are records, and what labels them.

An archive whose pictures have companions of the same name (0001.jpg with 0001.cls or 0001.json) is
in WebDataset form: the members of one name are one record. A .txt alone makes that form only where
no folder can say the class. In any other archive the members lie in class folders; a single folder
around all of them, as packing a folder makes it, is no class, whatever else than pictures lies
beside the class folders.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from beam_jobs.corpus.record import Rejection
from beam_jobs.options import PreprocessOptions
from beam_jobs.options.values import SPLIT_BY_FOLDER
from beam_jobs.sources.base import Item
from beam_jobs.sources.cells import Said, said_by, wanted_columns
from beam_jobs.sources.contents import PICTURES, Contents, Entry, is_picture, split_key
from beam_jobs.sources.naming import SPLIT_NAMES, split_name

COMPANIONS = ("cls", "json", "txt")  # the first that a record has says its label
_MAX_COMPANION_BYTES = 16 << 20  # 16 MiB; a label is shorter
_SPLITS = ", ".join(SPLIT_NAMES)
_NO_BYTES = "-"  # the locator of an entry that has none


def place_of(item: Item) -> tuple[str, dict[str, str]]:
    """Where the bytes of a record lie, and those of its companions by extension.

    Raises:
        Rejection: It has no bytes.
    """
    if item.locator == _NO_BYTES:
        raise Rejection("no-bytes", "the entry has no bytes of its own")
    place, *companions = item.locator.split("|")
    return place, dict(text.split("=", 1) for text in companions)


def folder_items(contents: Contents, archive: Item, options: PreprocessOptions) -> Iterator[Item]:
    """The records of an archive with class folders inside."""
    by_folder = options.split == SPLIT_BY_FOLDER
    outer = contents.outer_folder
    if by_folder and outer is not None and split_name(outer) is not None:
        outer = None  # it says the split
    for one in contents:
        item, folders = item_of(archive, one), one.name.split("/")[:-1]
        folders = folders[1:] if outer is not None else folders
        split = archive.split
        if by_folder and split is None and folders:
            split, folders = split_name(folders[0]), folders[1:]
        label = folders[0] if folders and not options.no_labels else None
        item = item._replace(label=label, split=split)
        if not item.refused and by_folder and split is None:
            reason = f"no-split-folder: with --split folders it must lie in one of {_SPLITS}"
            item = item._replace(refused=reason)
        elif not item.refused and label is None and not options.no_labels:
            reason = "no-class-folder: the member lies beside the class folders of the archive"
            item = item._replace(refused=reason)
        yield item


def webdataset_items(
    contents: Contents,
    archive: Item,
    options: PreprocessOptions,
    on_ignored: Callable[[str], None],
) -> Iterator[Item]:
    """The records of an archive in WebDataset form."""
    key, group = "", list[Entry]()
    for one in contents:
        if one.refused:
            yield item_of(archive, one)
            continue
        own_key, _ = split_key(one.name)
        if own_key != key:
            yield from _grouped(group, archive, options, on_ignored)
            key, group = own_key, []
        group.append(one)
    yield from _grouped(group, archive, options, on_ignored)


def _grouped(
    group: list[Entry],
    archive: Item,
    options: PreprocessOptions,
    on_ignored: Callable[[str], None],
) -> Iterator[Item]:
    """The record that the members of one key are; several if they do not make one."""
    by_extension = {split_key(one.name)[1]: one for one in group}
    pictures = [one for one in group if is_picture(split_key(one.name)[1])]
    exact = [one for one in pictures if split_key(one.name)[1] in PICTURES]
    if len(exact) == 1 and not options.no_labels:
        pictures = exact  # beside 7.jpg, a 7.seg.png is a mask
    found = [name for name in COMPANIONS if name in by_extension and by_extension[name].place]
    found = [name for name in found if by_extension[name].size <= _MAX_COMPANION_BYTES]
    split, refused = archive.split, ""
    if options.split == SPLIT_BY_FOLDER and split is None:
        refused = f"no-split-folder: the archive must lie in, or be named for, one of {_SPLITS}"
    elif len(pictures) > 1 and not options.no_labels:
        refused = f"several-pictures: {len(pictures)} pictures have one key"
    elif wanted_columns(options) and not found:
        refused = f"no-companion: no {', '.join(COMPANIONS)} has the same key"
    if not pictures:
        refused = "no-picture: no picture has the same key"
        pictures = group
    for one in group:
        if one not in pictures:
            if split_key(one.name)[1] not in COMPANIONS:
                on_ignored(f"{archive.record_id}/{one.name}")
            continue
        item = item_of(archive, one)._replace(refused=refused, split=split)
        companions = "".join(f"|{name}={by_extension[name].place}" for name in found)
        yield item._replace(locator=item.locator + companions)


def item_of(archive: Item, one: Entry) -> Item:
    """The record that an entry is, without what labels it."""
    again = f"//{one.copy}" if one.copy > 1 else ""
    return archive._replace(
        record_id=f"{archive.record_id}/{one.name}{again}",
        size=one.size,
        refused=one.refused,
        locator=one.place or _NO_BYTES,
    )


def said_by_companions(companions: dict[str, bytes], options: PreprocessOptions) -> Said:
    """What the companions of a picture say of it.

    Raises:
        Rejection: One of them cannot be read, or says what cannot be.
    """
    fields: dict[str, object] = {}
    if "json" in companions:
        try:
            fields = json.loads(companions["json"])
        except (ValueError, RecursionError) as error:
            raise Rejection("bad-companion", f"its .json is no JSON: {error}") from None
        if not isinstance(fields, dict):
            raise Rejection("bad-companion", f"its .json is a {type(fields).__name__}, no object")
    column = options.label_column
    for name in ("cls", "txt"):
        if name in companions and (name == "cls" or "json" not in companions):
            fields = {**fields, column or "label": companions[name].strip()}
            break
    return said_by(fields, (), options)
