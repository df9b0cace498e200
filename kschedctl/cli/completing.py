"""Shell completion: `kschedctl __complete WORD…`, which the completion scripts of all shells call.

The last word is the one that is being typed. Each candidate is a line, with its meaning after a tab; the last line is a
colon and kubectl's ShellCompDirective. Options are read from `completions/options.json`, because loading a command
loads the scheduler, which takes half a second or more. `python -m kschedctl.cli.completing` writes that file anew after
an option has changed.
"""

from __future__ import annotations

import json
import os
import re
import select
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

from kschedctl.cli.main import COMMANDS, load_command

FILES_TOO, NO_FILES, KEEP_ORDER = 0, 4, 36
"""Directives of kubectl: offer files as well; no files; no files, and keep the order of the words."""
NAME_KINDS = {
    "--namespace": "namespaces",
    "--context": "contexts",
    "--cluster": "clusters",
    "--user": "users",
    "--as-if-priority-class": "priority-classes",
    "--select": "rules",
    "--ignore": "rules",
}
"""Option -> the kind of names that it takes."""


class Completions(NamedTuple):
    """Candidate words with their meanings, and a directive."""

    words: Iterable[tuple[str, str]]
    directive: int = NO_FILES


def print_completions(words: Sequence[str]) -> int:
    """Print the completions of the last word, then the directive for the shell. Return the exit code 0."""
    completions = find_completions(words)
    lines = [f"{word}\t{_collapse_whitespace(meaning)}" if meaning else word for word, meaning in completions.words]
    sys.stdout.write("".join(f"{line}\n" for line in (*lines, f":{completions.directive}")))
    return 0


def find_completions(words: Sequence[str]) -> Completions:
    """Return the candidates for the last word that begin with it.

    After `--option=`, the candidates are values of this option.
    """
    typed = _join_split_options(words)
    option, equals, value = typed[-1].partition("=")
    if not (option.startswith("--") and equals):
        return _filter_by_prefix(_list_completions(typed), typed[-1])
    completions = _filter_by_prefix(_list_completions([*typed[:-1], option, value]), value)
    shell_splits_at_equals = typed[-1] != words[-1]
    if shell_splits_at_equals:
        return completions
    return completions._replace(words=[(f"{option}={word}", meaning) for word, meaning in completions.words])


def _join_split_options(words: Sequence[str]) -> list[str]:
    """Join the three words into which bash splits `--option=value`.

    >>> _join_split_options(["explain", "-n", "shop", "--color", "=", "n"])
    ['explain', '-n', 'shop', '--color=n']
    """
    joined: list[str] = []
    for before, word in zip(["", *words], words, strict=False):
        touches_equals = "=" in (before, word)
        if touches_equals and joined and joined[-1].startswith("--"):
            joined[-1] += word
        else:
            joined.append(word)
    return joined or [""]


def _filter_by_prefix(completions: Completions, current: str) -> Completions:
    """Return the completions that start with the current word."""
    return completions._replace(words=[pair for pair in completions.words if pair[0].startswith(current)])


def _list_completions(typed: Sequence[str]) -> Completions:
    """Return all candidates that may follow the previous words, whatever the last word begins with.

    The candidates are values of a preceding option, rules after `lint explain`, options if the last word begins with a
    hyphen, or else arguments.
    """
    *earlier, current = typed
    command_name = next((word for word in earlier if word in COMMANDS), "")
    if not command_name:
        if current.startswith("-"):
            return Completions([("--help", ""), ("--version", "")])
        return Completions([(name, command.summary) for name, command in COMMANDS.items()])

    # Until a subcommand is typed, the options of all subcommands are offered
    command = read_outline(command_name)
    subcommand = next((command.subcommands[word] for word in earlier if word in command.subcommands), None)
    all_outlines = list(command.subcommands.values()) or [command]
    outlines = [subcommand] if subcommand else all_outlines
    options = list(chain.from_iterable(outline.options for outline in outlines))
    previous = earlier[-1]

    for option in options:
        if previous in option.names and option.takes_value:
            return _complete_value(option, typed)
    if command_name == "lint" and previous == "explain":
        return _complete_names("rules", typed)
    if current.startswith("-"):
        help_by_name: dict[str, str] = {}
        for option in options:
            help_by_name |= dict.fromkeys(option.names, option.help)
        return Completions(help_by_name.items())
    metavars = list(chain.from_iterable(outline.argument_metavars for outline in outlines))
    return _complete_argument([] if subcommand else command.subcommands, metavars, typed)


