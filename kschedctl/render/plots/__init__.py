"""Plots as data, with the scales of their axes (`plot`), and their drawings: in `characters`, and as `pictures`.

The libraries that draw them belong to the extra `plots` and may be missing.
"""

from __future__ import annotations

from importlib.util import find_spec

from kschedctl.errors import UsageError

CHARACTERS, PICTURES = "plotext", "matplotlib"


def check_installed(library: str, what: str) -> None:
    """Raise UsageError if the library that `what` needs is not installed."""
    if find_spec(library) is None:
        raise UsageError(f"{what} needs {library}, which is not installed", hint="pip install 'kschedctl[plots]'")
