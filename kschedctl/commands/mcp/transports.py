"""How clients reach the server: standard input and output, or HTTP for those who have the token."""

from __future__ import annotations

import hmac
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import anyio
import uvicorn
from mcp.server.stdio import stdio_server
from starlette.responses import PlainTextResponse

from kschedctl.commands.mcp.server import McpServer

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Callable[[], Awaitable[object]], Callable[[object], Awaitable[None]]], Awaitable[None]]


def over_stdio(server: McpServer) -> None:
    """Until standard input ends."""

    async def serve() -> None:
        async with stdio_server() as (read, write):
            await server.protocol.run(read, write, server.protocol.create_initialization_options())

    guarded, sys.stdout = sys.stdout, sys.__stdout__  # the protocol's own stream, not one for answers
    try:
        anyio.run(serve)
    finally:
        sys.stdout = guarded


def over_http(server: McpServer, host: str, port: int, token: str) -> None:
    """Until it is interrupted; at /mcp."""
    uvicorn.run(with_token(server.protocol.streamable_http_app(host=host), token), host=host, port=port, log_level=30)


def with_token(app: App, token: str) -> App:
    """The app for requests with ``Authorization: Bearer TOKEN``; others get 401 and no more."""
    wanted = f"Bearer {token}".encode()

    async def guarded(scope: Scope, receive: Any, send: Any) -> None:
        given = dict(scope.get("headers") or ()).get(b"authorization", b"")
        if scope["type"] == "http" and not hmac.compare_digest(given, wanted):
            refused = PlainTextResponse("a token is needed", 401, {"WWW-Authenticate": "Bearer"})
            await refused(scope, receive, send)
        else:
            await app(scope, receive, send)

    return guarded
