"""Runs the programs that build manifests: without a shell, for a bounded time, and with their own words on failure."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from kschedctl.errors import InputError, UsageError
from kschedctl.sources.documents.documents import LARGEST, Content, decoded

PATIENCE_SECONDS = 120
"""For one build; kustomize may fetch what it refers to."""
MOST_TOLD = 500  # characters
NOTHING_MORE: Mapping[str, str] = MappingProxyType({})


def program(option: str, *commands: Sequence[str]) -> tuple[str, ...]:
    """The first of these commands that is installed, with its whole path. Raises UsageError where none is."""
    for name, *arguments in commands:
        if path := shutil.which(name):
            return path, *arguments
    names = " or ".join(command[0] for command in commands)
    raise UsageError(f"{option} needs {names}, which is not on the PATH", hint=f"install {names}")


def output_of(command: Sequence[str], name: str, environment: Mapping[str, str] = NOTHING_MORE) -> Content:
    """What the command prints; ``name`` is what it is about, ``environment`` what it gets more. Raises InputError."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE_SECONDS,
            check=False,
            env={**os.environ, **environment},
        )
    except subprocess.TimeoutExpired:
        raise InputError(f"{_called(command)} took more than {PATIENCE_SECONDS} s", where=name) from None
    except OSError as error:
        raise InputError(f"{_called(command)}: {error.strerror or error}", where=name) from None
    if done.returncode:
        raise InputError(f"{_called(command)}: {_said(done.stderr)}", where=name)
    if len(done.stdout) > LARGEST:
        raise InputError(f"{_called(command)} printed more than {LARGEST >> 20} MiB", where=name)
    return Content(name, decoded(done.stdout, name), is_json=False)


def _called(command: Sequence[str]) -> str:
    words = (command[0].rpartition("/")[2], *command[1:2])
    return " ".join(words)


def _said(stderr: bytes) -> str:
    """What the program says on one line; the end of it, where the cause stands."""
    words = " ".join(stderr.decode(errors="replace").split()).removeprefix("Error: ").removeprefix("error: ")
    return (f"…{words[-MOST_TOLD:]}" if len(words) > MOST_TOLD else words) or "failed without a word"
