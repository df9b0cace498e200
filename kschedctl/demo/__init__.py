"""The embedded demo cluster: YAML as kubectl prints it, beside this file."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent


def files() -> list[Path]:
    """The files that make up the demo cluster."""
    return sorted(FOLDER.glob("*.yaml"))
