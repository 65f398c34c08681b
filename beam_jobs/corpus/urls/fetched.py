"""The records of lists of URLs, each with what its URL gave, in the order of the list."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from beam_jobs import bounds
from beam_jobs.corpus.record import RawRecord, ReadResult, Rejection, UnusableRecord
from beam_jobs.corpus.record_extractor import FileExtractor
from beam_jobs.corpus.replacements import Replacement
from beam_jobs.corpus.source_io import read_file
from beam_jobs.corpus.urls.client import Fetched, Outcome, client_of, release
from beam_jobs.corpus.urls.originals import GROUP_ROWS, OriginalGroup, Originals, ends_group
from beam_jobs.corpus.urls.queue import UrlQueue
from beam_jobs.options.urls import UrlOptions
from foundation import storage


class _Row(NamedTuple):
    """A row of a list on its way.

    Attributes:
        result: What its list has of it.
        group: The group of originals that it is kept in, if it names a URL and they are kept.
        number: Its place in the group.
        is_last: Whether the group ends with it.
    """

    result: ReadResult
    group: OriginalGroup | None = None
    number: int = 0
    is_last: bool = False


class FetchedRecords:
    """Fetches for one worker, over the client of its process.

    Args:
        options: The job.
        extractor: Makes records of what was fetched.
    """

    def __init__(self, options: UrlOptions, extractor: FileExtractor) -> None:
        self._extractor = extractor
        self._client = client_of(options, extractor.limit)
        self._originals: Originals | None = None
        if options.keep_originals is not None:
            folder = storage.place_of(options.keep_originals)
            self._originals = Originals(folder, options, extractor.limit)

    def close(self) -> None:
        """Ends the use of the client."""
        release(self._client)

    def read(
        self, results: Iterator[ReadResult], replaced: Mapping[str, Replacement]
    ) -> Iterator[ReadResult]:
        """The records of a list, with what their URLs gave.

        Args:
            results: Those of the list, whose payload is a URL.
            replaced: Files in place of what some URLs give, by the place of the row.
        """
        queue, waiting = UrlQueue(self._client), deque[_Row]()
        groups = self._groups(results)
        try:
            while True:
                urls: list[str | None] = []
                while len(waiting) < bounds.FETCHED_AHEAD and (rows := next(groups, None)):
                    waiting.extend(rows)
                    urls += [self._asked(row, replaced) for row in rows]
                if not waiting:
                    return
                for outcome in self._client.call(queue.exchange(urls)):
                    yield self._finished(waiting.popleft(), outcome, replaced)
        finally:
            self._client.call(queue.close())
            for group in {id(row.group): row.group for row in waiting}.values():
                if group is not None:
                    group.abandon()

    def _groups(self, results: Iterator[ReadResult]) -> Iterator[list[_Row]]:
        """The rows by their group of originals."""
        rows: list[ReadResult] = []
        for result in results:
            rows.append(result)
            ends = isinstance(result, RawRecord) and ends_group(result.payload)
            if ends or len(rows) == GROUP_ROWS:
                yield self._with_group(rows)
                rows = []
        if rows:
            yield self._with_group(rows)

    def _with_group(self, results: list[ReadResult]) -> list[_Row]:
        urls = [one.payload for one in results if isinstance(one, RawRecord)]
        if self._originals is None or not urls:
            return [_Row(one) for one in results]
        group, rows = self._originals.group(urls), list[_Row]()
        number = 0
        for one in results:
            if not isinstance(one, RawRecord):
                rows.append(_Row(one))
                continue
            rows.append(_Row(one, group, number, number == len(urls) - 1))
            number += 1
        return rows

    def _asked(self, row: _Row, replaced: Mapping[str, Replacement]) -> str | None:
        """The URL to ask for a row; None if there is nothing to ask."""
        if not isinstance(row.result, RawRecord) or _place_of(row.result) in replaced:
            return None
        if row.group is not None and not row.group.asks(row.number):
            return None
        return str(row.result.payload)

    def _finished(
        self, row: _Row, outcome: Outcome | None, replaced: Mapping[str, Replacement]
    ) -> ReadResult:
        record = row.result
        if not isinstance(record, RawRecord):
            return record
        if outcome is not None:
            outcome = self._decoded(record.payload, outcome)
        elif row.group is not None:
            outcome = row.group.stored(row.number)
        file = replaced.get(_place_of(record))
        if file is not None:
            used = _replacement(file, self._extractor.limit)
        elif outcome is not None:
            used = outcome
        else:  # damaged since the group was opened
            used = self._client.call(UrlQueue(self._client).ask(record.payload))
            used = outcome = self._decoded(record.payload, used)
        if row.group is not None:
            row.group.keep(row.number, record.payload, outcome)
            if row.is_last:
                row.group.finish()
        return self._record(record, used)

    def _decoded(self, url: str, outcome: Outcome) -> Outcome:
        """An outcome with its content codings undone."""
        try:
            if isinstance(outcome, Fetched):
                outcome = outcome.decoded(self._extractor.limit)
            return outcome
        except Rejection as rejection:
            return Rejection(rejection.reason, f"{url}: {rejection.detail}")

    def _record(self, record: RawRecord, outcome: Outcome) -> ReadResult:
        """The record of an outcome, or why there is none."""
        if isinstance(outcome, Rejection):
            rejection = outcome
        else:
            try:
                return self._extractor.from_answer(record, outcome.body, outcome.content_type)
            except Rejection as error:
                rejection = error.with_data(outcome.body)
        return UnusableRecord(record.record_id, rejection.at("read"), record.annotations.label)


def _place_of(record: RawRecord) -> str:
    """The place of a row in its list."""
    return record.record_id.rpartition("/")[2]


def _replacement(file: Replacement, limit: int) -> Outcome:
    with contextlib.suppress(Rejection):
        return Fetched(read_file(file.path, file.size, limit), "")
    return Rejection("missing-file", "the file that replaces it was removed")
