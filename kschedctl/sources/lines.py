"""The line on which a field of a document stands: looked up in its file once more, when there is something to say."""

from __future__ import annotations

import os
import re
from functools import lru_cache

from kschedctl.errors import InputError
from kschedctl.sources.documents import read_content
from kschedctl.sources.files import open_file
from kschedctl.sources.place import Place
from kschedctl.sources.positions import Path, Text

LARGEST = 1 << 20  # bytes of a file in which a line is looked for; people write less
_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


def at_field(place: Place, path: Path) -> Place:
    """The place with the line of the field, or of the nearest one above it; as it is where that cannot be found.

    Standard input cannot be read twice.
    """
    text = _text(place.file)
    if text is None:
        return place
    steps = [int(index) if index else name for name, index in _STEP.findall(place.path)]
    return place._replace(line=text.locate(place.document, (*steps, *path))[0])


@lru_cache(maxsize=16)
def _text(file: str) -> Text | None:
    """The text of an ordinary file, unless it is too large or gone."""
    try:
        if not os.path.isfile(file):
            return None
        with open_file(file) as reader:
            content = read_content(reader)
    except (InputError, ValueError):
        return None
    return Text(file, content) if len(content.text) <= LARGEST else None
