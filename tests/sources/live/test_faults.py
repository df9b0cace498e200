"""Check that a command on a failing server ends in time, with one line and exit code 3."""

from __future__ import annotations

import gzip
import importlib
import itertools
import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from api_server import Answer, Response, answer_path, build_status, drip, replay_response, serve_api, write_kubeconfig
from live_fixtures import nobody  # noqa: F401 - fixtures

from kschedctl.cli.main import main
from kschedctl.sources.live import http as live_http
from kschedctl.sources.live import lists as live_lists

SECONDS, PLENTY, NEVER = 0.5, 60.0, 600.0
"""Seconds: a timeout that each fault exceeds, one that only a stalled machine exceeds, and more than both."""
NODES, PODS, VERSION = "/api/v1/nodes", "/api/v1/pods", "/version"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
CONFIG_MAP = "/api/v1/namespaces/kube-system/configmaps/kube-scheduler"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs ``explain`` with a timeout against a faulty server, and checks that it ends."""

    def run(*answers: Answer, seconds: float = PLENTY) -> tuple[int, str, str]:
        with serve_api(*answers, replay_response) as api:
            monkeypatch.setenv("KUBECONFIG", write_kubeconfig(api.url, tmp_path / "config"))
            start = time.monotonic()
            code = main(["explain", "p01-cpu", "--no-remedies", f"--request-timeout={int(seconds * 1000)}ms"])
            assert time.monotonic() - start < NEVER
        return code, *capfd.readouterr()

    return run


def build_head(code: int = 200, *fields: str) -> bytes:
    return "\r\n".join((f"HTTP/1.1 {code} Fault", "Content-Type: application/json", *fields, "", "")).encode()


def respond_slowly(text: bytes, after: int = 0) -> Response:
    return Response(raw=drip(text, after), pause=0.05)


def respond_with_slow_body(code: int) -> Response:
    """Return a Status of 100 bytes whose transfer takes five seconds."""
    text = json.dumps({"kind": "Status", "message": "m" * 60, "code": code}).encode().ljust(100)
    start = build_head(code, "Content-Length: 100")
    return respond_slowly(start + text, len(start))


class Endless:
    """A body that repeats the same bytes forever after its beginning."""

    def __init__(self, *start: bytes, then: bytes) -> None:
        self.start, self.then = start, then

    def __iter__(self) -> Iterator[bytes]:
        return itertools.chain(self.start, itertools.repeat(self.then))


LIST = b'{"kind":"NodeList","metadata":{"resourceVersion":"1"},"items":%s}'
CHUNKED = build_head(200, "Transfer-Encoding: chunked")
IN_TIME = r"no complete response within 0\.5 s \(--request-timeout allows more\)"
FAULTS: dict[str, tuple[Response, str]] = {
    "silence": (Response(hang=2 * NEVER), IN_TIME),
    "slow status line": (respond_slowly(build_head()), IN_TIME),
    "slow headers": (respond_slowly(build_head(200, "X: y" * 99), 20), IN_TIME),
    "slow body": (respond_with_slow_body(200), IN_TIME),
    "slow chunks": (Response(chunks=[b"{"] * 99, pause=0.05), IN_TIME),
    "slow chunk size": (respond_slowly(CHUNKED + b"0" * 99, len(CHUNKED)), IN_TIME),
    "endless headers": (Response(raw=Endless(b"HTTP/1.1 200 OK\r\n", then=b"X: y\r\n")), "no answer: got more than"),
    "an endless header": (
        Response(raw=Endless(b"HTTP/1.1 200 OK\r\nX: ", then=b"y" * 999)),
        "no answer: got more than",
    ),
    "endless continues": (
        Response(raw=Endless(then=b"HTTP/1.1 100 Continue\r\n\r\n")),
        "no complete response|no answer",
    ),
    "endless body": (Response(chunks=Endless(then=b" " * (1 << 16))), "more than 8 MiB"),
    "1 GB announced": (Response(raw=[build_head(200, "Content-Length: 1000000000")]), "more than 8 MiB"),
    "gzip that swells": (
        Response(raw=[build_head(200, "Content-Encoding: gzip"), gzip.compress(b" " * (40 << 20))]),
        "more than 8 MiB",
    ),
    "slow 401": (respond_with_slow_body(401), "does not accept these credentials"),
    "slow 403": (respond_with_slow_body(403), "HTTP 403 Fault"),
    "slow 500": (respond_with_slow_body(500), "the API server answers 500"),
    "401": (build_status(401, "Unauthorized"), "does not accept these credentials: Unauthorized"),
    "403": (build_status(403, "it is forbidden"), "it is forbidden.*see kschedctl help rights"),
    "404": (build_status(404, "there is none"), "there is none"),
    "410": (build_status(410, "too old"), "too old"),
    "429": (build_status(429, "slow down", headers={"Retry-After": "30"}), "429: slow down"),
    "500": (build_status(500, "internal"), "500: internal"),
    "503": (build_status(503, "starting"), "503: starting"),
    "a long message": (build_status(403, "m" * 1_000_000), "m{500}…"),
    "redirection": (Response(302), "redirects"),
    "cut": (Response(body=b"{" * 100, cut=60), "connection lost"),
    "cut headers": (Response(raw=[build_head()[:30]]), "no answer: .*headers|unexpected response"),
    "no HTTP": (Response(raw=[b"SSH-2.0-OpenSSH_9.6\r\n"]), "no answer: SSH-2.0"),
    "no chunk size": (Response(raw=[CHUNKED, b"what?\r\n"]), "connection lost: .*what"),
    "cut in a chunk": (Response(chunks=[b"{"], cut=1), "connection lost: Response ended prematurely"),
    "no gzip": (
        Response(raw=[build_head(200, "Content-Encoding: gzip", "Content-Length: 9"), b"{" * 9]),
        "connection lost",
    ),
    "garbage": (Response(body=b"\x00\xff" * 50), "unexpected response"),
    "not UTF-8": (Response(body=LIST % b'[{"metadata":{"labels":{"\xff":"\xff"}}}]'), "it is not UTF-8"),
    "deep": (Response(body=b'{"x":' + b"[" * 1_000_000), "it is nested too deeply"),
    "deep items": (Response(body=LIST % (b'[{"x":' + b"[" * 100_000)), "it is nested too deeply"),
    "deep nulls": (
        Response(body=LIST % (b'[{"metadata":{"labels":null},"x":' + b"[" * 1500 + b"]" * 1500 + b"}]")),
        "it is nested too deeply",
    ),
    "items of another type": (Response(body=LIST % b"5"), "nodes of unexpected shape"),
    "null and another type": (Response(body=LIST % b'[{"spec":null,"metadata":5}]'), "nodes of unexpected shape"),
    "4,301 digits": (
        Response(body=LIST % b'[{"status":{"images":[{"sizeBytes":%s}]}}]' % (b"9" * 4301)),
        r"nodes of unexpected shape: .*sizeBytes",
    ),
    "beyond 64 bits": (
        Response(body=LIST % b'[{"status":{"images":[{"sizeBytes":9223372036854775808}]}}]'),
        r"nodes of unexpected shape: .*sizeBytes",
    ),
}


@pytest.fixture(scope="module", autouse=True)
def _warm() -> None:
    """Import everything once, so that imports do not count."""
    main(["explain", "--demo", "-q"])
    importlib.import_module("kubernetes.client")
    importlib.import_module("kubernetes.config")


@pytest.fixture(autouse=True)
def _smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_http, "MAX_BYTES", 8 << 20)
    monkeypatch.setattr(live_http, "LONGEST_WAIT", 0.0)
    monkeypatch.setattr(live_http, "ERROR_SECONDS", SECONDS)


@pytest.mark.parametrize("fault", FAULTS)
def test_faulty_list_is_a_one_line_error_with_exit_code_3(fault: str, run: Run) -> None:
    response, words = FAULTS[fault]
    code, out, err = run(answer_path(NODES, response), seconds=SECONDS if "no complete response" in words else PLENTY)
    assert_one_line_error(code, out, err, words)


def assert_one_line_error(code: int, out: str, err: str, words: str) -> None:
    assert (code, out) == (3, "")
    assert err.startswith("error: http://127.0.0.1:")
    assert err.count("\n") == 1
    assert len(err) < 700
    assert re.search(words, err), err


@pytest.mark.parametrize("path", [VERSION, LEASE, CONFIG_MAP, PODS, CLASSES])
@pytest.mark.parametrize("fault", ["silence", "slow body", "503", "garbage"])
def test_every_request_is_bounded(path: str, fault: str, run: Run) -> None:
    assert_one_line_error(*run(answer_path(path, FAULTS[fault][0]), seconds=SECONDS), words="")


@pytest.mark.parametrize("fault", ["silence", "slow headers", "slow body", "503", "429", "cut", "endless body"])
def test_server_that_fails_every_request(fault: str, run: Run) -> None:
    assert_one_line_error(*run(lambda *_: FAULTS[fault][0], seconds=SECONDS), words="")


def answer_endless_pages(token: Callable[[int], str], count: int = 1) -> Answer:
    """Answer with endless pages of this many nodes each."""
    numbers = itertools.count(1)

    def answer(path: str, query: dict[str, str]) -> Response | None:
        if path != NODES:
            return None
        number = next(numbers)
        items = [{"metadata": {"name": f"n-{number}-{index}"}} for index in range(count)]
        metadata = {"resourceVersion": "1", "continue": token(number)}
        return Response(body=json.dumps({"kind": "NodeList", "metadata": metadata, "items": items}).encode())

    return answer


@pytest.mark.parametrize("count", [0, 1, 500])
def test_endless_pages_are_bounded(count: int, run: Run) -> None:
    words = "no complete response within 0.5 s|nodes has no end"
    assert_one_line_error(*run(answer_endless_pages(str, count), seconds=SECONDS), words)


def test_repeated_continue_token_is_an_error(run: Run) -> None:
    assert_one_line_error(*run(answer_endless_pages(lambda number: str(number % 3))), "the list of nodes never ends")


@pytest.mark.parametrize(
    ("name", "most", "words"), [("MAX_OBJECTS", 199, "more than 199 nodes"), ("MAX_PAGES", 3, "never ends")]
)
def test_endless_pages_are_bounded_without_a_timeout(
    name: str, most: int, words: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_lists, name, most)
    assert_one_line_error(*run(answer_endless_pages(str, 200)), words)


EVENT = b'{"type":"ADDED","object":{"kind":"Node","metadata":{"name":"flood","resourceVersion":"1500"}}}\n'


def answer_earlier_nodes(path: str, query: dict[str, str]) -> Response | None:
    """Return the recorded nodes as of an earlier moment, so that later changes are requested."""
    found = replay_response(path, query) if path == NODES and "watch" not in query else None
    return found and Response(body=found.body.replace(b'"resourceVersion":"1429"', b'"resourceVersion":"1400"'))


WATCHES: dict[str, Response] = {
    "silence": Response(hang=2 * NEVER),
    "endless events": Response(chunks=Endless(then=EVENT)),
    "endless blank lines": Response(chunks=Endless(then=b"\n" * 9999)),
    "an endless line": Response(chunks=Endless(then=b" " * 9999)),
    "a slow line": Response(chunks=[bytes([byte]) for byte in EVENT], pause=0.1),
    "slow headers": respond_slowly(build_head(200, "X: y" * 99)),
    "cut": Response(chunks=[EVENT[:20]], cut=1),
    "garbage": Response(chunks=[b"\x00\xff\n"]),
    "deep": Response(chunks=[b'{"type":"ADDED","object":' + b"[" * 100_000 + b"\n"]),
    "another type": Response(chunks=[EVENT.replace(b"ADDED", b"ODD")]),
    "another shape": Response(chunks=[EVENT.replace(b'"flood"', b"5")]),
    "gone": Response(chunks=[b'{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old"}}\n']),
    "500 in the stream": Response(chunks=[b'{"type":"ERROR","object":{"kind":"Status","code":500}}\n']),
    "403": build_status(403, "forbidden"),
    "500": build_status(500, "internal"),
    "endless body": Response(chunks=Endless(then=b"x" * 9999)),
}


NO_HEADERS = ("silence", "slow headers")


@pytest.mark.parametrize("fault", WATCHES)
def test_faulty_watch_becomes_a_gap_in_time(fault: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_lists, "CATCH_UP_SECONDS", SECONDS)
    seconds = 10 * SECONDS if fault in NO_HEADERS else PLENTY
    code, out, err = run(answer_earlier_nodes, answer_path(NODES, WATCHES[fault], watch=True), seconds=seconds)
    assert code == 1
    assert out.startswith("lab/p01-cpu")
    unknown = "warning: changes while the cluster was read are unknown for nodes\n"
    taken_in = "note: changed while the cluster was read (the newest state is used): 1 Node\n"
    assert err == {"endless blank lines": "", "endless events": taken_in}.get(fault, unknown)
