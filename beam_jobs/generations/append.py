"""`preprocess ... --append`: a build into the next generation of a set.

All stages, files and resumption are those of any build; the last step publishes the generation.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

from beam_jobs.build import (
    Build,
    begin,
    has_report,
    locked_output,
    open_job,
)
from beam_jobs.build import finish as finish_build
from beam_jobs.generations.views import known_builds, publish, publish_finished
from beam_jobs.like import options_like
from beam_jobs.memory import system_memory_pool
from beam_jobs.options import PreprocessOptions
from beam_jobs.papers import renew_papers
from beam_jobs.progress import OnProgress
from beam_jobs.publishing import recover
from beam_jobs.run import run_build
from beam_jobs.set_warnings import set_warnings
from beam_jobs.stages.list import Listing
from beam_jobs.workspace import Workspace
from foundation import storage
from foundation.options import declared, flag_of
from foundation.storage import Place
from foundation.wording import counted, format_bytes
from shard_format import (
    InputError,
    Manifest,
    ShardmillError,
    UsageError,
    load_build,
    load_manifest,
    naming,
)
from shard_format.checksums import has_own_card, whole_build
from shard_format.papers import joined_papers, papers_of, papers_text, parse_papers
from shard_format.schema import KEPT_IN_INDEX

# Options that an appended generation may have of its own.
_OWN = frozenset({"source", "id_prefix"})


class Appended(NamedTuple):
    """A generation that was appended, or was there already.

    Attributes:
        number: Number of the generation.
        out: The set.
        own: Manifest of the generation alone.
        manifest: Manifest of the set.
        build: Content of the generation's build.json.
        ignored: Hidden files and entries that were not read.
        already_built: Whether the set had these sources before.
    """

    number: int
    out: Place
    own: Manifest
    manifest: Manifest
    build: dict[str, Any]
    ignored: int
    already_built: bool

    def summary(self) -> dict[str, Any]:
        """Of the set, and under "generation" of what was appended, for `--json`."""
        return self.manifest.summary() | {
            "generation": {
                "number": self.number,
                "already_built": self.already_built,
                **self.own.summary(),
            },
            "units": self.build.get("units", 0),
            "ignored": self.ignored,
            "notes": self.build.get("notes", []),
            "warnings": set_warnings(self.manifest, self.build),
        }


def append(
    options: PreprocessOptions,
    given: Collection[str] | None = None,
    beam_args: Sequence[str] = (),
    on_progress: OnProgress = lambda stage, done, total: None,
    on_note: Callable[[str], None] = lambda note: None,
) -> Appended:
    """Adds sources to a set as a new generation, or resumes that.

    Args:
        options: The job; `out` is the set.
        given: Names of the options that the user gave; None for those that differ from the default.
        beam_args: Pipeline options for Beam; none means the local engine.
        on_progress: See `run.preprocess`.
        on_note: See `run.preprocess`.

    Raises:
        UsageError: An option differs from that of the set.
        InputError: The corpus cannot be used, or the set not be appended to.
    """
    base = storage.place_of(storage.absolute(options.out))
    # The lock of builds into the set itself: one of them may replace it.
    with lock_of(base, on_note):
        recover(base)
        named = load_manifest(base).newest
        before = publish_finished(base, on_note)
        number = before.newest + 1
        context = open_job(generation_job(options, base, given))
        job, workspace = context.options, context.workspace
        for note in job.notes:
            on_note(note)
        with system_memory_pool(), locked_output(workspace, on_note):
            unfinished = storage.is_folder(workspace.plan)
            try:  # what another command left unpublished in its folder is built again
                build = begin(context, lambda done: on_progress("list", done, 0), discard=True)
            except (ShardmillError, OSError):
                if not unfinished:
                    _discard(workspace)
                raise
            on_progress("list", build.listing.items, build.listing.items)
            known = generation_with(base, before, build.listing)
            if known is not None:
                _discard(workspace)
                _renew_report(job, base)  # an append may have been killed before it did
                return _report(base, before, known, build, already_built=known <= named)
            if build.listing.known:
                on_note(_known_note(build.listing))
            if not build.complete:
                run_build(context, build, beam_args, on_progress, on_note)
            # Before it is published: no later command looks into the folder of this build.
            finish_build(context.with_options(no_report=True), rebuilt=False)
        manifest = publish(base, number)
        _renew_report(job, base)
        return _report(base, manifest, number, build, already_built=False)


def generation_job(
    options: PreprocessOptions, base: Place, given: Collection[str] | None
) -> PreprocessOptions:
    """Returns the options of the build of the next generation of a set.

    Args:
        options: What was asked for.
        base: The set.
        given: See `append`.

    Raises:
        UsageError: An option differs from that of the set.
        InputError: The set cannot be appended to.
    """
    manifest = load_manifest(base)
    check_appendable(base, manifest)
    options = like_the_set(options, base, manifest, given)
    options = dataclasses.replace(options, kept_in_index=bool(manifest.config.get(KEPT_IN_INDEX)))
    out = base / naming.generation_folder(manifest.newest + 1)
    papers = joined_papers(papers_of(whole_build(base)), parse_papers(options.papers))
    return dataclasses.replace(
        options, out=str(out), base=str(base), append=False, papers=papers_text(papers)
    )


@contextlib.contextmanager
def lock_of(base: Place, on_note: Callable[[str], None]) -> Iterator[None]:
    """Keeps other processes from changing a set.

    Raises:
        ShardSetError: There is no set.
        InputError: Another process changes it.
    """
    load_manifest(base)
    workspace = Workspace(base, None)
    with locked_output(workspace, on_note):
        try:
            yield
        finally:
            workspace.remove()  # of a whole set, nothing in it is needed


def check_appendable(base: Place, manifest: Manifest) -> None:
    """Checks that records can be added to a set.

    Raises:
        InputError: It was built with an option that depends on all records.
    """
    config = manifest.config
    reasons = {
        "balance": "the records that it left out of large classes would be needed now, and are not "
        "in the set. Use class weights, or sample='balanced' in the reader, in a set without it",
        "top": "the records that it left out would be needed now, and are not in the set",
        "dedup_parts": "a line or paragraph that a new document has too may have to be taken out "
        "of an old one",
    }
    for name, reason in reasons.items():
        if config.get(name, "none") not in ("none", "off", "oversample", None):
            raise InputError(
                f"{base} was built with {flag_of(name)} {config[name]} and cannot be appended to: "
                f"{reason}. Build the set again, from all sources."
            )
    if config.get("record_type") is None:
        raise InputError(f"{base} does not say how it was built. Build the set again.")


def like_the_set(
    options: PreprocessOptions, base: Place, manifest: Manifest, given: Collection[str] | None
) -> PreprocessOptions:
    """Returns the options of the first build, with those of this job that concern it alone.

    Raises:
        UsageError: A given option differs from that of the set.
    """
    saved = options_like(base, type(options)) | {"name": manifest.name}
    own = _OWN | (options.without_effect() - {"name", "tokenizer", "decontaminate", "score"})
    values: dict[str, Any] = {}
    wrong = []
    for field in declared(options):
        name, value = field.name, getattr(options, field.name)
        if name in own:
            continue
        of_set = saved.get(name, field.default)
        chosen = value != field.default if given is None else name in given
        if chosen and value != of_set:
            wrong.append(f"{flag_of(name)} is {_shown(value)} and {_shown(of_set)} in the set")
        values[name] = of_set
    for name in ("against", "against_action"):  # others may be given, but are not left out
        if getattr(options, name) == getattr(type(options), name):
            values[name] = saved.get(name, getattr(options, name))
    schema = getattr(options, "schema", None)  # of a program of the user
    of_set = load_build(base).get("options", {}).get("schema")
    if schema != of_set:
        wrong.append(f"schema is {schema} and {of_set} in the set")
    if wrong:
        raise UsageError(
            f"--append adds to {base} with the options it was built with, but {'; '.join(wrong)}. "
            "Leave them out, or build another set."
        )
    return dataclasses.replace(options, **values)


def _shown(value: Any) -> str:
    return "not given" if value is None else str(value)


def _discard(workspace: Workspace) -> None:
    """Removes the folder of a generation that is not to be."""
    workspace.remove()
    storage.delete_tree(workspace.out)
    path = storage.local_path(workspace.out.parent)
    if path is not None:
        with contextlib.suppress(OSError):  # other generations are in it
            path.rmdir()


def generation_with(base: Place, manifest: Manifest, listing: Listing) -> int | None:
    """Returns the generation that has the same sources, read with the same options."""
    if not listing.items:
        return listing.known_to
    folders = [one.folder for one in manifest.generations] or [""]
    for number, folder in enumerate(folders):
        if listing.build_id in known_builds(load_build(base / folder if folder else base)):
            return number
    return None


def _known_note(listing: Listing) -> str:
    of = f"{listing.known:,} of {counted(listing.items + listing.known, 'file')}"
    return (
        f"{of}, {format_bytes(listing.known_bytes)}, were read by earlier generations and have "
        f"not changed: {counted(listing.items, 'file')}, {format_bytes(listing.bytes)}, to read"
    )


def _renew_report(options: PreprocessOptions, base: Place) -> None:
    """Replaces papers, and the pages of an earlier generation: they are about all records."""
    renew_papers(base, options.papers, wants_card=not options.no_report)
    if has_report(base):
        return
    if options.no_report:
        storage.delete(base / naming.REPORT)
        if has_own_card(base):
            storage.delete(base / naming.CARD)
        return
    from beam_jobs.report import write_report  # loads image libraries

    workspace = Workspace(base, None)
    workspace.create()
    write_report(base, scratch=workspace.scratch_of(base / naming.REPORT))


def _report(
    base: Place, manifest: Manifest, number: int, build: Build, *, already_built: bool
) -> Appended:
    folder = manifest.generations[number].folder if manifest.generations else ""
    place = base / folder if folder else base
    info = load_build(place)
    first = load_manifest(base, 0) if not folder else load_manifest(place)
    ignored = build.listing.ignored + info.get("ignored", 0)
    return Appended(number, base, first, manifest, info, ignored, already_built)
