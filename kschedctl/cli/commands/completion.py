"""``kschedctl completion``: scripts for shells, made from the commands' own options.

Tab starts a program only for names of objects; see candidates.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Annotated, Any, NamedTuple

import typer

from kschedctl.cli.program import PROGRAMS

EXAMPLES = (
    "echo 'source <(kschedctl completion bash)' >> ~/.bashrc",
    "kschedctl completion fish > ~/.config/fish/completions/kschedctl.fish",
)


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"
    KUBECTL = "kubectl"


NAMES = {
    "--namespace": "namespaces",
    "--context": "contexts",
    "--cluster": "clusters",
    "--user": "users",
    "--as-if-priority-class": "priority-classes",
    "--select": "rules",
    "--ignore": "rules",
}
"""Option -> the names that it takes."""


class Opt(NamedTuple):
    """An option: ``names`` (-o, --output); ``value`` is its metavar, empty for a flag."""

    names: tuple[str, ...]
    value: str
    help: str

    @property
    def words(self) -> list[str]:
        """The values to choose from, when there are such."""
        return [word.removesuffix("…") for word in self.value.split("|")] if "|" in self.value else []

    @property
    def takes_file(self) -> bool:
        return "FILE" in self.value

    @property
    def kind(self) -> str:
        """Of what the value is a name, empty for nothing that could be looked up."""
        return next((NAMES[name] for name in self.names if name in NAMES), "")


class Described(NamedTuple):
    """A command: its help line, its options, the words that its argument is one of.

    ``kind``: of what else its argument is a name; ``files``: it may be a file.
    """

    summary: str
    options: list[Opt]
    words: list[str]
    kind: str = ""
    files: bool = False


Commands = dict[str, Described]


def completion(
    shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish|kubectl", help="Shell, or kubectl.")],
) -> int:
    """Print the completion script of a shell. It completes kschedctl and kubectl-ksched.

    bash: source <(kschedctl completion bash). zsh: put it into $fpath as _kschedctl. fish: kschedctl completion fish |
    source. kubectl: put it into $PATH as kubectl_complete-ksched, executable; kubectl's own completion then runs it.
    """
    typer.echo(script(shell), nl=False)
    return 0


def script(shell: Shell) -> str:
    return SCRIPTS[shell](dict(_commands()))


def _commands() -> Iterator[tuple[str, Described]]:
    from kschedctl.cli.main import COMMANDS, load  # noqa: PLC0415  main imports this module when it runs it

    for name, summary in COMMANDS.items():
        command = load(name)
        inner = getattr(command, "commands", {})
        parameters = [p for c in (inner.values() or [command]) for p in c.params]
        options = [_option(p) for p in parameters if p.param_type_name == "option" and not p.hidden]
        choices = [p.metavar for p in parameters if p.param_type_name == "argument" and "|" in p.metavar]
        words = [*inner, *(word for metavar in choices for word in re.findall(r"(?<![\w…])[a-z]+(?![\w…])", metavar))]
        said = " ".join(p.metavar for p in parameters if p.param_type_name == "argument")
        kind = "pods" if "POD" in said else "nodes" if "NODE" in said else ""
        files = re.search(r"FILE|SCENARIO|BEFORE|AFTER", said) is not None
        yield name, Described(summary, list(dict.fromkeys(options)), words, kind, files)


def _option(parameter: Any) -> Opt:
    takes_value = not (parameter.is_flag or parameter.count)
    names = (*parameter.opts, *parameter.secondary_opts)
    return Opt(names, (parameter.metavar or "VALUE") if takes_value else "", parameter.help or "")


def _bash(commands: Commands) -> str:
    cases = "".join(
        f"        {name}/-*) words={_quoted(' '.join(n for o in c.options for n in o.names))} ;;\n"
        f"        {name}/*) {_bash_arguments(c)} ;;\n"
        for name, c in commands.items()
    )
    return _BASH.format(
        programs=" ".join(PROGRAMS),
        names="|".join(commands),
        words=_quoted(" ".join([*commands, "--help", "--version"])),
        values="".join(_bash_values(commands)),
        commands=cases,
    )


def _bash_arguments(command: Described) -> str:
    if command.kind:
        return f"_kschedctl_names {command.kind}; return"
    files = f"; {_BASH_FILES.replace('COMPREPLY=', 'COMPREPLY+=')}" if command.files else ""
    return f'COMPREPLY=($(compgen -W {_quoted(" ".join(command.words))} -- "$current")){files}; return'


def _bash_values(commands: Commands) -> Iterator[str]:
    """What follows an option that takes a value."""
    for opt, pattern in _valued(commands):
        if opt.words:
            action = f'COMPREPLY=($(compgen -W {_quoted(" ".join(opt.words))} -- "$current"))'
        elif opt.kind:
            action = f"_kschedctl_names {opt.kind}"
        else:
            action = _BASH_FILES if opt.takes_file else "COMPREPLY=()"
        yield f"        {pattern}) {action}; return ;;\n"
    yield "        lint/explain) _kschedctl_names rules; return ;;\n"


def _valued(commands: Commands) -> Iterator[tuple[Opt, str]]:
    """The options that take a value, each with the shell's pattern of ``command/option`` wherever it stands."""
    takers: dict[Opt, list[str]] = {}
    for name, command in commands.items():
        for opt in command.options:
            if opt.value:
                takers.setdefault(opt._replace(help=""), []).append(name)
    for opt, names in takers.items():
        yield opt, "|".join(f"{name}/{option}" for name in names for option in opt.names)


