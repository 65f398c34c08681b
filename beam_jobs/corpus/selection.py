"""Which files of a corpus are read, by --include and --exclude."""

from __future__ import annotations

import fnmatch
import re

from beam_jobs.corpus.names import own_name, own_path
from beam_jobs.options import PreprocessOptions
from beam_jobs.options.values import parse_globs

# Globs as expressions: those for names, and those for paths.
Globs = tuple[list[re.Pattern[str]], list[re.Pattern[str]]]


class Selection:
    """The files and members of archives that a job reads, by their ids.

    Args:
        options: The job.
    """

    def __init__(self, options: PreprocessOptions) -> None:
        self._include = _expressions("--include", options.include)
        self._exclude = _expressions("--exclude", options.exclude)

    def __bool__(self) -> bool:
        return any(self._include) or any(self._exclude)

    def excludes(self, *ids: str) -> bool:
        """Whether a glob of --exclude matches a file, or a member or its archive."""
        return _match(self._exclude, ids)

    def takes(self, *ids: str) -> bool:
        """Whether a file is read; a member, if a glob of --include matches it or its archive."""
        included = not any(self._include) or _match(self._include, ids)
        return included and not self.excludes(*ids)


def _expressions(flag: str, globs: str | None) -> Globs:
    parsed = parse_globs(flag, globs) if globs else ()
    expressions = {glob: re.compile(fnmatch.translate(glob)) for glob in parsed}
    of_names = [one for glob, one in expressions.items() if "/" not in glob]
    return of_names, [one for glob, one in expressions.items() if "/" in glob]


def _match(globs: Globs, ids: tuple[str, ...]) -> bool:
    of_names, of_paths = globs
    return any(
        any(one.match(own_name(id)) for one in of_names)
        or any(one.match(own_path(id)) for one in of_paths)
        for id in ids
    )