def _complete_value(option: OptionOutline, typed: Sequence[str]) -> Completions:
    """Return the completions of an option's value.

    These are names of objects for an option in `NAME_KINDS`. For other options, these are the choices in the metavar,
    and files if the metavar contains FILE.
    """
    kind = next((NAME_KINDS[name] for name in option.names if name in NAME_KINDS), "")
    if kind:
        return _complete_names(kind, typed)
    return Completions(_iter_choices(option.metavar), FILES_TOO if "FILE" in option.metavar else NO_FILES)


def _complete_argument(subcommands: Iterable[str], metavars: Sequence[str], typed: Sequence[str]) -> Completions:
    """Return the completions of an argument.

    These are names of pods or nodes if a metavar names them. Otherwise, they are the subcommands and the choices in the
    metavars, together with files if a metavar stands for a file.
    """
    metavar_text = " ".join(metavars)
    if "POD" in metavar_text:
        return _complete_names("pods", typed)
    if "NODE" in metavar_text:
        return _complete_names("nodes", typed)
    words = [(word, "") for word in subcommands]
    words += [pair for metavar in metavars for pair in _iter_choices(metavar)]
    # Scenarios, and the snapshots that are compared, are files
    takes_file = re.search(r"FILE|SCENARIO|BEFORE|AFTER", metavar_text)
    return Completions(words, FILES_TOO if takes_file else NO_FILES)


def _iter_choices(metavar: str) -> Iterator[tuple[str, str]]:
    """Yield the words in a metavar that users type literally, each with an empty description.

    >>> [word for word, _ in _iter_choices("[FILE… | rules | explain RULE]")]
    ['rules', 'explain']
    >>> [word for word, _ in _iter_choices("json|jsonpath=…")]
    ['json', 'jsonpath=']
    """
    if "|" in metavar:
        yield from ((word, "") for word in re.findall(r"(?<![\w…])[a-z][a-z-]*=?(?!\w)", metavar))


def _complete_names(kind: str, typed: Sequence[str]) -> Completions:
    """Return the names of objects of a kind as completions."""
    return Completions([(name, "") for name in find_names_in_time(kind, typed)], KEEP_ORDER)


def _collapse_whitespace(text: str) -> str:
    """Replace each run of whitespace by one space, so that a meaning fits on a line."""
    return " ".join(text.split())


OUTLINE_FILE = Path(__file__).parent / "completions" / "options.json"


class OptionOutline(NamedTuple):
    """An option of a command."""

    names: tuple[str, ...]
    metavar: str
    help: str
    takes_value: bool


class CommandOutline(NamedTuple):
    """The options and arguments of a command, or of each of its subcommands."""

    options: tuple[OptionOutline, ...]
    """The options that the help shows, or shows with `--help-all`."""
    argument_metavars: tuple[str, ...]
    subcommands: Mapping[str, CommandOutline]


def build_outline(command: Any) -> CommandOutline:
    """Build the outline of a typer command: its visible options, its arguments and the outlines of its subcommands."""
    options = [parameter for parameter in command.params if parameter.param_type_name == "option"]
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    return CommandOutline(
        tuple(_build_option_outline(option) for option in options if not option.hidden),
        tuple(argument.metavar or "" for argument in arguments),
        {name: build_outline(subcommand) for name, subcommand in getattr(command, "commands", {}).items()},
    )


def _build_option_outline(option: Any) -> OptionOutline:
    """Build the outline of an option. Flags and counted options take no value."""
    takes_value = not (option.is_flag or option.count)
    return OptionOutline(tuple(option.opts), option.metavar or "", option.help or "", takes_value)


def read_outline(name: str) -> CommandOutline:
    """Return the outline of a command: from the file, or from the command itself if the file does not have it."""
    content = json.loads(OUTLINE_FILE.read_bytes()).get(name)
    return build_outline(load_command(name)) if content is None else _decode_outline(content)


def _decode_outline(content: Any) -> CommandOutline:
    """Decode an outline from the lists in the JSON file."""
    options, argument_metavars, subcommands = content
    return CommandOutline(
        tuple(OptionOutline(tuple(names), *other_fields) for names, *other_fields in options),
        tuple(argument_metavars),
        {name: _decode_outline(subcommand) for name, subcommand in subcommands.items()},
    )


