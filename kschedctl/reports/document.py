"""The base of all structs in documents."""

from __future__ import annotations

from typing import Protocol

import msgspec

from kschedctl.text.version import VERSION


class Document(msgspec.Struct, frozen=True, rename="camel"):
    """Base of all report structs: immutable, with camelCase keys in JSON."""

    def to_dict(self) -> dict[str, object]:
        """Return the document as dicts, lists and plain values."""
        plain: dict[str, object] = msgspec.json.decode(msgspec.json.encode(self))
        return plain


class RootDocument(Document, frozen=True, kw_only=True):
    """Base of the documents that are printed as a whole. Each subclass adds its `kind`."""

    api_version: str = "kschedctl.dev/v1"
    tool_version: str = VERSION
    """The version of kschedctl that made the document."""


class RunReport(Protocol):
    """A report on a run that a user may interrupt."""

    @property
    def interrupted(self) -> bool:
        """True if the user interrupted the run, so that the report is partial."""

    @property
    def undecided(self) -> bool:
        """True if the answer depends on something that was not read."""
