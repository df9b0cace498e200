"""The base of all structs in documents."""

from __future__ import annotations

from typing import Protocol

import msgspec


class Document(msgspec.Struct, frozen=True, rename="camel"):
    """Base of all report structs: immutable, with camelCase keys in JSON."""

    def to_dict(self) -> dict[str, object]:
        """Return the document as dicts, lists and plain values."""
        plain: dict[str, object] = msgspec.json.decode(msgspec.json.encode(self))
        return plain


class RunReport(Protocol):
    """A report on a run that a user may interrupt."""

    @property
    def interrupted(self) -> bool:
        """Whether the user interrupted the run, so that the report is partial."""

    @property
    def undecided(self) -> bool:
        """Whether the answer depends on something that was not read."""