def _kubectl(commands: Commands) -> str:
    """A program that kubectl runs with what was typed; it prints a candidate a line, then what else to complete."""
    values = "".join(f"{pattern}) {_kubectl_value(opt)} ;;\n" for opt, pattern in _valued(commands))
    values += 'lint/explain) names rules "$@" ;;\n'
    cases = "".join(
        f"{name}/-*) answer {_NO_FILES} {_quoted(' '.join(n for o in c.options for n in o.names))} ;;\n"
        f"{name}/*) {_kubectl_arguments(c)} ;;\n"
        for name, c in commands.items()
    )
    return _KUBECTL.format(
        names="|".join(commands),
        values=values,
        commands=cases,
        none=_NO_FILES,
        kept=_KEPT,
        words=_quoted(" ".join(commands)),
    )


def _kubectl_value(opt: Opt) -> str:
    if opt.kind:
        return f'names {opt.kind} "$@"'
    return f"answer {_FILES_TOO if opt.value == 'FILE' else _NO_FILES} {_quoted(' '.join(opt.words))}"


def _kubectl_arguments(command: Described) -> str:
    if command.kind:
        return f'names {command.kind} "$@"'
    return f"answer {_FILES_TOO if command.files else _NO_FILES} {_quoted(' '.join(command.words))}"


def _zsh(commands: Commands) -> str:
    described = " ".join(_quoted(f"{name}:{c.summary}") for name, c in commands.items())
    cases = "".join(
        f"        {name})\n            _arguments \\\n"
        + "".join(f"                {line} \\\n" for opt in c.options for line in _zsh_option(opt))
        + f"                {_quoted(_zsh_arguments(c))} ;;\n"
        for name, c in commands.items()
    )
    return _ZSH.format(programs=" ".join(PROGRAMS), commands=described, cases=cases)


def _zsh_arguments(command: Described) -> str:
    if command.kind:
        return f"*:name:{{_kschedctl_names {command.kind}}}"
    words = " ".join(command.words)
    return f"*:argument:{{_kschedctl_files {words}}}" if command.files else f"::argument:({words})"


def _zsh_option(opt: Opt) -> Iterator[str]:
    told = re.sub(r"([\[\]:])", r"\\\1", opt.help)
    values = f"({' '.join(opt.words)})" if opt.words else "_files" if opt.takes_file else ""
    values = f"{{_kschedctl_names {opt.kind}}}" if opt.kind else values
    argument = f":{opt.value.split('|')[0].lower() if not opt.words else 'value'}:{values}" if opt.value else ""
    for name in opt.names:
        yield _quoted(f"*{name}[{told}]{argument}")


def _fish(commands: Commands) -> str:
    return "".join(f"{line}\n" for line in (_FISH, *_fish_lines(commands)))


