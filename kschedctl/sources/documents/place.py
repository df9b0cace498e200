"""Where something stands, as error messages say it: file, document, field."""

from __future__ import annotations

from typing import Any, NamedTuple

from kschedctl.errors import InputError


class ParsedDocument(NamedTuple):
    """A document of a file: its value, its number and the line where it begins, both from 1."""

    value: Any
    number: int
    line: int


class Place(NamedTuple):
    """A document of a file, or an item in it: ``pods.json: document 1, items[3]``."""

    file: str
    document: int = 1
    line: int = 1
    path: str = ""

    def item(self, index: int) -> Place:
        """An item of the list that stands here."""
        return self._replace(path=f"{self.path}.items[{index}]".lstrip("."))

    @property
    def origin(self) -> str:
        """``file`` or, where it is not the first, ``file, document 3``."""
        return self.file if self.document == 1 else f"{self.file}, document {self.document}"

    def __str__(self) -> str:
        line = f" (line {self.line})" if self.line > 1 else ""
        return f"{self.file}: document {self.document}{line}" + (f", {self.path}" if self.path else "")

    def error(self, what: str, field: str = "", hint: str = "") -> InputError:
        """What is wrong here, or with a field of what stands here."""
        path = f"{self.path}.{field}".strip(".") if not field.startswith("[") else self.path + field
        return InputError(what, where=str(self._replace(path=path)), hint=hint)
