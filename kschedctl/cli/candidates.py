"""Names for shell completion, from the sources that the words before the cursor name.

Names are looked up in a child process, which is stopped after a limit of processor time so that Tab never hangs. On a
busy machine names take longer to come, but they come.
"""

from __future__ import annotations

import os
import re
import select
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import NamedTuple

_PLAIN = re.compile(r"[A-Za-z0-9._/@:+-]+")
"""Names that every shell takes as one word without quotes."""
CPU_SECONDS = 0.18
"""Limit of processor time; with the start of the program the answer takes 0.3 s at most."""
MAX_SECONDS = 2.0
"""Limit of elapsed time, for slow disks and servers."""
MAX_NAMES = 500
KINDS = {"pods": "Pod", "nodes": "Node", "namespaces": "Namespace", "priority-classes": "PriorityClass"}
CONFIGURED = ("contexts", "clusters", "users")
OPTION_FIELDS = {
    "-f": "files",
    "--filename": "files",
    "--with-cluster": "files",
    "--snapshot": "snapshots",
    "-n": "namespace",
    "--namespace": "namespace",
    "--context": "context",
    "--kubeconfig": "kubeconfig",
}
"""Option -> the field of SourceWords that collects its values."""


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
        """Parse the words of a command line, of which the last is the current one. Other options are ignored."""
        line = cls(current=words[-1] if words else "")
        remaining_words = iter(words[:-1])
        for word in remaining_words:
            option, equals, value = word.partition("=")
            if option in OPTION_FIELDS:
                if not equals:
                    value = next(remaining_words, "")
                values = getattr(line, OPTION_FIELDS[option])
                values.append(os.path.expanduser(value))
            line.demo |= word == "--demo"
            line.recursive |= word in ("-R", "--recursive")
        return line

    @property
    def offline(self) -> bool:
        """Whether the names come from files or a snapshot."""
        return bool(self.files or self.demo or self.snapshots)

    @property
    def kubeconfigs(self) -> list[str]:
        """The kubeconfig files to read: the last one on the command line, else those of $KUBECONFIG or the default."""
        if self.kubeconfig:
            return [self.kubeconfig[-1]]
        paths = os.environ.get("KUBECONFIG") or "~/.kube/config"
        return [os.path.expanduser(path) for path in paths.split(os.pathsep) if path]


def find_names_in_time(kind: str, words: Sequence[str]) -> list[str]:
    """Return the names that are found within the time limits; none after an error, or without `fork`."""
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
            signal.signal(signal.SIGPROF, signal.SIG_DFL)  # the signal ends the process once its time is up
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
    """Wait for the process, and return whether it ended by itself. A signal may have ended it within a name."""
    with suppress(ChildProcessError):
        _, status = os.waitpid(child, 0)
        return status == 0
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
    yield from islice(dict.fromkeys(names), MAX_NAMES)


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
    objects, default_namespace = _list_objects(KINDS[kind], line)
    if kind == "pods":
        yield from _iter_pod_names(objects, default_namespace, line)
        return
    names = [name for _, name, _ in objects]
    if kind == "namespaces" and line.offline:  # files often have only pods
        pods, _ = _list_objects("Pod", line)
        names += [namespace for namespace, _, _ in pods]
    yield from sorted(names)


ObjectName = tuple[str, str, bool]
"""The namespace and the name of an object, and whether it is a pending pod."""


def _iter_pod_names(pods: Iterable[ObjectName], default_namespace: str, line: SourceWords) -> Iterator[str]:
    """Yield the names of pods, pending ones first, then those of the default namespace.

    Pods of other namespaces get `namespace/name`, and are left out if the command line names a namespace.
    """
    for namespace, name, _ in sorted(pods, key=lambda pod: (not pod[2], pod[0] != default_namespace, pod)):
        if namespace == default_namespace and not line.current.startswith(f"{namespace}/"):
            yield name
        elif not line.namespace:
            yield f"{namespace}/{name}"


class _ObjectNames(NamedTuple):
    """The names of all objects of a kind, and the default namespace."""

    objects: list[ObjectName]
    default_namespace: str


def _list_objects(kind: str, line: SourceWords) -> _ObjectNames:
    """List all objects of a kind in the files, the snapshot or the live cluster.

    From a live cluster, only objects of one namespace are listed: that of the current word, else the default one.
    """
    from kschedctl.sources.completion_names import iter_names_in_files, list_names_in_snapshot, merge_kubeconfigs  # noqa: PLC0415

    default_namespace = line.namespace[-1] if line.namespace else "default"
    if line.files or line.demo:
        from kschedctl import demo  # noqa: PLC0415

        embedded = [str(file) for file in demo.files()] if line.demo else []
        objects = iter_names_in_files([*embedded, *line.files], kind, line.recursive)
        return _ObjectNames(list(objects), default_namespace)
    if line.snapshots:
        return _ObjectNames(list(list_names_in_snapshot(line.snapshots[-1], kind)), default_namespace)
    from kschedctl.sources.live import names as live_names  # noqa: PLC0415

    config = merge_kubeconfigs(line.kubeconfigs)
    context = line.context[-1] if line.context else ""
    if not line.namespace:
        default_namespace = live_names.get_default_namespace(config, context)
    typed_namespace, slash, _ = line.current.partition("/")
    namespace = typed_namespace if slash and typed_namespace else default_namespace
    return _ObjectNames(list(live_names.list_names(config, context, kind, namespace)), default_namespace)
