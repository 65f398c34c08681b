"""Datasets of the Hugging Face Hub: hf://datasets/OWNER/NAME, with @REVISION and a path behind it.

What the Hub says about a repository is asked for here; its files are read like those of any web
server. Token, retries and kinds of errors are those of huggingface_hub. Requests wait as long as
Retry-After says.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import re
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from foundation.errors import InputError, UsageError
from foundation.storage.addresses import server_address
from foundation.storage.base import FILE, FOLDER, Entry, Stat, Url
from foundation.storage.traffic import count

_URL = re.compile(
    r"hf://datasets/(?P<repository>[^/@]+/[^/@]+)"
    r"(?:@(?P<revision>refs/(?:convert|pr)/[^/]+|[^/]+))?(?:/(?P<path>.*))?"
)
_COMMIT = re.compile(r"[0-9a-f]{40}")
_HUB = "https://huggingface.co"
_CLIENTS = (
    "http",
    "requests",
)  # what huggingface_hub asks with: httpx, httpx2, and before 1.0 requests
_TIMEOUT_SECONDS = 60.0
_MAY_COME_BACK = (408, 429, 500, 502, 503, 504)


class HubPath(NamedTuple):
    """A file or folder of a dataset.

    Attributes:
        repository: OWNER/NAME.
        revision: Branch, tag or commit.
        path: Below the repository; "" is all of it.
    """

    repository: str
    revision: str
    path: str

    @property
    def url(self) -> str:
        """The URL without a revision."""
        return f"hf://datasets/{self.repository}" + (f"/{self.path}" if self.path else "")

    @property
    def pinned(self) -> HubPath:
        """The path at the commit that its revision names; see `commit_of`."""
        if _COMMIT.fullmatch(self.revision):
            return self
        return self._replace(revision=commit_of(self.repository, self.revision))


def parse(text: str) -> HubPath:
    """What a URL names.

    Raises:
        UsageError: It names no dataset.
    """
    match = _URL.fullmatch(text.rstrip("/"))
    if match is None:
        raise UsageError(
            f"{text} names no dataset of the Hugging Face Hub. Write hf://datasets/OWNER/NAME, "
            "hf://datasets/OWNER/NAME@REVISION, or a folder or file below it."
        )
    revision = unquote(match["revision"] or "main")
    return HubPath(match["repository"], revision, match["path"] or "")


def pinned(text: str) -> str:
    """A URL with the commit that its revision names now; this asks the Hub.

    Raises:
        InputError: There is no such dataset or revision, or it may not be read.
        OSError: The Hub does not answer.
    """
    repository, commit, path = parse(text).pinned
    return f"hf://datasets/{repository}@{commit}" + (f"/{path}" if path else "")


@functools.cache
def commit_of(repository: str, revision: str) -> str:
    """The commit that a branch or tag names, as it was when this process first asked.

    Raises:
        InputError: See `pinned`.
        OSError: See `pinned`.
    """
    path = f"/api/datasets/{repository}"
    where = HubPath(repository, revision, "")
    info = _ask(where, "GET", f"{path}/revision/{quote(revision, safe='')}").json()
    if info.get("gated"):  # such a repository is listed for all, and read by some
        _ask(where, "GET", f"{path}/auth-check")
    return str(info["sha"])


def entry_of(where: HubPath) -> Entry | None:
    """What a path of a commit is; None if there is nothing."""
    address = f"/api/datasets/{where.repository}/paths-info/{where.revision}"
    answer = _ask(where, "POST", address, data={"paths": [where.path], "expand": False})
    return next((_entry(one) for one in answer.json()), None)


def tree_of(where: HubPath) -> Iterator[tuple[str, Entry]]:
    """(folder, entry) of all that is below a folder of a commit.

    Raises:
        FileNotFoundError: There is no such folder.
    """
    base = f"/api/datasets/{where.repository}/tree/{where.revision}"
    address = f"{base}/{quote(where.path)}".rstrip("/") + "?recursive=true&expand=false"
    while address:
        answer = _ask(where, "GET", address)
        for one in answer.json():
            yield one["path"].rpartition("/")[0], _entry(one)
        address = str(answer.links.get("next", {}).get("url", "")).removeprefix(_endpoint())
        if address and not address.startswith("/"):
            raise OSError(errno.EPROTO, "The next page of the listing is elsewhere", where.url)


def location(url: Url) -> tuple[str, str, str]:
    """(address of the commit's files, authorization, path in it) of a file."""
    from huggingface_hub.utils import build_hf_headers

    where = parse(url.text).pinned
    address = f"{_endpoint()}/datasets/{where.repository}/resolve/{where.revision}"
    return address, build_hf_headers().get("authorization", ""), where.path


def _endpoint() -> str:
    return (server_address("HF_ENDPOINT") or _HUB).rstrip("/")


def _entry(one: dict[str, Any]) -> Entry:
    """An entry of a commit; in place of a time, which no request gives, a hash of the content."""
    name = one["path"].rpartition("/")[2]
    if one["type"] != "file":
        return Entry(name, FOLDER, Stat(0, 0))
    content = (one.get("lfs") or one)["oid"]
    digest = hashlib.blake2b(content.encode(), digest_size=8).digest()
    return Entry(name, FILE, Stat.of(one["size"], int.from_bytes(digest, "big")))


def _ask(where: HubPath, method: str, path: str, **options: Any) -> Any:
    """The answer of the Hub, after retries."""
    from huggingface_hub.utils import build_hf_headers, hf_raise_for_status, http_backoff

    with _readable_errors(where):
        count(1, 0)
        options |= {"headers": build_hf_headers(), "timeout": _TIMEOUT_SECONDS}
        options["retry_on_status_codes"] = _MAY_COME_BACK
        answer = http_backoff(method, _endpoint() + path, **options)
        hf_raise_for_status(answer)
        return answer


@contextlib.contextmanager
def _readable_errors(where: HubPath) -> Iterator[None]:
    """Raises what the client raises within this context in words, without its request."""
    from huggingface_hub import errors

    dataset, page = where._replace(path="").url, f"{_endpoint()}/datasets/{where.repository}"
    try:
        yield
    except errors.GatedRepoError:
        raise InputError(
            f"{dataset} is gated. Accept its terms at {page}, and set HF_TOKEN to a token of that "
            "account, or run 'hf auth login'."
        ) from None
    except errors.RepositoryNotFoundError:
        raise InputError(
            f"{dataset} does not exist, or is private. Check the name; for a private one set "
            "HF_TOKEN to a token that may read it, or run 'hf auth login'."
        ) from None
    except errors.RevisionNotFoundError:
        raise InputError(
            f"{dataset} has no branch, tag or commit {where.revision!r}. {page}/tree/main lists "
            "them."
        ) from None
    except errors.EntryNotFoundError:
        raise FileNotFoundError(errno.ENOENT, "No such file or folder", where.url) from None
    except errors.OfflineModeIsEnabled:
        raise OSError(errno.ENETDOWN, "HF_HUB_OFFLINE is set", where.url) from None
    except errors.HfHubHTTPError as error:
        status = error.response.status_code
        if status == 401:
            raise InputError(
                f"{_endpoint()} refuses the token for {dataset}. Set HF_TOKEN to a valid one, or "
                "run 'hf auth login'."
            ) from None
        number = errno.EACCES if status == 403 else errno.EIO
        raise OSError(number, f"The Hub answers {status}", where.url) from None
    except Exception as error:
        if not type(error).__module__.startswith(_CLIENTS):
            raise
        reason = f"No answer from {_endpoint()} ({type(error).__name__})"
        raise OSError(errno.EIO, reason, where.url) from None
