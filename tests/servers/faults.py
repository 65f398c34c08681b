"""Which requests go wrong on their way to a server, and how: a plan that a seed repeats."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence

# What can happen to a request. Where an answer has no body, what would break the body resets the
# connection in place of the answer.
FAULTS = (
    "reset-before",  # the server never sees the request
    "reset-upload",  # in the middle of the request's body, which the server sees the half of
    "reset-after",  # the server has done it, and its answer gets lost
    "reset-body",  # in the middle of the answer's body
    "truncated",  # the answer's body ends early, and the connection properly
    "stalled",  # the answer's body stops coming in the middle
    "slow",  # the answer's body comes at `rate`
    "status",  # the proxy answers with `status`
)


@dataclasses.dataclass(frozen=True)
class Fault:
    """One way to go wrong.

    Attributes:
        name: One of FAULTS.
        kinds: Kinds of requests, as `kind_of` names them; none for all.
        share: Share of these requests that the fault affects.
        most: Times that it happens.
        skip: Requests of those kinds that it leaves alone first.
        status: For "status": 503 or 429, for example.
        retry_after: For "status": seconds that the answer asks to wait; none if negative.
        rate: For "slow": bytes a second.
        path: What the path and query of a request must hold.
    """

    name: str
    kinds: tuple[str, ...] = ()
    share: float = 1.0
    most: int = 1 << 30
    skip: int = 0
    status: int = 503
    retry_after: float = -1
    rate: float = 64 << 10
    path: str = ""

    def __post_init__(self) -> None:
        if self.name not in FAULTS:
            raise ValueError(f"unknown fault {self.name!r}")


class Plan:
    """Chooses a fault for each request, by a seed and the order in which they come."""

    def __init__(self, faults: Sequence[Fault] = (), seed: int = 0) -> None:
        self._faults = faults
        self._seen = [0] * len(faults)
        self._left = [fault.most for fault in faults]
        self._random = random.Random(seed)

    def fault_of(self, kind: str, path: str) -> Fault | None:
        """The first fault that happens to a request, if any."""
        for place, fault in enumerate(self._faults):
            if (fault.kinds and kind not in fault.kinds) or fault.path not in path:
                continue
            self._seen[place] += 1
            if self._seen[place] <= fault.skip or not self._left[place]:
                continue
            if self._random.random() < fault.share:
                self._left[place] -= 1
                return fault
        return None


def kind_of(method: str, target: str, head: bytes) -> str:
    """What a request is for, whichever of the services it is made to.

    Args:
        method: GET, PUT and so on.
        target: Path and query.
        head: The whole head of the request in lower case.

    Returns:
        "range", "get", "list", "head", "put", "create" (a put that must be the first), "begin",
        "part", "complete" and "abort" of an upload in parts, or "delete".
    """
    path, _, query = target.partition("?")
    by_method = {"GET": _kind_of_get, "PUT": _kind_of_put, "POST": _kind_of_post}
    if method in by_method:
        return by_method[method](path, query, head)
    if method == "DELETE":
        return "abort" if "uploadid=" in query.lower() or "upload_id=" in query else "delete"
    return method.lower()


def _kind_of_get(path: str, query: str, head: bytes) -> str:
    if b"\nrange:" in head or b"\nx-ms-range:" in head:
        return "range"
    if "list-type=" in query or "comp=list" in query or path.endswith("/o"):
        return "list"
    if path.startswith("/storage/v1/") and "alt=media" not in query:
        return "head"
    return "get"


def _kind_of_put(path: str, query: str, head: bytes) -> str:
    if "comp=blocklist" in query:
        return "complete"
    if "partNumber=" in query or "comp=block" in query or "upload_id=" in query:
        return "part"
    return "create" if _is_conditional(query, head) else "put"


def _kind_of_post(path: str, query: str, head: bytes) -> str:
    if "uploadId=" in query:
        return "complete"
    if "uploads" in query or "uploadType=resumable" in query:
        return "begin"
    if "delete" in query or "comp=batch" in query or "/batch/" in path:
        return "delete"
    return "create" if _is_conditional(query, head) else "put"


def _is_conditional(query: str, head: bytes) -> bool:
    return (
        "ifGenerationMatch=" in query
        or b"\nif-none-match:" in head
        or b"\nx-goog-if-generation-match:" in head
    )
