"""``kschedctl completion``: scripts for shells, made from the commands' own options, so that Tab starts no program."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Annotated, Any, NamedTuple

import typer

from kschedctl.cli.program import PROGRAMS


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"
    KUBECTL = "kubectl"


class Opt(NamedTuple):
    """An option: ``names`` (-o, --output); ``value`` is its metavar, empty for a flag."""

    names: tuple[str, ...]
    value: str
    help: str

    @property
    def words(self) -> list[str]:
        """The values to choose from, when there are such."""
        return [word.removesuffix("…") for word in self.value.split("|")] if "|" in self.value else []


class Described(NamedTuple):
    """A command: its help line, its options, the words that its argument is one of."""

    summary: str
    options: list[Opt]
    words: list[str]


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
        yield name, Described(summary, list(dict.fromkeys(options)), words)


def _option(parameter: Any) -> Opt:
    takes_value = not (parameter.is_flag or parameter.count)
    names = (*parameter.opts, *parameter.secondary_opts)
    return Opt(names, (parameter.metavar or "VALUE") if takes_value else "", parameter.help or "")


def _bash(commands: Commands) -> str:
    cases = "".join(
        f"        {name}) words={_quoted(' '.join([*c.words, *(n for o in c.options for n in o.names)]))} ;;\n"
        for name, c in commands.items()
    )
    return _BASH.format(
        programs=" ".join(PROGRAMS),
        names="|".join(commands),
        words=_quoted(" ".join([*commands, "--help", "--version"])),
        values="".join(_bash_values(commands)),
        commands=cases,
    )


def _bash_values(commands: Commands) -> Iterator[str]:
    """What follows an option that takes a value."""
    for opt, pattern in _valued(commands):
        if opt.words:
            action = f'COMPREPLY=($(compgen -W {_quoted(" ".join(opt.words))} -- "$current"))'
        else:
            action = _BASH_FILES if opt.value == "FILE" else "COMPREPLY=()"
        yield f"        {pattern}) {action}; return ;;\n"


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
    values = "".join(
        f"{pattern}) answer {_FILES_TOO if opt.value == 'FILE' else _NO_FILES} {_quoted(' '.join(opt.words))} ;;\n"
        for opt, pattern in _valued(commands)
    )
    words = {name: [*c.words, *(n for opt in c.options for n in opt.names)] for name, c in commands.items()}
    cases = "".join(f"{name}) answer {_NO_FILES} {_quoted(' '.join(found))} ;;\n" for name, found in words.items())
    return _KUBECTL.format(
        names="|".join(commands), values=values, commands=cases, none=_NO_FILES, words=_quoted(" ".join(commands))
    )


def _zsh(commands: Commands) -> str:
    described = " ".join(_quoted(f"{name}:{c.summary}") for name, c in commands.items())
    cases = "".join(
        f"        {name})\n            _arguments \\\n"
        + "".join(f"                {line} \\\n" for opt in c.options for line in _zsh_option(opt))
        + f"                {_quoted(f'::argument:({chr(32).join(c.words)})')} ;;\n"
        for name, c in commands.items()
    )
    return _ZSH.format(programs=" ".join(PROGRAMS), commands=described, cases=cases)


def _zsh_option(opt: Opt) -> Iterator[str]:
    told = re.sub(r"([\[\]:])", r"\\\1", opt.help)
    values = f"({' '.join(opt.words)})" if opt.words else "_files" if opt.value == "FILE" else ""
    argument = f":{opt.value.split('|')[0].lower() if not opt.words else 'value'}:{values}" if opt.value else ""
    for name in opt.names:
        yield _quoted(f"*{name}[{told}]{argument}")


def _fish(commands: Commands) -> str:
    return "".join(f"{line}\n" for line in ("# Completes kschedctl in fish.", *_fish_lines(commands)))


def _fish_lines(commands: Commands) -> Iterator[str]:
    for program in PROGRAMS:
        unused = "-n __fish_use_subcommand"
        for name, c in commands.items():
            yield f"complete -c {program} {unused} -f -a {name} -d {_quoted(c.summary)}"
        for name, c in commands.items():
            seen = f"-n '__fish_seen_subcommand_from {name}'"
            if c.words:
                yield f"complete -c {program} {seen} -f -a {_quoted(' '.join(c.words))}"
            for opt in c.options:
                yield f"complete -c {program} {seen} {_fish_option(opt)} -d {_quoted(opt.help)}"


def _fish_option(opt: Opt) -> str:
    names = " ".join(f"-l {n[2:]}" if n.startswith("--") else f"-s {n[1:]}" for n in opt.names)
    if opt.words:
        return f"{names} -x -a {_quoted(' '.join(opt.words))}"
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

_FILES_TOO, _NO_FILES = 0, 4  # kubectl's ShellCompDirective

_BASH_FILES = 'compopt -o filenames; COMPREPLY=($(compgen -f -- "$current"))'

_BASH = """\
# Completes kschedctl in bash.
_kschedctl() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} command= word words
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case $word in
        {names}) command=$word; break ;;
        esac
    done
    case $command/$previous in
{values}    esac
    case $command in
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
while [ $# -gt 1 ]; do
    [ -n "$command" ] || case $1 in {names}) command=$1 ;; esac
    previous=$1
    shift
done
current=$1
case $command/$previous in
{values}esac
case $command in
{commands}*) answer {none} {words} ;;
esac
"""

_ZSH = """\
#compdef {programs}
# Completes kschedctl in zsh.
_kschedctl() {{
    local -a commands
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
