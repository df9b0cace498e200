"""The command `mcp`."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from typing import Annotated

import typer

from kschedctl.cli.options import Source, with_options
from kschedctl.cli.source import ALL_KINDS, get_cluster_time, load_cluster
from kschedctl.cluster import Cluster
from kschedctl.errors import UsageError
from kschedctl.sources.documents.documents import load_content

EXAMPLES = (
    "kschedctl mcp",
    "kschedctl mcp --snapshot prod.ksnap",
    "kschedctl mcp --http 127.0.0.1:8000 --token-file token",
)
TOKEN_VARIABLE = "KSCHEDCTL_MCP_TOKEN"
REFRESH_SECONDS = 30
"""After this time a live cluster is read again for the next question."""


@dataclass
class ServedCluster:
    """The cluster that the options select. It is read at the first question, and a live one is read again later."""

    source: Source
    _cluster: Cluster | None = None
    _read_at: float = field(default=0.0)

    def __call__(self) -> tuple[Cluster, str]:
        """Return the cluster and its current time. Raises KschedctlError."""
        is_outdated = self.source.live and time.monotonic() - self._read_at > REFRESH_SECONDS
        if self._cluster is None or is_outdated:
            self._cluster, self._read_at = load_cluster(self.source, live=ALL_KINDS), time.monotonic()
        return self._cluster, get_cluster_time(self._cluster, self.source)


@with_options
def mcp(
    *,
    source: Source,
    http: Annotated[
        str,
        typer.Option(
            "--http",
            metavar="HOST:PORT",
            help="Serve over HTTP at this address, such as 127.0.0.1:8000, under the path /mcp, instead of over "
            "stdin and stdout.",
        ),
    ] = "",
    token_file: Annotated[
        str,
        typer.Option(
            "--token-file",
            metavar="FILE",
            help="With --http: file with the token that clients must send. "
            f"Without this option, the token is the value of ${TOKEN_VARIABLE}.",
        ),
    ] = "",
) -> int:
    """Answer AI agents' questions about this cluster over the Model Context Protocol.

    The tools explain pods, list pending pods, find fixes and simulate changes. They change nothing, and read only the
    cluster that the options select. Answers are summaries of at most 12 KB with a link to the full document. HTTP
    clients send the token as Authorization: Bearer. Requires the extra mcp: pip install 'kschedctl[mcp]'.
    """
    try:
        from kschedctl.commands.mcp import server  # noqa: PLC0415 - extra "mcp"
    except ImportError as error:
        raise UsageError(f"mcp needs the MCP SDK: {error}", hint="pip install 'kschedctl[mcp]'") from None
    served = server.McpServer(ServedCluster(source))
    if not http:
        server.serve_stdio(served)
        return 0
    host, port = _parse_address(http)
    server.serve_http(served, host, port, _read_token(token_file))
    return 0


def _parse_address(text: str) -> tuple[str, int]:
    """Parse HOST:PORT. Raises UsageError if it is malformed."""
    host, colon, port = text.rpartition(":")
    if not (colon and host and port.isdecimal() and 0 < int(port) < 1 << 16):
        raise UsageError(f"--http {text}: not HOST:PORT", hint="such as 127.0.0.1:8000")
    return host.strip("[]"), int(port)


def _read_token(file: str) -> str:
    """Read the token from the file or the environment.

    Raises InputError if the file cannot be read, and UsageError if there is no token.
    """
    token = os.environ.get(TOKEN_VARIABLE, "")
    if file:
        token = load_content(file).text
    token = token.strip()
    if not token:
        raise UsageError("--http needs a token", hint=f"--token-file FILE, or {TOKEN_VARIABLE}")
    return token
