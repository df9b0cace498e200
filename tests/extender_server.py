"""An HTTP extender that answers by a script, or misbehaves."""

from __future__ import annotations

import json
import socket
import ssl
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from scripted_extender import answer

Json = dict[str, Any]
TLS = Path(__file__).parent / "sources" / "live" / "tls"
BLOCK = b" " * (1 << 20)


@dataclass
class ExtenderServer:
    """An HTTP extender whose ``script`` gives its answer per verb (see ``scripted_extender.py``).

    Without a script it sends ``status``, ``headers``, and a ``raw`` body or ``endless`` MiB. It waits ``hang`` seconds
    before the response and ``drip`` seconds before each byte of the body. With ``hang_up`` it closes the connection at
    once. ``requests`` records path, headers and body of each request.
    """

    script: Json = field(default_factory=dict)
    raw: bytes | None = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    hang: float = 0.0
    drip: float = 0.0
    endless: int = 0
    hang_up: bool = False
    requests: list[tuple[str, dict[str, str], Json]] = field(default_factory=list)
    url: str = ""

    def respond(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer a request and record it."""
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        payload = json.loads(body)
        self.requests.append((handler.path, {k.lower(): v for k, v in handler.headers.items()}, payload))
        if self.hang_up:
            handler.connection.shutdown(socket.SHUT_RDWR)
            return
        time.sleep(self.hang)
        verb = handler.path.rpartition("/")[2]
        status, made = answer(self.script.get(verb), verb, payload) if self.script else (self.status, None)
        sent = json.dumps(made).encode() if self.raw is None and self.script else self.raw or b""
        handler.send_response(status)
        for name, value in self.headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(self.endless << 20 if self.endless else len(sent)))
        handler.end_headers()
        for _ in range(self.endless):
            handler.wfile.write(BLOCK)
        for byte in sent if self.drip else ():
            time.sleep(self.drip)
            handler.wfile.write(bytes((byte,)))
            handler.wfile.flush()
        if not (self.drip or self.endless):
            handler.wfile.write(sent)


class _Server(ThreadingHTTPServer):
    daemon_threads, block_on_close = True, False

    def handle_error(self, request: object, client_address: object) -> None:
        if not isinstance(sys.exc_info()[1], OSError | ValueError):  # the other side may have heard enough
            super().handle_error(request, client_address)  # type: ignore[arg-type]


@contextmanager
def serve_extender(*, tls: bool = False, **behaviour: Any) -> Iterator[ExtenderServer]:
    """Serve the extender on a free port until the block ends. With ``tls``, it requires a client certificate."""
    found = ExtenderServer(**behaviour)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            with suppress(OSError, ValueError):
                found.respond(self)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = _Server(("127.0.0.1", 0), Handler)
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(TLS / "server.pem")
        context.load_verify_locations(TLS / "ca.pem")
        context.verify_mode = ssl.CERT_REQUIRED
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    found.url = f"http{'s' * tls}://127.0.0.1:{server.server_port}"
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
