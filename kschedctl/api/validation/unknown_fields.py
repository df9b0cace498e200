"""Fields in a manifest that the API does not know because they are misspelt or in the wrong place.

Upstream: strict decoding in sigs.k8s.io/json, which kubectl asks for unless --validate says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from typing import NamedTuple

from kschedctl.api.api_versions import group_of
from kschedctl.api.field_errors import Path, format_path
from kschedctl.api.json_values import JsonObject
from kschedctl.api.validation.known_fields import fields_by_type

POD_HOLDERS = frozenset(
    {
        "Pod",
        "PodTemplate",
        "ReplicationController",
        "ReplicaSet",
        "Deployment",
        "StatefulSet",
        "DaemonSet",
        "Job",
        "CronJob",
    }
)
"""The kinds that are a pod or contain a pod template."""
KARPENTER_KINDS, KARPENTER_GROUP = frozenset({"NodePool", "NodeClaim", "NodeOverlay"}), "karpenter.sh"
"""Kinds of which other groups have some of the same name."""
_SAME_WORD, _LIKE = 0.8, 0.7
"""How much of two names is alike, from 0 to 1, where one was meant for the other, and where it may have been."""
_DIRECTIVE = "$"
"""The prefix of directives in strategic merge patches."""
MAX_SHOWN_LENGTH = 200
"""The number of characters of a name that are shown."""


class UnknownField(NamedTuple):
    """A field that the API does not know."""

    path: Path
    kind: str
    """The kind of the object."""
    type_name: str
    """The type that contains the field."""

    def __str__(self) -> str:
        shown = tuple(
            f"{str(step)[:MAX_SHOWN_LENGTH]}…" if len(str(step)) > MAX_SHOWN_LENGTH else step for step in self.path
        )
        return f'unknown field "{format_path(shown)}"'

    @property
    def suggested_name(self) -> str:
        """Return the most similar field of the same type, or ""."""
        return self._find_similar(_SAME_WORD) or ("" if self.proper_place else self._find_similar(_LIKE))

    @property
    def proper_place(self) -> str:
        """Return where in the object a field of this name belongs, or ""."""
        return _find_places(self.kind).get(str(self.path[-1]), "")

    @property
    def advice(self) -> str:
        """Return what to do about the field, or "" if there is no guess.

        >>> fields = find_unknown_fields({"kind": "Deployment", "spec": {"tolerations": [], "replica": 3}})
        >>> [field.advice for field in fields]
        ['move it to spec.template.spec', 'did you mean "replicas"?']
        """
        if self.suggested_name:
            return f'did you mean "{self.suggested_name}"?'
        return f"move it to {self.proper_place}" if self.proper_place else ""

    def _find_similar(self, cutoff: float) -> str:
        known = {name.lower(): name for name in fields_by_type()[self.type_name]}
        matches = get_close_matches(str(self.path[-1]).lower(), known, n=1, cutoff=cutoff)
        return known[matches[0]] if matches else ""


def find_unknown_fields(document: JsonObject) -> Iterator[UnknownField]:
    """Yield the fields that the API does not know in the order of the document. Kinds without a known schema yield
    none.

    >>> found = find_unknown_fields({"kind": "Pod", "spec": {"containers": [{"name": "web", "imagee": "nginx"}]}})
    >>> [str(field) for field in found]
    ['unknown field "spec.containers[0].imagee"']
    """
    kind = str(document.get("kind", ""))
    if kind in KARPENTER_KINDS and group_of(str(document.get("apiVersion", ""))) != KARPENTER_GROUP:
        return
    if "apiVersion" in fields_by_type().get(kind, ()):
        yield from _iter_unknown(document, kind, kind, ())


def _iter_unknown(value: object, kind: str, type_name: str, path: Path) -> Iterator[UnknownField]:
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _iter_unknown(item, kind, type_name, (*path, index))
    elif isinstance(value, Mapping):
        fields = fields_by_type()[type_name]
        for name, inner in value.items():
            at = (*path, str(name))
            if name in fields:
                yield from _iter_unknown(inner, kind, fields[name], at) if fields[name] else ()
            elif not str(name).startswith(_DIRECTIVE):
                yield UnknownField(at, kind, type_name)


@cache
def _find_places(kind: str) -> dict[str, str]:
    """Return for each field name where it belongs in an object of the kind, closest to the root."""
    homes: dict[str, str] = {}
    level: list[tuple[str, Path]] = [(kind, ())]
    seen = {kind, "Volume"}  # whose sources have fields of any name
    while level:
        for type_name, path in level:
            for name in fields_by_type()[type_name]:
                homes.setdefault(name, format_path(path) or "the root of the object")
        inner = ((t, (*path, name)) for type_name, path in level for name, t in fields_by_type()[type_name].items())
        level = [(type_name, path) for type_name, path in inner if type_name and type_name not in seen]
        seen |= {type_name for type_name, _ in level}
    return homes
