"""--split where it is not given: the folders of splits that a corpus has, or fractions.

Without this, `photos/train/cat` and `photos/test/cat` would be the classes "train" and "test", or
a test set would be mixed into the records to train on.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Mapping
from typing import TypeVar

from beam_jobs.corpus.names import SPLIT_NAMES, prefixes, split_name
from beam_jobs.corpus.record import SourceItem
from beam_jobs.corpus.record_extractor import RecordExtractor
from beam_jobs.corpus.sampling import some_entries, some_folders, some_members
from beam_jobs.corpus.source_io import is_file, path_of
from beam_jobs.options import PreprocessOptions
from beam_jobs.options.command import command_line, short_path
from beam_jobs.options.formats import CONTAINERS
from beam_jobs.options.values import DEFAULT_SPLIT, SPLIT_BY_FOLDER, pattern_groups
from foundation import storage
from foundation.storage import Place
from foundation.wording import shortened, visible
from shard_format import InputError

_MAX_CLASSES = 1 << 14  # entries of a folder of a split; iNaturalist has 10,000 classes
_MAX_MEMBERS = 1 << 16  # of an archive: a second or less
_SHARED = 0.5  # of the classes of a split, which the split with the most classes has too
_SHOWN = 4  # names in a message

# Of any record type.
Options = TypeVar("Options", bound=PreprocessOptions)
# What is in each folder of the first level, by name: the names of the folders in it.
Folders = Mapping[str, Collection[str]]


def settle_split(
    options: Options, extractor: RecordExtractor, *, folders_label: bool = True
) -> Options:
    """The options with the value of --split that is meant, if it is not given.

    Args:
        options: The job, with its source settled.
        extractor: The extractor of the job.
        folders_label: Whether folders label records, as far as the extractor does not know.

    Raises:
        InputError: Folders may be splits or classes, or a source is inside of another.
    """
    if options.split is not None:
        return options
    by_name = "label" in pattern_groups(options.label_pattern)
    is_labeled = not (options.no_labels or by_name or options.table is not None)
    labelled = folders_label and extractor.needs_class_folders and is_labeled
    roots = [_SourceFolders(place, options, extractor, labelled) for place in _looked_into(options)]
    reason = _why_folders(roots)
    if reason and not (options.stratify and not labelled):
        if options.stratify:
            raise _ambiguous(f"{reason}, and --stratify needs fractions", options)
        note = f"{reason}: --split folders is used."
        return dataclasses.replace(options, split=SPLIT_BY_FOLDER, notes=(*options.notes, note))
    named = [root for root in roots if root.labelled and root.split_names]
    if named:
        # Nested sources are a mistake first.
        prefixes([storage.place_of(source) for source in options.sources])
        unclear = min(named, key=lambda root: root.is_clear)
        raise _ambiguous(unclear.described(), options, unclear.only_folder())
    return dataclasses.replace(options, split=DEFAULT_SPLIT)


def _looked_into(options: PreprocessOptions) -> list[Place]:
    """The sources that are folders, and the first that is a file: there may be 10,000 archives."""
    places = [storage.place_of(source) for source in options.sources]
    is_folder = [storage.is_folder(place) for place in places]
    folders = [place for place, is_one in zip(places, is_folder, strict=True) if is_one]
    files = (place for place, is_one in zip(places, is_folder, strict=True) if not is_one)
    return [*folders, *itertools.islice(files, 1)]


class _SourceFolders:
    """The first two levels of folders of a source.

    Attributes:
        place: The source.
        folders: In it, or in the archive that it is or that is its first file.
        split_names: Those of `folders` that are names of splits, in their usual order.
        labelled: Whether the folders of the first level label records.
    """

    def __init__(
        self, place: Place, options: PreprocessOptions, extractor: RecordExtractor, labelled: bool
    ) -> None:
        self.place = place
        self.is_folder = storage.is_folder(place)
        self.folders: Folders = _folders_in(place) if self.is_folder else {}
        # Around an archive of images, folders label nothing.
        in_archives = getattr(options, "source", "") in CONTAINERS
        self.labelled = labelled and not in_archives
        if not any(map(split_name, self.folders)):
            archive = _first_file(place) if self.is_folder else place
            inside = _folders_inside(archive, extractor) if archive is not None else {}
            if any(map(split_name, inside)):
                self.place, self.folders, self.labelled = archive or place, inside, labelled
                self.is_folder = False
        self.split_names = sorted(filter(split_name, self.folders), key=_in_order)

    @property
    def has_only_splits(self) -> bool:
        """Whether all folders of the first level are splits, of two or more."""
        return len(self.split_names) == len(self.folders) and _several(self.split_names)

    @property
    def is_clear(self) -> bool:
        """Whether the folders of the first level are splits beyond doubt."""
        return self.has_only_splits and (not self.labelled or _same_classes(self.folders))

    def why(self) -> str:
        """Why its folders are splits."""
        same = " with the same classes" if _same_classes(self.folders) else " and no other folder"
        return f"{short_path(str(self.place))} has {shown_folders(self.split_names)}{same}"

    def described(self) -> str:
        """Why it is not clear whether its folders are splits."""
        name, others = short_path(str(self.place)), sorted({*self.folders} - {*self.split_names})
        if others:
            return f"{name} has {shown_folders(self.split_names)} next to {shown_folders(others)}"
        if not _several(self.split_names):
            return f"{name} has no other folder than {shown_folders(self.split_names)}"
        if self.is_clear:
            return f"{self.why()}, and another source has no such folders"
        inside = "different folders" if any(self.folders.values()) else "no class folders"
        return f"{name} has {shown_folders(self.split_names)} with {inside} inside"

    def only_folder(self) -> str | None:
        """The folder that has the classes, if there is no other."""
        if self.is_folder and len(self.folders) == 1 and self.folders[self.split_names[0]]:
            return str(self.place / self.split_names[0])
        return None


def splits_have_same_classes(options: PreprocessOptions) -> bool:
    """Whether each source is a folder in which two or more splits have the same folders."""
    for source in options.sources:
        folders = _folders_in(storage.place_of(source))
        by_split = {name: inside for name, inside in folders.items() if inside and split_name(name)}
        if not (_several(by_split) and _same_classes(by_split)):
            return False
    return True


def _why_folders(roots: list[_SourceFolders]) -> str:
    """Why --split folders is meant; "" if it is not."""
    if all(root.is_clear for root in roots):
        return roots[0].why()
    if any(root.split_names for root in roots) or not all(root.is_folder for root in roots):
        return ""
    # photos/train photos/test
    names = [storage.resolved(root.place).name for root in roots]  # as in record ids
    if not (all(map(split_name, names)) and _several(names)):
        return ""
    inside = {str(number): list(root.folders) for number, root in enumerate(roots)}
    if roots[0].labelled and not _same_classes(inside):
        return ""
    same = " with the same classes" if _same_classes(inside) else ""
    return f"The sources are {shown_folders(sorted({*names}, key=_in_order))}{same}"


def _in_order(name: str) -> tuple[int, str]:
    """Sorts train before validation before test."""
    return list(SPLIT_NAMES.values()).index(split_name(name) or "train"), name


def _several(names: Collection[str]) -> bool:
    return len({split_name(name) for name in names}) > 1


def _same_classes(folders: Folders) -> bool:
    """Whether each of some folders has mostly folders that the one with the most has too."""
    inside = [set(names) for names in folders.values()]
    most = max(inside, key=len)
    return all(names and len(names & most) >= _SHARED * len(names) for names in inside)


def shown_folders(names: list[str]) -> str:
    """The names of some folders for a message: "train/, val/ and 3 more"."""
    shown = [f"{shortened(visible(name), 40)}/" for name in names[:_SHOWN]]
    if len(names) > _SHOWN:
        shown.append(f"{len(names) - _SHOWN:,} more")
    *first, last = shown
    return f"{', '.join(first)} and {last}" if first else last


def _ambiguous(found: str, options: PreprocessOptions, classes_in: str | None = None) -> InputError:
    sources = (classes_in,) if classes_in and len(options.sources) == 1 else options.sources
    by_folder = command_line(options, split=SPLIT_BY_FOLDER, stratify=False)
    by_fraction = command_line(options, sources=sources, split=DEFAULT_SPLIT)
    return InputError(
        f"{found}. If these are splits:\n  {by_folder}\nIf they are not:\n  {by_fraction}"
    )


def _folders_in(root: Place) -> Folders:
    """The folders in a folder; only those with names of splits are looked into."""
    return {
        name: some_folders(root / name, _MAX_CLASSES) if split_name(name) else ()
        for name in some_folders(root)
    }


def _first_file(root: Place) -> Place | None:
    files = (entry.name for entry in some_entries(root) if entry.kind == storage.FILE)
    return next((root / name for name in files), None)


def _folders_inside(archive: Place, extractor: RecordExtractor) -> Folders:
    """The folders in an archive, without one around all of them; none if they label nothing."""
    file = SourceItem(archive.name, path_of(archive), None, 0, 0)
    members = None
    if is_file(file.path):
        members = some_members(file, extractor.container_of, _MAX_MEMBERS)
    names = [member.name for member in members or ()]
    if extractor.groups_members and any(name.endswith((".cls", ".json")) for name in names):
        return {}  # in WebDataset form
    names = [name for name in names if extractor.is_primary(name)]
    paths = [tuple(name.split("/")[:-1]) for name in names]
    tops = {path[:1] for path in paths}
    if len(tops) == 1 and all(len(path) > 1 for path in paths) and not split_name(paths[0][0]):
        paths = [path[1:] for path in paths]
    folders: dict[str, set[str]] = {}
    for path in paths:
        if path:
            folders.setdefault(path[0], set()).update(path[1:2])
    return folders
