"""An HTTP server of metrics that sends scripted responses, or misbehaves."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

TLS = Path(__file__).parent / "sources" / "live" / "tls"


@dataclass
class MetricsServer:
    """A server whose ``answer`` returns status and body by path and query.

    ``endless`` replaces the body by this many MiB, and ``drip`` is the pause in seconds per byte. With ``tls`` it has a
    certificate for localhost. ``asked`` records method, path and headers of each request.
    """

    answer: Callable[[str, dict[str, str]], tuple[int, bytes]]
    headers: dict[str, str] = field(default_factory=dict)
    endless: int = 0
    drip: float = 0.0
    tls: bool = False
    asked: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    url: str = ""


@contextmanager
def serve_metrics(server: MetricsServer) -> Iterator[MetricsServer]:
    """Run the server until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.asked.append(("GET", self.path, {k.lower(): v for k, v in self.headers.items()}))
            parts = urlsplit(self.path)
            status, body = server.answer(parts.path, {k: v[0] for k, v in parse_qs(parts.query).items()})
            self.send_response(status)
            for name, value in server.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(server.endless << 20 or len(body)))
            self.end_headers()
            with suppress(OSError):
                for _ in range(server.endless):
                    self.wfile.write(b" " * (1 << 20))
                for i in range(0 if server.endless else len(body)) if server.drip else ():
                    self.wfile.write(body[i : i + 1])
                    time.sleep(server.drip)
                if not server.drip and not server.endless:
                    self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            """Tests say nothing."""

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.daemon_threads = True
    if server.tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(TLS / "server.pem")
        httpd.socket = context.wrap_socket(httpd.socket, server_side=True)
    server.url = f"http{'s' * server.tls}://127.0.0.1:{httpd.server_address[1]}"
    threading.Thread(target=httpd.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield server
    finally:
        httpd.shutdown()
        httpd.server_close()
