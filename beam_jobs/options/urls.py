"""The options of jobs whose sources may be lists of URLs, which are fetched."""

from __future__ import annotations

import dataclasses
from typing import Any

from typing_extensions import override

from beam_jobs.options.base import PreprocessOptions, run_option
from beam_jobs.options.values import FOLDER
from foundation.options import Limits, flag_of, option
from shard_format import UsageError

_FETCHING = ("keep_originals", "allow_private", "ignore_opt_outs", "contact")


@dataclasses.dataclass(frozen=True)
class UrlOptions(PreprocessOptions):
    """Options of a job that can fetch what lists of URLs name; see PreprocessOptions."""

    url_column: str | None = option(
        None,
        "SRC are lists of URLs, which are fetched: the column or field with the URL (Parquet, "
        "Arrow, CSV, TSV, JSON Lines). In text without columns every line is a URL.",
        "NAME",
        absent_as=None,
        excludes={"--labels": "has the labels next to the URLs"},
    )
    keep_originals: str | None = run_option(
        None,
        "With --url-column: keep what was fetched in this folder, and fetch nothing that it has. "
        "A later build with other options, or a replay, takes it from there.",
        form=FOLDER,
    )
    connections: int = run_option(
        128,
        "With --url-column: most requests at a time of a worker process.",
        "N",
        type=int,
        limits=Limits(1, 10**4),
    )
    connections_per_host: int = run_option(
        8,
        "With --url-column: most of these requests to one host.",
        "N",
        type=int,
        limits=Limits(1, 10**4),
    )
    fetch_retries: int = run_option(
        2,
        "With --url-column: how often a request is repeated that a server refuses for the moment "
        "(429, 5xx), that takes too long, or whose connection fails.",
        "N",
        type=int,
        limits=Limits(0, 100),
    )
    connect_timeout: float = run_option(
        10.0,
        "With --url-column: give up a connection that takes longer to open.",
        "SECONDS",
        type=float,
        limits=Limits(0.01, 1e4),
    )
    read_timeout: float = run_option(
        10.0,
        "With --url-column: give up a server that sends nothing for so long.",
        "SECONDS",
        type=float,
        limits=Limits(0.01, 1e4),
    )
    fetch_timeout: float = run_option(
        60.0,
        "With --url-column: give up a file that takes longer, with its redirects.",
        "SECONDS",
        type=float,
        limits=Limits(0.01, 1e6),
    )
    max_redirects: int = option(
        5,
        "With --url-column: follow so many redirects of a URL.",
        "N",
        type=int,
        limits=Limits(0, 100),
        absent_as=5,
    )
    allow_private: bool = option(
        False,
        "With --url-column: also connect to addresses of private networks and of this machine.",
        type=bool,
        absent_as=False,
    )
    ignore_opt_outs: bool = option(
        False,
        "With --url-column: also take files whose server forbids their use with X-Robots-Tag: "
        "noai, noimageai, noindex or noimageindex.",
        type=bool,
        absent_as=False,
    )
    contact: str | None = run_option(
        None,
        "With --url-column: whom the owner of a server can ask, a URL or an address of e-mail, "
        "which is a part of the user agent.",
        "TEXT",
        shown="the page of shardmill",
    )

    def _check_combinations(self) -> None:
        super()._check_combinations()
        if self.url_column is None:
            for name in _FETCHING:
                if getattr(self, name):
                    raise UsageError(
                        f"{flag_of(name)} is for lists of URLs, and there is no --url-column. Add "
                        "it, or leave this out."
                    )
            return
        if not self.url_column:
            raise UsageError("--url-column is empty. Name the column with the URLs.")
        if self.contact is not None and not (self.contact.isascii() and self.contact.isprintable()):
            raise UsageError(
                f"--contact {self.contact!r} cannot be a part of a header. Write it in printable "
                "ASCII."
            )

    @override
    def reading(self) -> list[Any]:
        # Nothing is added for other sources, so that their units and items keep their keys.
        values = super().reading()
        if self.url_column is None:
            return values
        policy = [self.max_redirects, self.allow_private, self.ignore_opt_outs]
        return [*values, "urls", self.url_column, *policy]
