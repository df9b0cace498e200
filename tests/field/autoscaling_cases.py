"""Run the program on a field situation as its reporter would, 80 columns wide."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kschedctl.cli.main import main

FIELD = Path(__file__).parent
TYPES = str(FIELD / "types.json")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Return the exit code and the output of a command, with each run of white space as one blank."""
    code = main(arguments)
    return code, " ".join(capsys.readouterr().out.split())


def run_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    """Return the document that a command prints with -o json."""
    main((*arguments, "-o", "json"))
    return json.loads(capsys.readouterr().out)


def get_case_path(name: str, file: str = "in.yaml") -> str:
    """Return the path of a file of a field situation."""
    return str(FIELD / name / file)
