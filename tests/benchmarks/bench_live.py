"""Measure reading a big cluster over loopback, saving a snapshot, and explaining a pod from the snapshot.

    python tests/benchmarks/make_cluster.py bigcluster
    python tests/benchmarks/bench_live.py bigcluster [--pod bench/pending-plain]

Each measurement is a process of its own: wall time and peak memory as the kernel counts them. The official client's
typed lists are measured on a tenth of the pods and nodes in the same run, as all of them would take too long.

What else was tried for less to read, on these 150,000 pods (655 MiB of JSON, 46 to 52 MiB with gzip), and is not done:

- Protobuf: the same pods in its wire format have 319 MiB, 30 MiB with gzip, so 43 % less to send. Google's compiled
  reader, with messages of the fields that are read alone, takes 0.5 s for all of it and 4.0 s to go through its pods in
  Python; msgspec with what makes rows of them 3.1 s for the JSON. Inflating takes 0.5 s instead of 0.9 s. It costs as
  much processor time, needs the numbers of all fields of all kinds, and there is none for custom resources.
- ISA-L instead of zlib: inflates in 0.4 s instead of 0.8 s, one part in fourteen of the whole, for one more compiled
  dependency.
- No gzip: saves these 0.8 s, and sends 655 MiB.
- Pods that have ended left out by a field selector, as kube-scheduler's own informer does: names that are misspelled,
  pods that are asked about themselves, claims, Jobs and quotas look at them, too.
- Metadata alone of kinds of which nothing else is read: Namespaces, 7 KB.
- The watch cache (resourceVersion=0): an API server passes over the limit then, and what it answers may be old.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import msgspec
from peak_memory import print_peak_memory

from kschedctl.api.kinds import KINDS
from kschedctl.sources.live.lists import iter_list_paths

MANAGED = re.compile(rb',"managedFields":\[.*?\](?=\},"(?:spec|status)")')
"""The pattern of managed fields as written by make_cluster.py, last in the metadata."""
GZIPPED = 128 << 10
"""The length from which responses are compressed, as by an API server."""
SCRIPTS = Path(sys.executable).parent
CLIENT = """
import sys
from kubernetes import client, config
config.load_kube_config(sys.argv[1])
core = client.CoreV1Api()
for read in (core.list_node, core.list_pod_for_all_namespaces):
    token, count = None, 0
    while True:
        page = read(limit=500, _continue=token)
        count += len(page.items)
        token = page.metadata._continue
        if not token:
            break
"""


class List(msgspec.Struct):
    """A list whose items stay JSON."""

    items: list[msgspec.Raw]


class Kind(msgspec.Struct):
    kind: str = ""


class Pages:
    """The pages of each list, as an API server would send them, from files that hold one kind each."""

    def __init__(self, folder: Path, share: int = 1, *, drops: bool = False) -> None:
        """``drops``: leaves out managed fields for those who say so, as an API server of 1.38 does."""
        self.sent, self.drops = 0, drops
        self.lists: dict[str, tuple[str, list[msgspec.Raw]]] = {}
        for file in sorted(folder.glob("*.json")):
            items = msgspec.json.decode(file.read_bytes(), type=List).items
            if items:
                kind = msgspec.json.decode(items[0], type=Kind).kind
                found = items[:: share if kind in ("Pod", "Node") else 1]
                self.lists[f"/{KINDS[kind].plural}"] = kind, [msgspec.Raw(bytes(item)) for item in found]

    def respond(self, target: str, accept: str = "") -> bytes:
        """Return the body of a response of the API server."""
        parts = urlsplit(target)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        if parts.path == "/version":
            return b'{"major":"1","minor":"36","gitVersion":"v1.36.2"}'
        if parts.path == "/bytes":
            return str(self.sent).encode()
        if "watch" in query:
            return b""
        if parts.path.endswith("/namespaces/kube-system"):
            return b'{"kind":"Namespace","metadata":{"name":"kube-system","uid":"this"}}'
        if "labelSelector" in query:  # the scheduler's own pods: none
            return b'{"kind":"PodList","metadata":{"resourceVersion":"1"},"items":[]}'
        kind, items = self.lists.get(f"/{parts.path.rpartition('/')[2]}", ("", []))
        start, limit = int(query.get("continue", 0)), int(query.get("limit", len(items) or 1))
        end = start + limit
        metadata = {"resourceVersion": "1"} | ({"continue": str(end)} if end < len(items) else {})
        chosen = items[start:end]
        if self.drops and "drop=metadata.managedFields" in accept:
            chosen = [msgspec.Raw(MANAGED.sub(b"", bytes(item))) for item in chosen]
        document = {"kind": f"{kind or KIND_AT.get(parts.path, '')}List", "metadata": metadata, "items": chosen}
        return msgspec.json.encode(document)


KIND_AT = {path: kind for kind in KINDS for path in iter_list_paths(kind)}


def serve_until_ended(pages: Pages) -> None:
    """Print the address and serve the pages until the process is ended."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = pages.respond(self.path, self.headers.get("Accept", ""))
            if "gzip" in self.headers.get("Accept-Encoding", "") and len(body) > GZIPPED:
                self.gzipped, body = True, gzip.compress(body, 1)
            else:
                self.gzipped = False
            pages.sent += len(body)
            self.send_response(404 if "configmaps" in self.path or "leases" in self.path else 200)
            self.send_header("Content-Type", "application/json")
            if self.gzipped:
                self.send_header("Content-Encoding", "gzip")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


