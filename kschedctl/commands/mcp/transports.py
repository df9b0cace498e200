"""The transports of the MCP server: standard input and output, or HTTP with a token."""

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


def serve_stdio(server: McpServer) -> None:
    """Serve over standard input and output until the input ends."""

    async def serve() -> None:
        async with stdio_server() as (read, write):
            await server.protocol.run(read, write, server.protocol.create_initialization_options())

    answer_stream, sys.stdout = sys.stdout, sys.__stdout__  # the protocol's own stream, not one for answers
    try:
        anyio.run(serve)
    finally:
        sys.stdout = answer_stream


def serve_http(server: McpServer, host: str, port: int, token: str) -> None:
    """Serve over HTTP at /mcp until interrupted."""
    uvicorn.run(
        require_token(server.protocol.streamable_http_app(host=host), token), host=host, port=port, log_level=30
    )


def require_token(app: App, token: str) -> App:
    """Wrap an app so that it responds with 401 to requests without `Authorization: Bearer TOKEN`."""
    expected_header = f"Bearer {token}".encode()

    async def check_token(scope: Scope, receive: Any, send: Any) -> None:
        given = dict(scope.get("headers") or ()).get(b"authorization", b"")
        if scope["type"] == "http" and not hmac.compare_digest(given, expected_header):
            refused = PlainTextResponse("a token is needed", 401, {"WWW-Authenticate": "Bearer"})
            await refused(scope, receive, send)
        else:
            await app(scope, receive, send)

    return check_token
