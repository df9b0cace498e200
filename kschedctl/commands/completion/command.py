"""The command `completion`, whose scripts call `kschedctl __complete` for the candidates."""

from __future__ import annotations

from enum import StrEnum
from importlib.resources import files
from typing import Annotated

import typer

EXAMPLES = (
    "echo 'source <(kschedctl completion bash)' >> ~/.bashrc",
    "kschedctl completion fish > ~/.config/fish/completions/kschedctl.fish",
)
SCRIPTS = files("kschedctl.cli") / "completions"


class Shell(StrEnum):
    """A shell, or kubectl for the plugin."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"
    KUBECTL = "kubectl"


FILES = {
    Shell.BASH: "kschedctl.bash",
    Shell.ZSH: "_kschedctl",
    Shell.FISH: "kschedctl.fish",
    Shell.KUBECTL: "kubectl_complete-ksched",
}
"""The file of each shell's script."""


def completion(
    shell: Annotated[
        Shell,
        typer.Argument(
            metavar="bash|zsh|fish|kubectl",
            help="Shell to print the script for; kubectl prints the script for kubectl ksched.",
        ),
    ],
) -> int:
    """Print a shell completion script, for both kschedctl and kubectl-ksched.

    bash: source <(kschedctl completion bash). zsh: save it as _kschedctl in a directory in $fpath. fish: kschedctl
    completion fish | source. kubectl: save it as kubectl_complete-ksched in a directory in $PATH, and make it
    executable; kubectl's own completion then runs it.
    """
    typer.echo((SCRIPTS / FILES[shell]).read_text(encoding="utf-8"), nl=False)
    return 0
