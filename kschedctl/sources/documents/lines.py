"""The line on which a field of a document stands: looked up in its file once more, when there is something to say."""

from __future__ import annotations

import os
import re
import stat
from functools import lru_cache

from kschedctl.errors import InputError
from kschedctl.sources.documents.documents import parse, read_content
from kschedctl.sources.documents.files import open_file
from kschedctl.sources.documents.place import Place
from kschedctl.sources.documents.positions import Path, Text

LARGEST = 1 << 20  # bytes of a file in which a line is looked for; people write less
_STEP = re.compile(r"([^.\[\]]+)|\[(\d{1,9})\]")


def at_field(place: Place, path: Path) -> Place:
    """The place with the line of the field, or of the nearest one above it; as it is where that cannot be found.

    Standard input cannot be read twice.
    """
    text = _text(place.file, _stamp(place.file), place.document)
    if text is None:
        return place
    steps = [int(index) if index else name for name, index in _STEP.findall(place.path)]
    return place._replace(line=text.locate(place.document, (*steps, *path))[0])


def _stamp(file: str) -> tuple[int, int] | None:
    """When an ordinary file was written, and how large it is."""
    try:
        status = os.stat(file)
    except (OSError, ValueError):
        return None
    return (status.st_mtime_ns, status.st_size) if stat.S_ISREG(status.st_mode) else None


@lru_cache(maxsize=16)
def _text(file: str, stamp: tuple[int, int] | None, document: int) -> Text | None:
    """The text of a file, unless it is too large, gone, or has another content by now."""
    if stamp is None:
        return None
    try:
        with open_file(file) as reader:
            content = read_content(reader)
        there = len(content.text) <= LARGEST and any(number == document for _, number, _ in list(parse(content)))
    except InputError:
        return None
    return Text(file, content) if there else None
