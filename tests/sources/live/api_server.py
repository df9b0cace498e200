"""An API server on loopback that answers from recorded or made-up responses, counts requests, and fails on demand."""

from __future__ import annotations

import gzip
import json
import lzma
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from kschedctl.api.kinds import KINDS, get_api_kind, pluralize_kind
from kschedctl.sources.live.lists import iter_list_paths

TLS = Path(__file__).parent / "tls"
RECORDINGS = Path(__file__).parents[2] / "recordings" / "live.jsonl.xz"


@dataclass
class Response:
    """A response to a request.

    ``chunks`` are sent one by one instead of ``body``, with ``pause`` seconds after each. The last ``cut`` bytes are
    left out. ``raw`` is sent byte string by byte string instead of everything else, including status line and headers.
    """

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    chunks: Iterable[bytes] | None = None
    raw: Iterable[bytes] | None = None
    pause: float = 0.0
    cut: int = 0
    hang: float = 0.0


Answer = Callable[[str, dict[str, str]], Response | None]
Write = Callable[[str, str, str, bytes], Response]
"""A function that answers a method, a path, a content type and a body."""


@dataclass
class ApiServer:
    """An HTTP server that asks ``answers`` in order, each with path and query, and sends the first response.

    ``write`` handles requests that change something; without it they are answered like reads.
    """

    answers: list[Answer]
    write: Write | None = None
    requests: list[tuple[str, str, list[tuple[str, str]]]] = field(default_factory=list)
    url: str = ""

    def paths(self, watch: bool = False) -> list[str]:
        """Return the paths of the requests, without watches unless they are asked for."""
        return [urlsplit(target).path for _, target, _ in self.requests if watch or "watch=1" not in target]

    def header(self, name: str) -> list[str]:
        """Return the values of a header in the last request."""
        return [value for key, value in self.requests[-1][2] if key == name]

    def respond(self, target: str) -> Response:
        """Return the first answer to a request that is not None, or 404."""
        parts = urlsplit(target)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        for answer in self.answers:
            found = answer(parts.path, query)
            if found is not None:
                return found
        return build_status(404, "the server could not find the requested resource", "NotFound")


def build_status(code: int, message: str, reason: str = "", headers: Mapping[str, str] | None = None) -> Response:
    """Build a response with a Status object."""
    document = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }
    return Response(code, json.dumps(document).encode(), headers or {})


@cache
def read_recordings() -> tuple[dict[str, Any], ...]:
    with lzma.open(RECORDINGS, "rt") as file:
        return tuple(json.loads(line) for line in file)


def get_recorded_error(name: str) -> Response:
    """Return one of the recorded errors."""
    return _build_response(next(r for r in read_recordings() if r.get("name") == name))


def replay_response(path: str, query: dict[str, str]) -> Response | None:
    """Return the recorded answer of the API server: whole lists, whatever the limit, and nothing to watches."""
    if "watch" in query:
        return Response(chunks=())
    return next((_build_response(r) for r in read_recordings() if r["request"] == path and r["status"] == 200), None)


def replay_pages(path: str, query: dict[str, str]) -> Response | None:
    """Return the recorded pages of five."""
    wanted = f"{path}?limit=5" + (f"&continue={query['continue']}" if "continue" in query else "")
    return next((_build_response(r) for r in read_recordings() if r["request"] == wanted and r["status"] == 200), None)


def _build_response(recorded: Mapping[str, Any]) -> Response:
    return Response(recorded["status"], recorded["body"].encode(), recorded["headers"])


def answer_path(wanted: str, *responses: Response, watch: bool = False) -> Answer:
    """Build an answer that responds to requests of a path with the responses in turn, and then repeats the last one.

    Requests of other paths are passed on. With ``watch``, only watch requests are answered, otherwise only other
    requests.
    """
    left = list(responses)

    def answer(path: str, query: dict[str, str]) -> Response | None:
        if path != wanted or ("watch" in query) is not watch:
            return None
        return left.pop(0) if len(left) > 1 else left[0]

    return answer


