"""The server of `shardmill view`: on the loopback interface, until it is interrupted."""

from __future__ import annotations

import contextlib
import secrets
import socket
from collections.abc import Callable
from urllib.parse import urlencode

import uvicorn

from shard_format import UsageError
from viewer.guard import LOOPBACK, TOKEN, Guard
from viewer.pages import Pages

_END_SECONDS = 1  # for requests that are being answered


def serve(pages: Pages, port: int, where: str, on_ready: Callable[[str], None]) -> None:
    """Answers requests until SIGINT or SIGTERM, which then have the effect that they had before.

    Args:
        pages: What to show.
        port: Port to listen on; 0 for a free one.
        where: A condition that the first page has.
        on_ready: Called with the URL of the first page, once a browser can open it.

    Raises:
        UsageError: The port cannot be used.
    """
    try:
        listening = socket.create_server((LOOPBACK, port))
    except OSError as error:
        raise UsageError(
            f"Port {port} of this machine cannot be used: {error.strerror}. Pass another --port, "
            "or none, which takes a free one."
        ) from error
    with contextlib.closing(listening):
        number, token = listening.getsockname()[1], secrets.token_urlsafe()
        query = urlencode({TOKEN: token} | ({"where": where} if where else {}))
        config = uvicorn.Config(
            Guard(pages.app(), token, number),
            ws="none",
            access_log=False,  # addresses have the token
            log_level="error",
            server_header=False,
            timeout_graceful_shutdown=_END_SECONDS,
        )
        on_ready(f"http://{LOOPBACK}:{number}/?{query}")
        uvicorn.Server(config).run([listening])
