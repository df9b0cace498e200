"""Press Tab in real shells on a terminal and check the completed command line."""

from __future__ import annotations

import os
import pty
import select
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic

import pytest

from kschedctl.commands.completion.command import FILES, SCRIPTS, Shell

ROOT = Path(__file__).parents[3]
PATIENCE_SECONDS = 60
PROGRAM = """#!/bin/sh
if [ "$1" = __complete ]; then
    {python} -m kschedctl "$@"
    echo completed >> {log}
else
    echo "ran: $*" >> {log}
fi
"""
SETTINGS = {
    Shell.BASH: (".bashrc", "source {script}\n", ["bash", "--noprofile", "--rcfile", "{settings}", "-i"]),
    Shell.ZSH: (".zshrc", "fpath=({folder} $fpath)\nautoload -Uz compinit\ncompinit -u -D\n", ["zsh", "-d", "-i"]),
    Shell.FISH: ("config.fish", "source {script}\n", ["fish", "-N", "-i", "-C", "source {settings}"]),
}
"""Shell -> the file of its settings, what stands there, and how it is started."""
LINES = [
    ("ex", "explain"),
    ("explain --demo --all", "explain --demo --all-namespaces"),
    ("explain --demo -n sh", "explain --demo -n shop"),
    ("explain --demo shop/web-6d4cf56db6-h", "explain --demo shop/web-6d4cf56db6-h8s2k"),
    ("drain --demo gpu-b", "drain --demo gpu-b1"),
]


class Terminal:
    """A shell on a terminal, and the lines that the program logs."""

    def __init__(self, device: int, log: Path) -> None:
        self.device, self.log, self.shown = device, log, b""

    def type(self, keys: str, logged: str) -> str:
        """Press the keys and return the line of the log that begins with this text."""
        before = len(self._logged())
        os.write(self.device, keys.encode())
        end = monotonic() + PATIENCE_SECONDS
        while monotonic() < end:
            self._read()
            if found := [line for line in self._logged()[before:] if line.startswith(logged)]:
                return found[0]
        raise AssertionError(f"no {logged} after {keys!r}: {self.shown.decode(errors='replace')}")

    def _logged(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []

    def _read(self) -> None:
        """Read the output of the shell, which would block otherwise."""
        if select.select([self.device], [], [], 0.02)[0]:
            with suppress(OSError):
                self.shown += os.read(self.device, 1 << 16)


@contextmanager
def open_terminal(shell: Shell, home: Path) -> Iterator[Terminal]:
    """Run the shell with its completions, where ``kschedctl`` logs its arguments."""
    log, (name, text, command) = home / "log", SETTINGS[shell]
    places = {"script": SCRIPTS / FILES[shell], "folder": SCRIPTS, "settings": home / name}
    (home / name).write_text(text.format(**places))
    (home / "kschedctl").write_text(PROGRAM.format(python=sys.executable, log=log))
    (home / "kschedctl").chmod(0o755)
    own = {"PATH": f"{home}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "HOME": str(home), "ZDOTDIR": str(home)}
    process, device = pty.fork()
    if not process:
        try:
            words = [word.format(**places) for word in command]
            os.execvpe(words[0], words, {**os.environ, **own, "TERM": "xterm"})
        finally:
            os._exit(127)
    try:
        yield Terminal(device, log)
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        os.close(device)


@pytest.mark.parametrize("shell", SETTINGS)
def test_tab_completes_the_command_line(shell: Shell, tmp_path: Path) -> None:
    if not shutil.which(shell):
        assert shell is not Shell.BASH, "bash is needed"
        pytest.skip(f"needs {shell}")
    with open_terminal(shell, tmp_path) as typed:
        typed.type("kschedctl begins\r", "ran: begins")
        for begun, whole in LINES:
            typed.type(f"kschedctl {begun}\t", "completed")
            assert typed.type("\r", "ran:").rstrip() == f"ran: {whole}"
