"""The place of a document or list item, as error messages name it."""

from __future__ import annotations

from typing import Any, NamedTuple

from kschedctl.errors import InputError

_DOCUMENT_SEPARATOR = ", document "


class ParsedDocument(NamedTuple):
    """A document of a file."""

    value: Any
    number: int
    """The number of the document in the file, from 1."""
    line: int
    """The line where the document begins, from 1."""


class Place(NamedTuple):
    """A document of a file, or an item of a list in a document, such as ``pods.json: document 1, items[3]``."""

    file: str
    document: int = 1
    line: int = 1
    """The line where the document begins, or the line of the field if it is known."""
    path: str = ""
    """The path of the list item in the document, or ""."""

    def item(self, index: int) -> Place:
        """Return the place of an item of the list at this place."""
        return self._replace(path=f"{self.path}.items[{index}]".lstrip("."))

    @property
    def origin(self) -> str:
        """The file, followed by ``document 3`` unless the document is the first one."""
        return self.file if self.document == 1 else f"{self.file}{_DOCUMENT_SEPARATOR}{self.document}"

    def __str__(self) -> str:
        line = f" (line {self.line})" if self.line > 1 else ""
        return f"{self.file}: document {self.document}{line}" + (f", {self.path}" if self.path else "")

    def error(self, message: str, field: str = "", hint: str = "") -> InputError:
        """Build an InputError about this place, or about a field such as ``spec.nodeName`` of its object."""
        path = self.path + field if field.startswith("[") else f"{self.path}.{field}".strip(".")
        return InputError(message, where=str(self._replace(path=path)), hint=hint, line=self.line)


def get_origin_file(origin: str) -> str:
    """Return the file of an origin such as ``file, document 3``."""
    return origin.rpartition(_DOCUMENT_SEPARATOR)[0] or origin
