"""Names for Tab, from the sources that the words before it name, at once or not at all.

The names are looked for in a process of its own, which is given up when it takes too long, whatever it does just then.
What counts is the time of the processor: on a busy machine names take longer to come, but they come.
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
"""What no shell takes for anything but a word; names of objects are no more than that."""
SECONDS = 0.18
"""Seconds of the processor; with the start of the program no more than 0.3 s."""
LONGEST = 2.0
"""Seconds on the clock: nobody waits longer for other processes, a disk or a server."""
MOST = 500
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
class Line:
    """What the words before the cursor name; ``current`` is the one that is being typed."""

    current: str = ""
    files: list[str] = field(default_factory=list)
    snapshots: list[str] = field(default_factory=list)
    namespace: list[str] = field(default_factory=list)
    context: list[str] = field(default_factory=list)
    kubeconfig: list[str] = field(default_factory=list)
    demo: bool = False
    recursive: bool = False

    @classmethod
    def of(cls, words: Sequence[str]) -> Line:
        """The last word is the current one."""
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
        return bool(self.files or self.demo or self.snapshots)

    @property
    def kubeconfigs(self) -> list[str]:
        listed = os.environ.get("KUBECONFIG") or "~/.kube/config"
        return self.kubeconfig[-1:] or [os.path.expanduser(path) for path in listed.split(os.pathsep) if path]


def names_in_time(kind: str, words: Sequence[str]) -> list[str]:
    """What is wrong is not for a shell that waits for names, so nothing is said of it."""
    if not hasattr(os, "fork"):
        return []
    return within(SECONDS, lambda: "\n".join(candidates(kind, words))).splitlines()


def within(seconds: float, work: Callable[[], str]) -> str:
    """What the work gives, empty when it takes more of the processor, or LONGEST on the clock, or fails."""
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
    output = _all_of(reader)
    if output is None:
        os.kill(child, signal.SIGKILL)
    return (output or b"").decode(errors="replace") if _ended_well(child) else ""


def _ended_well(child: int) -> bool:
    """Whether no signal ended the process, in the middle of a name maybe. There is none where nobody wants to know."""
    with suppress(ChildProcessError):
        return os.waitpid(child, 0)[1] == 0
    return True


def _all_of(reader: int) -> bytes | None:
    """What is written until the end, None where that does not come in time."""
    end, data = monotonic() + LONGEST, b""
    with open(reader, "rb", buffering=0) as file:
        while select.select([file], [], [], max(end - monotonic(), 0))[0]:
            piece = file.read(1 << 16)
            if not piece:
                return data
            data += piece
    return None


def candidates(kind: str, words: Sequence[str]) -> Iterator[str]:
    """The names that begin with the current word, at most MOST. Raises whatever reading raises."""
    line = Line.of(words)
    names = (name for name in _names(kind, line) if name.startswith(line.current) and _PLAIN.fullmatch(name))
    for _, name in zip(range(MOST), dict.fromkeys(names), strict=False):
        yield name


def _names(kind: str, line: Line) -> Iterator[str]:
    if kind == "rules":
        page = (Path(__file__).parents[1] / "lint" / "RULES.md").read_text(encoding="utf-8")
        yield from re.findall(r"^\| `([a-z0-9-]+)`", page, re.MULTILINE)
        return
    if kind in CONFIGURED:
        from kschedctl.sources.names import kubeconfig  # noqa: PLC0415 - a name costs no more than it needs

        yield from kubeconfig(line.kubeconfigs)[kind]
        return
    listed, home = _objects(KINDS[kind], line)
    if kind == "namespaces" and line.offline:  # files often have the pods alone
        listed += [("", pod[0], False) for pod in _objects("Pod", line)[0]]
    if kind != "pods":
        yield from sorted(key[1] for key in listed)
        return
    for namespace, name, _ in sorted(listed, key=lambda key: (not key[2], key[0] != home, key)):
        if namespace == home and not line.current.startswith(f"{namespace}/"):
            yield name
        elif not line.namespace:
            yield f"{namespace}/{name}"


def _objects(kind: str, line: Line) -> tuple[list[tuple[str, str, bool]], str]:
    """Namespace, name and whether it is pending; and the namespace where nothing else is said."""
    from kschedctl.sources.names import in_files, in_snapshot, kubeconfig  # noqa: PLC0415

    home = line.namespace[-1] if line.namespace else "default"
    if line.files or line.demo:
        from kschedctl import demo  # noqa: PLC0415

        embedded = [str(file) for file in demo.files()] if line.demo else []
        return list(in_files([*embedded, *line.files], kind, line.recursive)), home
    if line.snapshots:
        return list(in_snapshot(line.snapshots[-1], kind)), home
    from kschedctl.sources.live import names as live_names  # noqa: PLC0415

    config, context = kubeconfig(line.kubeconfigs), (line.context or [""])[-1]
    home = home if line.namespace else live_names.home(config, context)
    typed = line.current.partition("/")[0] if "/" in line.current else ""
    return list(live_names.in_cluster(config, context, kind, typed or home)), home
