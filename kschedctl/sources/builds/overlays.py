"""Which kustomization changed a field of an object on its way from the file in which it was written."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from kschedctl.errors import InputError
from kschedctl.sources.applied.kustomizations import patch_files
from kschedctl.sources.documents.documents import Content, load_content, parse_documents
from kschedctl.sources.documents.positions import Path

TRANSFORMATIONS = "alpha.config.kubernetes.io/transformations"
_NAMES = ("name", "key", "topologyKey", "containerPort")
"""By which items of a list are known again where others were put before them."""


class PatchedField(NamedTuple):
    """A file that changes a field, and the line on which it names it."""

    file: str
    line: int


class Overlays(NamedTuple):
    """Kustomizations that changed something of an object: their files, the inner ones first."""

    files: Sequence[str]
    written: object
    built: object

    def change(self, path: Path) -> PatchedField | None:
        """What overlays did to a field that was written otherwise, or not at all; None where it is as written."""
        if not self.files or not _is_changed(self.written, self.built, path):
            return None
        fields = [step for step in reversed(path) if isinstance(step, str)]
        for field in fields[:2]:
            for kustomization in reversed(self.files):
                for file in (*patch_files(os.path.dirname(kustomization)), kustomization):
                    if line := _line(file, field):
                        return PatchedField(file, line)
        return PatchedField(self.files[-1], 1)

    def written_path(self, path: Path) -> Path:
        """The way to the field in the object as it was written, where items may stand at other places."""
        written, built, way = self.written, self.built, list(path)
        for at, step in enumerate(path):
            if isinstance(step, int) and isinstance(built, list) and isinstance(written, list) and step < len(built):
                item = _same(built[step], step, written)
                way[at] = next((i for i, sibling in enumerate(written) if sibling is item), step)
                written, built = item, built[step]
            else:
                written, built = _field(written, step), _field(built, step)
        return tuple(way)


def transforming(annotation: str, folder: str) -> list[str]:
    """The files of the kustomizations that the annotation names, from a folder."""
    paths: dict[str, None] = {}
    for transformation in _parsed(annotation):
        path = transformation.get("configuredIn") if isinstance(transformation, dict) else None
        if isinstance(path, str) and os.path.isfile(file := os.path.normpath(os.path.join(folder, path))):
            paths[file] = None
    return list(paths)


def _parsed(annotation: str) -> list[object]:
    try:
        documents: list[object] = [
            document.value for document in parse_documents(Content(TRANSFORMATIONS, annotation, is_json=False))
        ]
    except InputError:
        return []
    return next((value for value in documents if isinstance(value, list)), [])


def _is_changed(written: object, built: object, path: Path) -> bool:
    """Mappings and lists that were there count as written, whatever else is in them now."""
    for step in path:
        if isinstance(built, list) and isinstance(step, int):
            item = built[step] if step < len(built) else None
            written, built = _same(item, step, written), item
        else:
            written, built = _field(written, step), _field(built, step)
    if isinstance(written, Mapping | list) and isinstance(built, Mapping | list):
        return False
    return bool(path) and built is not None and written != built


def _field(value: object, step: str | int) -> object:
    return value.get(step) if isinstance(value, Mapping) else None


def _same(item: object, index: int, written: object) -> object:
    """The item of a list as it was written: that of its name, else that of its place."""
    items = written if isinstance(written, list) else []
    for name in _NAMES:
        if isinstance(item, Mapping) and item.get(name) is not None:
            return next(
                (
                    candidate
                    for candidate in items
                    if isinstance(candidate, Mapping) and candidate.get(name) == item[name]
                ),
                None,
            )
    return items[index] if index < len(items) else None


def _line(file: str, field: str) -> int:
    """The first one on which a file names a field, 0 where none does."""
    ways = "|".join(map(re.escape, (field, field.replace("/", "~1"))))  # as keys, and as RFC 6901 has them
    word = re.compile(rf"(?<![\w.-])(?:{ways})(?![\w-])")
    return next((number for number, line in enumerate(_lines(file), 1) if word.search(line)), 0)


@lru_cache(maxsize=256)
def _lines(file: str) -> list[str]:
    try:
        return load_content(file).text.splitlines()
    except InputError:
        return []