@contextmanager
def run_server(folder: Path, share: int = 1, *, drops: bool = False) -> Iterator[str]:
    """Run a server in a separate process, so that its memory is not counted."""
    command = [sys.executable, __file__, str(folder), "--serve", str(share), *["--drops"] * drops]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def print_measurement(title: str, command: Sequence[str]) -> None:
    """Run a command and print its wall time, processor time and peak memory."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, code, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    cpu = usage.ru_utime + usage.ru_stime
    memory = f"{usage.ru_maxrss / 1024:7.0f} MiB"
    print(f"{title:44} {wall:6.2f} s wall  {cpu:6.2f} s cpu  {memory}  exit {os.waitstatus_to_exitcode(code)}")


def get_sent_bytes(url: str) -> int:
    """Return the bytes of all bodies that the server has sent."""
    with urllib.request.urlopen(f"{url}/bytes") as response:
        return int(response.read())


def write_kubeconfig(url: str, folder: str) -> str:
    """Write a kubeconfig for the server and return its path."""
    path = Path(folder) / "kubeconfig"
    clusters = [{"name": "c", "cluster": {"server": url}}]
    contexts = [{"name": "c", "context": {"cluster": "c", "user": "u"}}]
    users = [{"name": "u", "user": {"token": "t"}}]
    path.write_text(json.dumps({"current-context": "c", "clusters": clusters, "contexts": contexts, "users": users}))
    return str(path)


def main() -> None:
    """Measure commands against a live cluster, a snapshot, and the official client."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pod", default="bench/pending-plain")
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--drops", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve_until_ended(Pages(arguments.folder, arguments.serve, drops=arguments.drops))
    program = str(SCRIPTS / "kschedctl")
    with tempfile.TemporaryDirectory() as folder:
        snapshot = f"{folder}/snapshot"
        with run_server(arguments.folder) as url:
            config = write_kubeconfig(url, folder)
            print_measurement(
                "snapshot save, live", [program, "snapshot", "save", "--kubeconfig", config, "-o", snapshot]
            )
            for title in ("explain, live", "explain --cache, live, first", "explain --cache, live, second"):
                os.environ["XDG_CACHE_HOME"] = folder
                before = get_sent_bytes(url)
                run = [program, "explain", arguments.pod, "--kubeconfig", config, *["--cache"] * ("cache" in title)]
                print_measurement(title, run)
                print(f"{'  received':44} {(get_sent_bytes(url) - before) / 2**20:6.1f} MiB")
        with run_server(arguments.folder, drops=True) as url:
            run = [program, "explain", arguments.pod, "--kubeconfig", write_kubeconfig(url, folder)]
            print_measurement("explain, live, managed fields left out", run)
            print(f"{'  received':44} {get_sent_bytes(url) / 2**20:6.1f} MiB")
        print(f"{'the file':44} {os.path.getsize(snapshot) / 2**20:6.1f} MiB")
        for number in range(3):
            run = [program, "explain", arguments.pod, "--snapshot", snapshot]
            print_measurement(f"explain --snapshot, cold, run {number + 1}", run)
        print_measurement("explain -f, from the JSON", [program, "explain", arguments.pod, "-f", str(arguments.folder)])
        with run_server(arguments.folder, share=10) as url:
            config = write_kubeconfig(url, folder)
            run = [program, "snapshot", "save", "--kubeconfig", config, "-o", snapshot]
            print_measurement("snapshot save, a tenth of it", run)
            print_measurement("official client, typed, a tenth of it", [sys.executable, "-c", CLIENT, config])


if __name__ == "__main__":
    main()
    print_peak_memory()