def encode_outlines() -> str:
    """Return the content of the outline file: JSON with the outline of every command, one option per line."""
    commands = ",\n".join(
        f"{json.dumps(name)}: {_encode_outline(build_outline(load_command(name)))}" for name in COMMANDS
    )
    return f"{{\n{commands}\n}}\n"


def _encode_outline(outline: CommandOutline) -> str:
    """Encode an outline as JSON lists."""
    options = ",\n".join(json.dumps(option, ensure_ascii=False) for option in outline.options)
    subcommands = ",\n".join(f"{json.dumps(name)}: {_encode_outline(sub)}" for name, sub in outline.subcommands.items())
    return f"[[\n{options}\n], {json.dumps(outline.argument_metavars, ensure_ascii=False)}, {{{subcommands}}}]"


# -- names of objects --------------------------------------------------------------------------------------------------


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
    """The sources named on a command line, and the word that is being typed."""

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
        """Parse the options that select the source from a command line. The last word is the one to complete."""
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
        """True if the names come from files or a snapshot."""
        return bool(self.files or self.demo or self.snapshots)

    @property
    def kubeconfigs(self) -> list[str]:
        """The kubeconfig files to read: the last one on the command line, or else $KUBECONFIG or the default."""
        if self.kubeconfig:
            return [self.kubeconfig[-1]]
        paths = os.environ.get("KUBECONFIG") or "~/.kube/config"
        return [os.path.expanduser(path) for path in paths.split(os.pathsep) if path]


def find_names_in_time(kind: str, words: Sequence[str]) -> list[str]:
    """Return the names that are found within the time limits, or [] after an error or on systems without `fork`."""
    if not hasattr(os, "fork"):
        return []
    return run_with_time_limit(CPU_SECONDS, lambda: "\n".join(iter_candidates(kind, words))).splitlines()


def run_with_time_limit(seconds: float, work: Callable[[], str]) -> str:
    """Run the work in a child process and return its text.

    Return "" if the child fails, takes more than `seconds` of CPU time, or takes longer than MAX_SECONDS.
    """
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
    return (output or b"").decode(errors="replace") if _wait_for_success(child) else ""


def _wait_for_success(child: int) -> bool:
    """Wait for the child process, and return whether it exited with 0, so that its text is complete.

    A child that was already waited for counts as successful.
    """
    with suppress(ChildProcessError):
        _, status = os.waitpid(child, 0)
        return status == 0
    return True


def _read_until_closed(reader: int) -> bytes | None:
    """Read the pipe until its writer closes it. Return None if the time limit is reached first."""
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
    """Yield all names of a kind in the order in which they are offered.

    The kind is a kind of objects, lint's "rules", or a section of the kubeconfig such as "contexts".
    """
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
    """Yield the names of pods: pending pods first, then pods in the default namespace.

    Pods in other namespaces are written as `namespace/name`, and pods in the default namespace too if the current word
    begins with this namespace. Names of this form are left out if the command line names a namespace.
    """

    def get_sort_key(pod: ObjectName) -> tuple[bool, bool, ObjectName]:
        """Return a key that sorts pending pods first, then pods in the default namespace."""
        namespace, _name, is_pending = pod
        return not is_pending, namespace != default_namespace, pod

    for namespace, name, _ in sorted(pods, key=get_sort_key):
        if namespace == default_namespace and not line.current.startswith(f"{namespace}/"):
            yield name
        elif not line.namespace:
            yield f"{namespace}/{name}"


class _ObjectNames(NamedTuple):
    """The names of all objects of a kind, and the default namespace."""

    objects: list[ObjectName]
    default_namespace: str


def _list_objects(kind: str, line: SourceWords) -> _ObjectNames:
    """List the objects of a kind in the files, the snapshot or the live cluster, with the default namespace.

    From a live cluster, only one namespace is listed: the one in the current word, or else the default one. Pending
    pods of all namespaces are added.
    """
    from kschedctl.sources.completion_names import iter_names_in_files, list_names_in_snapshot, merge_kubeconfigs  # noqa: PLC0415

    default_namespace = line.namespace[-1] if line.namespace else "default"
    if line.files or line.demo:
        from kschedctl import demo  # noqa: PLC0415

        embedded = [str(file) for file in demo.list_files()] if line.demo else []
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
    return _ObjectNames(list(live_names.list_object_names(config, context, kind, namespace)), default_namespace)


if __name__ == "__main__":
    OUTLINE_FILE.write_text(encode_outlines(), "utf-8")