def _fish_lines(commands: Commands) -> Iterator[str]:
    for program in PROGRAMS:
        unused = "-n __fish_use_subcommand"
        for name, c in commands.items():
            yield f"complete -c {program} {unused} -f -a {name} -d {_quoted(c.summary)}"
        for name, c in commands.items():
            seen = f"-n '__fish_seen_subcommand_from {name}'"
            if c.kind:
                yield f"complete -c {program} {seen} -f -k -a '(__kschedctl_names {c.kind})'"
            if c.words:
                yield f"complete -c {program} {seen}{'' if c.files else ' -f'} -a {_quoted(' '.join(c.words))}"
            for opt in c.options:
                yield f"complete -c {program} {seen} {_fish_option(opt)} -d {_quoted(opt.help)}"


def _fish_option(opt: Opt) -> str:
    names = " ".join(f"-l {n[2:]}" if n.startswith("--") else f"-s {n[1:]}" for n in opt.names)
    if opt.words:
        return f"{names} -x -a {_quoted(' '.join(opt.words))}"
    if opt.kind:
        return f"{names} -x -k -a '(__kschedctl_names {opt.kind})'"
    if opt.value:
        return f"{names} {'-r -F' if opt.value == 'FILE' else '-x'}"
    return names


def _quoted(text: str) -> str:
    """In single quotes, for all three shells.

    >>> _quoted("kubectl's")
    "'kubectl'\\\\''s'"
    """
    escaped = text.replace("'", "'\\''")
    return f"'{escaped}'"


SCRIPTS: dict[Shell, Callable[[Commands], str]] = {
    Shell.BASH: _bash,
    Shell.ZSH: _zsh,
    Shell.FISH: _fish,
    Shell.KUBECTL: _kubectl,
}

_FILES_TOO, _NO_FILES, _KEPT = 0, 4, 36  # kubectl's ShellCompDirective; the last: no files, in this order

_BASH_FILES = 'compopt -o filenames; COMPREPLY=($(compgen -f -- "$current"))'

_BASH = """\
# Completes kschedctl in bash.
_kschedctl_names() {{
    compopt -o nosort 2>/dev/null
    COMPREPLY=()
    local name
    while IFS= read -r name; do
        COMPREPLY+=("$name")
    done < <("${{COMP_WORDS[0]}}" __complete "$1" "${{COMP_WORDS[@]:1:COMP_CWORD-1}}" "$current" 2>/dev/null)
}}
_kschedctl() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} command= word words
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case $word in
        {names}) command=$word; break ;;
        esac
    done
    case $command/$previous in
{values}    esac
    case $command/$current in
{commands}        *) words={words} ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -F _kschedctl {programs}
"""

_KUBECTL = """\
#!/bin/sh
# Completes kubectl ksched: kubectl runs this with the words after "ksched", the last of which is being typed.
command= previous= current=
answer() {{
    for word in $2; do
        case $word in "$current"*) echo "$word" ;; esac
    done
    echo ":$1"
    exit
}}
names() {{
    kubectl-ksched __complete "$@" 2>/dev/null
    echo ":{kept}"
    exit
}}
for word in "$@"; do
    [ -n "$command" ] || case $current in {names}) command=$current ;; esac
    previous=$current
    current=$word
done
case $command/$previous in
{values}esac
case $command/$current in
{commands}*) answer {none} {words} ;;
esac
"""

_FISH = """\
# Completes kschedctl in fish.
function __kschedctl_names
    set -l words (commandline -opc)
    kschedctl __complete $argv[1] $words[2..-1] (commandline -ct) 2>/dev/null
end\
"""

_ZSH = """\
#compdef {programs}
# Completes kschedctl in zsh.
_kschedctl_names() {{
    local -a found
    found=(${{(f)"$("$typed[1]" __complete $1 "${{(@)typed[2,-2]}}" "$PREFIX" 2>/dev/null)"}})
    compadd -V names -a found
}}
_kschedctl_files() {{
    compadd -- "$@"
    _files
}}
_kschedctl() {{
    local -a commands typed
    typed=("${{(@)words[1,CURRENT]}}")
    commands=({commands})
    if (( CURRENT == 2 )); then
        _describe command commands
        return
    fi
    shift words
    (( CURRENT-- ))
    case $words[1] in
{cases}    esac
}}
if [[ $funcstack[1] == _kschedctl ]]; then
    _kschedctl "$@"
else
    compdef _kschedctl {programs}
fi
"""
