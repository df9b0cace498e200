"""Names for shell completion, from the sources that the words before the cursor name.

Names are looked up in a child process, which is stopped after a limit of processor time so that Tab never hangs. On a
busy machine names take longer to come, but they come.
"""

from __future__ import annotations

import os
import re
import select
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

_PLAIN = re.compile(r"[A-Za-z0-9._/@:+-]+")
"""Names that every shell takes as one word without quotes."""
CPU_SECONDS = 0.18
"""Limit of processor time; with the start of the program the answer takes 0.3 s at most."""
MAX_SECONDS = 2.0
"""Limit of elapsed time, for slow disks and servers."""
MAX_NAMES = 500
KINDS = {"pods": "Pod", "nodes": "Node", "namespaces": "Namespace", "priority-classes": "PriorityClass"}
CONFIGURED = ("contexts", "clusters", "users")
VALUES = {
    "-f": "files",
    "--filename": "files",
    "--with-cluster": "files",
    "--snapshot": "snapshots",
    "-n": "namespace",
    "--namespace": "namespace",
    "--context": "context",
    "--kubeconfig": "kubeconfig",
}


@dataclass
class SourceWords:
    """The sources that a command line names, and the word that is being typed."""

    current: str = ""
    """The word that is being typed."""
    files: list[str] = field(default_factory=list)
    snapshots: list[str] = field(default_factory=list)
    namespace: list[str] = field(default_factory=list)
    context: list[str] = field(default_factory=list)
    kubeconfig: list[str] = field(default_factory=list)
    demo: bool = False
    recursive: bool = False

    @classmethod
    def parse(cls, words: Sequence[str]) -> SourceWords:
        """Parse the words of a command line, of which the last is the current one."""
        line = cls(current=words[-1] if words else "")
        earlier = iter(words[:-1])
        for word in earlier:
            option, equals, value = word.partition("=")
            if option in VALUES:
                getattr(line, VALUES[option]).append(os.path.expanduser(value if equals else next(earlier, "")))
            line.demo |= word == "--demo"
            line.recursive |= word in ("-R", "--recursive")
        return line

    @property
    def offline(self) -> bool:
        """Whether the names come from files or a snapshot."""
        return bool(self.files or self.demo or self.snapshots)

    @property
    def kubeconfigs(self) -> list[str]:
        """The kubeconfig files to read."""
        listed = os.environ.get("KUBECONFIG") or "~/.kube/config"
        return self.kubeconfig[-1:] or [os.path.expanduser(path) for path in listed.split(os.pathsep) if path]


def find_names_in_time(kind: str, words: Sequence[str]) -> list[str]:
    """Return the names that are found within the time limits, and suppress all error messages."""
    if not hasattr(os, "fork"):
        return []
    return run_with_limit(CPU_SECONDS, lambda: "\n".join(iter_candidates(kind, words))).splitlines()


def run_with_limit(seconds: float, work: Callable[[], str]) -> str:
    """Run the work in a child process and return its text, or "" if the child fails or exceeds a limit."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        with suppress(BaseException):
            os.close(reader)
            signal.signal(signal.SIGPROF, signal.SIG_DFL)  # which ends the process
            signal.setitimer(signal.ITIMER_PROF, seconds)
            with open(writer, "w", encoding="utf-8", errors="replace") as file:
                file.write(work())
        os._exit(0)
    os.close(writer)
    output = _read_until_closed(reader)
    if output is None:
        os.kill(child, signal.SIGKILL)
    return (output or b"").decode(errors="replace") if _exited_normally(child) else ""


def _exited_normally(child: int) -> bool:
    """Return whether the process ended by itself. A signal may have ended it in the middle of a name."""
    with suppress(ChildProcessError):
        return os.waitpid(child, 0)[1] == 0
    return True


def _read_until_closed(reader: int) -> bytes | None:
    """Read the pipe until its writer closes it. Return None if that does not happen in time."""
    end = monotonic() + MAX_SECONDS
    data = b""
    with open(reader, "rb", buffering=0) as file:
        while select.select([file], [], [], max(end - monotonic(), 0))[0]:
            piece = file.read(1 << 16)
            if not piece:
                return data
            data += piece
    return None


def iter_candidates(kind: str, words: Sequence[str]) -> Iterator[str]:
    """Yield at most MAX_NAMES names that begin with the current word. Raises any error of reading."""
    line = SourceWords.parse(words)
    names = (name for name in _iter_names(kind, line) if name.startswith(line.current) and _PLAIN.fullmatch(name))
    for _, name in zip(range(MAX_NAMES), dict.fromkeys(names), strict=False):
        yield name


def _iter_names(kind: str, line: SourceWords) -> Iterator[str]:
    """Yield all names of a kind, in the order in which they are offered."""
    if kind == "rules":
        page = (Path(__file__).parents[1] / "lint" / "RULES.md").read_text(encoding="utf-8")
        yield from re.findall(r"^\| `([a-z0-9-]+)`", page, re.MULTILINE)
        return
    if kind in CONFIGURED:
        from kschedctl.sources.completion_names import merge_kubeconfigs  # noqa: PLC0415 - a name costs no more than it needs

        yield from merge_kubeconfigs(line.kubeconfigs)[kind]
        return
    listed, home = _list_objects(KINDS[kind], line)
    if kind == "namespaces" and line.offline:  # files often have the pods alone
        listed += [("", pod[0], False) for pod in _list_objects("Pod", line)[0]]
    if kind != "pods":
        yield from sorted(key[1] for key in listed)
        return
    for namespace, name, _ in sorted(listed, key=lambda key: (not key[2], key[0] != home, key)):
        if namespace == home and not line.current.startswith(f"{namespace}/"):
            yield name
        elif not line.namespace:
            yield f"{namespace}/{name}"


def _list_objects(kind: str, line: SourceWords) -> tuple[list[tuple[str, str, bool]], str]:
    """Return (namespace, name, is pending) of all objects of a kind, and the default namespace."""
    from kschedctl.sources.completion_names import iter_names_in_files, list_names_in_snapshot, merge_kubeconfigs  # noqa: PLC0415

    home = line.namespace[-1] if line.namespace else "default"
    if line.files or line.demo:
        from kschedctl import demo  # noqa: PLC0415

        embedded = [str(file) for file in demo.files()] if line.demo else []
        return list(iter_names_in_files([*embedded, *line.files], kind, line.recursive)), home
    if line.snapshots:
        return list(list_names_in_snapshot(line.snapshots[-1], kind)), home
    from kschedctl.sources.live import names as live_names  # noqa: PLC0415

    config = merge_kubeconfigs(line.kubeconfigs)
    context = (line.context or [""])[-1]
    home = home if line.namespace else live_names.get_default_namespace(config, context)
    typed = line.current.partition("/")[0] if "/" in line.current else ""
    return list(live_names.list_names(config, context, kind, typed or home)), home