def answer_lists(objects: Iterable[Mapping[str, Any]]) -> Answer:
    """Build an answer with the objects in lists of their kinds, as from a server of version 1.36.2 without changes."""
    lists = {path: (get_api_kind(kind), list[Any]()) for kind in KINDS for path in iter_list_paths(kind)}
    for each in objects:
        version = each["apiVersion"]
        lists[f"/{'apis' if '/' in version else 'api'}/{version}/{pluralize_kind(each['kind']).lower()}"][1].append(
            each
        )

    def answer(path: str, query: dict[str, str]) -> Response | None:
        if "watch" in query:
            return Response(chunks=())
        if path == "/version":
            return Response(body=json.dumps({"major": "1", "minor": "36", "gitVersion": "v1.36.2"}).encode())
        if path not in lists:
            return None
        kind, items = lists[path]
        head = {"kind": f"{kind}List", "metadata": {"resourceVersion": "1"}}
        return Response(body=json.dumps({**head, "items": items}).encode())

    return answer


class _Quiet(ThreadingHTTPServer):
    """A threading HTTP server that ignores clients that disconnect."""

    daemon_threads, block_on_close = True, False

    def handle_error(self, request: object, client_address: object) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


@contextmanager
def serve_api(*answers: Answer, tls: bool = False, write: Write | None = None) -> Iterator[ApiServer]:
    """Run the server on a free port until the block ends.

    With ``tls`` it has a certificate and asks for a client certificate.
    """
    api = ApiServer(list(answers), write)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do(self) -> None:
            api.requests.append((self.command, self.path, [(k.lower(), v) for k, v in self.headers.items()]))
            with suppress(ConnectionError):  # the other side may have heard enough
                _send(self, self.response())

        def response(self) -> Response:
            if api.write is None or self.command == "GET":
                return api.respond(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            return api.write(self.command, self.path, self.headers.get("Content-Type") or "", body)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = do  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = _Quiet(("127.0.0.1", 0), Handler)
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(TLS / "server.pem")
        context.load_verify_locations(TLS / "ca.pem")
        context.verify_mode = ssl.CERT_OPTIONAL
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    api.url = f"http{'s' * tls}://127.0.0.1:{server.server_port}"
    try:
        yield api
    finally:
        server.shutdown()
        server.server_close()


def _send(handler: BaseHTTPRequestHandler, response: Response) -> None:
    """Send a response, complete or cut off, as it is configured."""
    if response.hang:
        time.sleep(response.hang)
    if response.raw is not None:
        _send_raw(handler, response.raw, response.pause)
        return
    body = response.body
    handler.send_response(response.status)
    for name, value in response.headers.items():
        handler.send_header(name, value)
    if response.chunks is None:
        if "gzip" in handler.headers.get("Accept-Encoding", "") and len(body) > 128 << 10:
            body = gzip.compress(body, 1)
            handler.send_header("Content-Encoding", "gzip")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body[: len(body) - response.cut])
    else:
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for chunk in response.chunks:
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
            handler.wfile.flush()
            time.sleep(response.pause)
        if not response.cut:
            handler.wfile.write(b"0\r\n\r\n")
    if response.cut:
        handler.close_connection = True
        handler.wfile.flush()
        handler.connection.close()


def _send_raw(handler: BaseHTTPRequestHandler, parts: Iterable[bytes], pause: float) -> None:
    """Send bytes in parts, with a pause after each part, and close the connection."""
    handler.close_connection = True
    for part in parts:
        handler.wfile.write(part)
        handler.wfile.flush()
        time.sleep(pause)


def drip(text: bytes, after: int = 0) -> Iterable[bytes]:
    """Yield the first bytes at once, and the others one by one."""
    return (text[:after], *(bytes([byte]) for byte in text[after:]))


def write_kubeconfig(
    url: str, path: Path, *, name: str = "here", cluster: Any = None, namespace: str = "lab", **user: Any
) -> str:
    """Write a kubeconfig with one context, and return its path."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": f"{name}-cluster", "cluster": {"server": url, **(cluster or {})}}],
        "users": [{"name": f"{name}-user", "user": user or {"token": "secret-token"}}],
        "contexts": [
            {"name": name, "context": {"cluster": f"{name}-cluster", "user": f"{name}-user", "namespace": namespace}}
        ],
    }
    path.write_text(json.dumps(document))
    return str(path)
