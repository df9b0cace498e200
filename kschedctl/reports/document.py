"""What all documents that users see have in common."""

from __future__ import annotations

from typing import Protocol

import msgspec


class Document(msgspec.Struct, frozen=True, rename="camel"):
    """Base of all report structs: camelCase in documents, immutable."""

    def to_dict(self) -> dict[str, object]:
        """The document as plain data."""
        plain: dict[str, object] = msgspec.json.decode(msgspec.json.encode(self))
        return plain


class RunReport(Protocol):
    """A report of a study that places pods, which a user may interrupt."""

    @property
    def interrupted(self) -> bool: ...
    @property
    def undecided(self) -> bool: ...
