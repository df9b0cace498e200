"""The documents of one file, JSON or YAML as it begins, with bounds on how much is read and how deep it may go.

Every command reads what users give it here; only long JSON lists are read piece by piece (json_lists.py).
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import BinaryIO, NamedTuple

from kschedctl.errors import InputError
from kschedctl.sources.documents.files import Reader, open_file
from kschedctl.sources.documents.json_documents import parse_json
from kschedctl.sources.documents.place import ParsedDocument

SMALL = 1 << 20  # bytes; what a person writes is smaller
LARGEST = 256 << 20  # bytes of what is parsed as a whole
_SNIFFED = 64 << 10
_JSON = re.compile(rb'\s*+(?:\[\s*+)?\{\s*+["}]')
_MARKER = re.compile(rb"^---", re.MULTILINE)  # no line of JSON begins so
_NOT_TEXT = re.compile(rb"[\x00-\x08\x0e-\x1f\x7f]")
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class Content(NamedTuple):
    """The whole text of a file; ``name`` is what messages call it."""

    name: str
    text: str
    is_json: bool


def read_content(reader: Reader, data: bytes = b"") -> Content:
    """The text of a file, of which ``data`` was read already. Raises InputError for what is none, or too large."""
    data = data or reader.read(SMALL).removeprefix(codecs.BOM_UTF8)
    begins_as_json = bool(_JSON.match(data))
    if not begins_as_json:
        _check_text(data[:_SNIFFED], reader.name)
    if len(data) >= SMALL:
        data += reader.read(LARGEST)
    if len(data) > LARGEST:
        hint = "only JSON lists can be larger"
        raise InputError(f"larger than {LARGEST >> 20} MiB", where=reader.name, hint=hint)
    is_json = begins_as_json and not _MARKER.search(data)
    return Content(reader.name, decoded(data, reader.name), is_json)


def load_content(path: str, stdin: BinaryIO | None = None) -> Content:
    """Read the text of the file, or of ``stdin`` for ``-``. Raises InputError."""
    with open_file(path, stdin) as reader:
        return read_content(reader)


def load_documents(path: str, stdin: BinaryIO | None = None) -> list[ParsedDocument]:
    """Parse the documents of a file that are not empty. Raises InputError."""
    return list(parse(load_content(path, stdin)))


def parse(content: Content, number: int = 1) -> Iterator[ParsedDocument]:
    """The documents that are not empty, of which the first has this number. Raises InputError."""
    if content.is_json:
        yield from parse_json(content.text, content.name, number)
    elif content.text.strip():
        from kschedctl.sources.documents.yaml_documents import parse_yaml  # noqa: PLC0415 - JSON needs no YAML parser

        yield from parse_yaml(content.text, content.name)


def _check_text(data: bytes, file: str) -> None:
    """Refuse what is neither JSON nor YAML before all of it is read."""
    if data.startswith(_UTF16):
        raise InputError("encoded as UTF-16", where=file, hint="save it as UTF-8")
    if _NOT_TEXT.search(data):
        raise InputError("neither JSON nor YAML, but binary data", where=file)
    if len(data) >= _SNIFFED and b"\n" not in data:
        raise InputError("neither JSON nor YAML: its first line has no end", where=file)


def decoded(data: bytes, file: str) -> str:
    """Raises InputError for what is not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8: byte {error.start + 1} is 0x{data[error.start]:02x}", where=file) from None


_DOCUMENT_START = re.compile(r"^---(?=\s|\Z)", re.MULTILINE)
_DEFINITION = re.compile(r"^kind: *+CustomResourceDefinition[ \t\r]*+$", re.MULTILINE)
_SCHEMAS = re.compile(r"^( ++)(?:versions|validation):[ \t\r]*+\n(?:(?:\1[ -].*+|[ \t\r]*+)\n)++", re.MULTILINE)
"""The field and the lines that stand deeper, or that are items of its list."""


def parse_without_schemas(content: Content) -> list[ParsedDocument]:
    """The documents, each on its lines; definitions without their versions where these can be told by the lines alone.

    Raises InputError for what cannot be parsed; what is left out is not looked at.
    """
    short = without_schemas(content.text)
    if len(short) < len(content.text):
        try:
            return list(parse(content._replace(text=short)))
        except InputError:  # such as an alias of what was left out
            pass
    return list(parse(content))


def without_schemas(text: str) -> str:
    r"""The text with as many lines.

    >>> without_schemas("kind: CustomResourceDefinition\nspec:\n  versions:\n  - schema: {}\n  group: a\n")
    'kind: CustomResourceDefinition\nspec:\n\n\n  group: a\n'
    """
    if _DEFINITION.search(text) is None:
        return text
    return "".join(_short(text[start:end]) for start, end in _documents(text))


def _documents(text: str) -> Iterator[tuple[int, int]]:
    starts = [0, *(match.start() for match in _DOCUMENT_START.finditer(text)), len(text)]
    return pairwise(starts)


def _short(document: str) -> str:
    if _DEFINITION.search(document) is None:
        return document
    return _SCHEMAS.sub(lambda match: "\n" * match[0].count("\n"), document)
