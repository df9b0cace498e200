"""The built-in demo cluster, as kubectl prints it: JSON beside this file, made of the YAML there."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent
DEMO_TIME = "2026-05-06T09:12:00Z"
"""When the demo cluster is looked at: a while after its youngest pods came."""


def list_files() -> list[Path]:
    """Return the files that make up the demo cluster, sorted by name."""
    return sorted(FOLDER.glob("*.json"))
