"""Which requests are answered: those with the token, to this machine by its own name, and reads.

Any page that a browser has open may send requests to a port of this machine. Without the token
they get nothing; a name of another site that leads to 127.0.0.1 (DNS rebinding) is refused too.
"""

from __future__ import annotations

import secrets

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = "127.0.0.1"
TOKEN = "token"
_HOSTS = (LOOPBACK, "localhost", "[::1]")
# Nothing is loaded from elsewhere, nothing runs, whatever a name or a text in the set says.
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; img-src 'self' data:; style-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Guard:
    """Refuses other requests than those of the person who started the server.

    Args:
        app: What answers the others.
        token: What the first request has in its query, and later ones in a cookie.
        port: Port of the server: cookies are not told apart by ports.
    """

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self._app, self._token, self._cookie = app, token, f"shardmill-view-{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        request = Request(scope)
        given = request.query_params.get(TOKEN)
        known = given if given is not None else request.cookies.get(self._cookie, "")

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                if given is not None and self._is_token(given):
                    cookie = f"{self._cookie}={given}; HttpOnly; SameSite=Strict; Path=/"
                    headers.append("Set-Cookie", cookie)
            await send(message)

        app = self._app
        if _host_of(request.headers) not in _HOSTS:
            app = PlainTextResponse("This server has another name.\n", 421)
        elif not self._is_token(known):
            app = PlainTextResponse(
                "Open the address that 'shardmill view' printed: it has the token.\n", 403
            )
        elif request.method not in ("GET", "HEAD"):
            app = PlainTextResponse("Pages are read only.\n", 405, {"Allow": "GET, HEAD"})
        await app(scope, receive, send_guarded)

    def _is_token(self, text: str) -> bool:
        return secrets.compare_digest(text.encode("utf-8", "replace"), self._token.encode())


def _host_of(headers: Headers) -> str:
    """The name of the server that a request asks, without the port: a tunnel has another one."""
    host = headers.get("host", "").lower()
    name, _, port = host.rpartition(":")
    return name if name and port.isascii() and port.isdigit() else host
