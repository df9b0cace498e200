"""Reading of files as JSON or YAML documents, with limits on size and depth."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from typing import BinaryIO, NamedTuple

from kschedctl.errors import InputError
from kschedctl.sources.documents.files import Reader, open_file
from kschedctl.sources.documents.json_documents import parse_json
from kschedctl.sources.documents.place import ParsedDocument

SMALL = 1 << 20
"""A number of bytes that files written by people do not reach."""
MAX_SIZE = 256 << 20
"""The maximum size in bytes of a file that is parsed as a whole."""
_SNIFFED_BYTES = 64 << 10
_JSON = re.compile(rb'\s*+(?:\[\s*+)?\{\s*+["}]')
_DOCUMENT_MARKER = re.compile(rb"^---", re.MULTILINE)  # no line of JSON begins so
_NOT_TEXT = re.compile(rb"[\x00-\x08\x0e-\x1f\x7f]")
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class Content(NamedTuple):
    """The text of a file."""

    name: str
    """The name of the file in messages."""
    text: str
    is_json: bool


def read_content(reader: Reader, data: bytes = b"") -> Content:
    """Read the rest of a file as text, and decide whether it is JSON.

    ``data`` contains the file's first bytes if they have been read already. Raises InputError if the file is too large
    or not UTF-8 text.
    """
    data = data or reader.read(SMALL).removeprefix(codecs.BOM_UTF8)
    begins_as_json = bool(_JSON.match(data))
    if not begins_as_json:  # reject binary data before a large rest is read
        _validate_text(data[:_SNIFFED_BYTES], reader.name)
    if len(data) >= SMALL:
        data += reader.read(MAX_SIZE)
    if len(data) > MAX_SIZE:
        hint = "only JSON lists can be larger"
        raise InputError(f"larger than {MAX_SIZE >> 20} MiB", where=reader.name, hint=hint)
    is_json = begins_as_json and not _DOCUMENT_MARKER.search(data)  # YAML documents may begin like JSON, too
    return Content(reader.name, decode_utf8(data, reader.name), is_json)


def load_content(path: str, stdin: BinaryIO | None = None) -> Content:
    """Read the text of the file, or of ``stdin`` for ``-``. Raises InputError if the file cannot be read."""
    with open_file(path, stdin) as reader:
        return read_content(reader)


def load_documents(path: str, stdin: BinaryIO | None = None) -> list[ParsedDocument]:
    """Parse the non-empty documents of a file, or of ``stdin`` for ``-``.

    Raises InputError if the file cannot be read or parsed.
    """
    return list(parse_documents(load_content(path, stdin)))


def parse_documents(content: Content, first_number: int = 1) -> Iterator[ParsedDocument]:
    """Yield the non-empty documents of a text. JSON documents are numbered from ``first_number``, YAML ones from 1.

    Raises InputError if the text cannot be parsed.
    """
    if content.is_json:
        yield from parse_json(content.text, content.name, first_number)
    elif content.text.strip():
        from kschedctl.sources.documents.yaml_documents import parse_yaml  # noqa: PLC0415 - JSON needs no YAML parser

        yield from parse_yaml(content.text, content.name)


def _validate_text(data: bytes, file: str) -> None:
    """Raise InputError if the first bytes of a file show that it is neither JSON nor YAML in UTF-8."""
    if data.startswith(_UTF16):
        raise InputError("encoded as UTF-16", where=file, hint="save it as UTF-8")
    if _NOT_TEXT.search(data):
        raise InputError("neither JSON nor YAML, but binary data", where=file)
    if len(data) >= _SNIFFED_BYTES and b"\n" not in data:
        problem = f"neither JSON nor YAML: the first line is longer than {_SNIFFED_BYTES >> 10} KiB"
        raise InputError(problem, where=file)


def decode_utf8(data: bytes, file: str) -> str:
    """Decode UTF-8 text. Raises InputError naming the first byte that is not valid UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8: byte {error.start + 1} is 0x{data[error.start]:02x}", where=file) from None


_YAML_MARKER = re.compile(r"^---(?=\s|\Z)", re.MULTILINE)
_CRD_KIND = re.compile(r"^kind: *+CustomResourceDefinition[ \t\r]*+$", re.MULTILINE)
_CRD_SCHEMAS = re.compile(r"^( ++)(?:versions|validation):[ \t\r]*+\n(?:(?:\1[ -].*+|[ \t\r]*+)\n)++", re.MULTILINE)
"""A field with schemas: its line, the lines indented deeper, and the items of its list."""


def parse_without_schemas(content: Content) -> list[ParsedDocument]:
    """Parse the documents without the schemas in CustomResourceDefinitions, which are large and which nothing reads.

    Line numbers do not change. Definitions whose schemas cannot be recognized by indentation are parsed as a whole.
    Raises InputError if the text cannot be parsed.
    """
    shortened_text = blank_schemas(content.text)
    if len(shortened_text) < len(content.text):
        with suppress(InputError):  # without schemas, an alias of a value in a schema is an error
            return list(parse_documents(content._replace(text=shortened_text)))
    return list(parse_documents(content))


def blank_schemas(text: str) -> str:
    r"""Return the text with empty lines in place of the schemas of CustomResourceDefinitions.

    >>> blank_schemas("kind: CustomResourceDefinition\nspec:\n  versions:\n  - schema: {}\n  group: a\n")
    'kind: CustomResourceDefinition\nspec:\n\n\n  group: a\n'
    """
    if _CRD_KIND.search(text) is None:
        return text
    return "".join(_blank_document_schemas(text[start:end]) for start, end in _iter_document_ranges(text))


def _iter_document_ranges(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each document of a YAML text. Together, the ranges cover the whole text."""
    starts = [0, *(match.start() for match in _YAML_MARKER.finditer(text)), len(text)]
    return pairwise(starts)


def _blank_document_schemas(document: str) -> str:
    """Return the document with empty lines in place of its schemas, if it is a CustomResourceDefinition."""
    if _CRD_KIND.search(document) is None:
        return document
    return _CRD_SCHEMAS.sub(lambda match: "\n" * match[0].count("\n"), document)
