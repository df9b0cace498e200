"""The schemas of CustomResourceDefinitions, which nothing here reads: left out, a repository is parsed in a fraction.

They are nearly all of what operators ship: 115 of the 121 MB of one of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from kschedctl.errors import InputError
from kschedctl.sources.documents.documents import Content, parse
from kschedctl.sources.documents.place import ParsedDocument

_MARKER = re.compile(r"^---(?=\s|\Z)", re.MULTILINE)
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
    starts = [0, *(match.start() for match in _MARKER.finditer(text)), len(text)]
    return pairwise(starts)


def _short(document: str) -> str:
    if _DEFINITION.search(document) is None:
        return document
    return _SCHEMAS.sub(lambda match: "\n" * match[0].count("\n"), document)
