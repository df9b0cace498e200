"""The libraries that draw plots: those of the extra ``plots``, which not everybody has."""

from __future__ import annotations

from importlib.util import find_spec

from kschedctl.errors import UsageError

CHARACTERS, PICTURES = "plotext", "matplotlib"


def need(library: str, what: str) -> None:
    """Raises UsageError where it is not installed, without which there is no ``what``."""
    if find_spec(library) is None:
        raise UsageError(f"{what} needs {library}, which is not installed", hint="pip install 'kschedctl[plots]'")
