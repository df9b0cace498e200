"""What is said to be applied: the folders that Argo CD, Flux and Fleet objects name, and the charts of helmfiles."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import NamedTuple

from kschedctl.api.json_values import JsonObject
from kschedctl.errors import InputError
from kschedctl.sources.applied.kustomizations import listed
from kschedctl.sources.applied.standing_alone import Folders
from kschedctl.sources.documents.documents import load_content

_ARGO, _FLUX, _FLEET = "argoproj.io", "kustomize.toolkit.fluxcd.io", "fleet.cattle.io"
_KINDS = frozenset({(_ARGO, "Application"), (_ARGO, "ApplicationSet"), (_FLUX, "Kustomization"), (_FLEET, "GitRepo")})
_PLACEHOLDER = re.compile(r"\{\{.*?\}\}")
_HELMFILE = re.compile(r"helmfile.*\.ya?ml|.*/helmfile\.d/.*\.ya?ml")
_LOCAL_CHART = re.compile(r"^[ \t]*+(?:-[ \t]++)?chart:[ \t]*+[\"']?(\.{1,2}/[^\s\"'{]+)", re.MULTILINE)


class Applied(NamedTuple):
    """Folders that are applied as one; ``deep``: with the folders in them."""

    folders: tuple[str, ...]
    deep: bool = True


class Applier(NamedTuple):
    """An object that says what is applied, and the file in which it is."""

    file: str
    value: JsonObject

    def applied(self, known: Folders) -> Iterator[Applied]:
        """What of the known folders; paths of other repositories are none of them."""
        spec = _mapping(self.value.get("spec"))
        kind = self.value.get("kind")
        if kind == "Kustomization":
            yield Applied(self._found([spec.get("path")], known))
        elif kind == "GitRepo":
            for path in listed(spec, "paths"):
                yield Applied(self._found([path], known))
        elif kind == "Application":
            yield self._of_application(spec, known)
        else:
            yield from self._of_application_set(spec, known)

    def _of_application(self, spec: JsonObject, known: Folders) -> Applied:
        sources = [_mapping(source) for source in (spec.get("source"), *listed(spec, "sources"))]
        deep = any(_mapping(source.get("directory")).get("recurse") is True for source in sources)
        return Applied(self._found([source.get("path") for source in sources], known), deep)

    def _of_application_set(self, spec: JsonObject, known: Folders) -> Iterator[Applied]:
        """Each folder that the pattern of a generator, or a path with something to be put in, stands for."""
        template = _mapping(_mapping(spec.get("template")).get("spec"))
        sources = [_mapping(source) for source in (template.get("source"), *listed(template, "sources"))]
        patterns = [_PLACEHOLDER.sub("*", path) for source in sources if isinstance(path := source.get("path"), str)]
        patterns = [pattern for pattern in patterns if pattern.strip("*/.")]
        for pattern in (*patterns, *_directories(listed(spec, "generators"))):
            yield from (Applied((folder,)) for folder in self._matching(pattern, known))

    def _found(self, paths: Iterable[object], known: Folders) -> tuple[str, ...]:
        """The known folders of these paths: from the top of the repository, which is some folder above the file."""
        folders = (self._folder(path.strip("/"), known) for path in paths if isinstance(path, str))
        return tuple(folder for folder in folders if folder)

    def _folder(self, path: str, known: Folders) -> str:
        folders = (os.path.normpath(os.path.join(top, path)) for top in known.tops(self.file) if path.strip("./"))
        return next(filter(known.all.__contains__, folders), "")

    def _matching(self, pattern: str, known: Folders) -> list[str]:
        """The folders of the first top below which there are any. A star stands for one step, as in Go."""
        steps = pattern.strip("/").split("/")
        for top in known.tops(self.file):
            start = top.rstrip(os.sep) + os.sep
            ways = {folder: folder[len(start) :].split(os.sep) for folder in known.all if folder.startswith(start)}
            if folders := [folder for folder, way in ways.items() if _matches(way, steps)]:
                return sorted(folders)
        return []


def is_applier(value: JsonObject) -> bool:
    group = str(value.get("apiVersion") or "").partition("/")[0]
    return (group, value.get("kind")) in _KINDS


def charts_of_helmfile(file: str) -> Applied | None:
    """The folders of this machine that the releases of a helmfile are made of; None for other files."""
    if not _HELMFILE.fullmatch(file) and not _HELMFILE.fullmatch(os.path.basename(file)):
        return None
    try:
        text = load_content(file).text
    except InputError:
        return None
    folder = os.path.dirname(file)
    return Applied(tuple(os.path.normpath(os.path.join(folder, path)) for path in _LOCAL_CHART.findall(text)))


def _matches(way: list[str], steps: list[str]) -> bool:
    return len(way) == len(steps) and all(map(fnmatchcase, way, steps))


def _directories(generators: object) -> Iterator[str]:
    """The patterns of the git generators among these, also of those within others."""
    open_ = [generators]
    while open_:
        one = open_.pop()
        if isinstance(one, dict):
            yield from _patterns(listed(one, "directories"))
            open_ += one.values()
        elif isinstance(one, list):
            open_ += one


def _patterns(directories: Iterable[object]) -> Iterator[str]:
    for directory in map(_mapping, directories):
        if isinstance(path := directory.get("path"), str) and not directory.get("exclude"):
            yield path


def _mapping(value: object) -> JsonObject:
    return value if isinstance(value, dict) else {}
