"""Fields that the API does not know, in a manifest that somebody wrote: misspelt, or in the wrong place.

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
"""The kinds that are a pod or hold the template of one."""
OF_KARPENTER, KARPENTER_GROUP = frozenset({"NodePool", "NodeClaim", "NodeOverlay"}), "karpenter.sh"
"""Kinds of which other groups have some of the same name."""
_SAME_WORD, _LIKE = 0.8, 0.7
"""How much of two names is alike, from 0 to 1, where one was meant for the other, and where it may have been."""
_DIRECTIVE = "$"
"""What the names of a strategic merge patch begin with that are no fields."""
MOST_SHOWN = 200
"""Characters of a name that are shown."""


class UnknownField(NamedTuple):
    """``kind``: of the object; ``type_name``: what the field stands in."""

    path: Path
    kind: str
    type_name: str

    def __str__(self) -> str:
        shown = tuple(f"{str(step)[:MOST_SHOWN]}…" if len(str(step)) > MOST_SHOWN else step for step in self.path)
        return f'unknown field "{format_path(shown)}"'

    @property
    def meant(self) -> str:
        """The field of the same type that was probably meant."""
        return self._like(_SAME_WORD) or ("" if self.home else self._like(_LIKE))

    @property
    def home(self) -> str:
        """Where a field of this name belongs, if that is another place of the object."""
        return _homes(self.kind).get(str(self.path[-1]), "")

    @property
    def advice(self) -> str:
        """What to do about it; "" where nobody can tell.

        >>> fields = unknown_fields({"kind": "Deployment", "spec": {"tolerations": [], "replica": 3}})
        >>> [field.advice for field in fields]
        ['move it to spec.template.spec', 'did you mean "replicas"?']
        """
        if self.meant:
            return f'did you mean "{self.meant}"?'
        return f"move it to {self.home}" if self.home else ""

    def _like(self, cutoff: float) -> str:
        known = {name.lower(): name for name in fields_by_type()[self.type_name]}
        matches = get_close_matches(str(self.path[-1]).lower(), known, n=1, cutoff=cutoff)
        return known[matches[0]] if matches else ""


def unknown_fields(document: JsonObject) -> Iterator[UnknownField]:
    """The fields that the API does not know, in the order of the document; of kinds whose fields are not known, none.

    >>> found = unknown_fields({"kind": "Pod", "spec": {"containers": [{"name": "web", "imagee": "nginx"}]}})
    >>> [str(field) for field in found]
    ['unknown field "spec.containers[0].imagee"']
    """
    kind = str(document.get("kind", ""))
    if kind in OF_KARPENTER and group_of(str(document.get("apiVersion", ""))) != KARPENTER_GROUP:
        return
    if "apiVersion" in fields_by_type().get(kind, ()):
        yield from _unknown(document, kind, kind, ())


def _unknown(value: object, kind: str, type_name: str, path: Path) -> Iterator[UnknownField]:
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _unknown(item, kind, type_name, (*path, index))
    elif isinstance(value, Mapping):
        fields = fields_by_type()[type_name]
        for name, inner in value.items():
            at = (*path, str(name))
            if name in fields:
                yield from _unknown(inner, kind, fields[name], at) if fields[name] else ()
            elif not str(name).startswith(_DIRECTIVE):
                yield UnknownField(at, kind, type_name)


@cache
def _homes(kind: str) -> dict[str, str]:
    """Field -> where in an object of the kind it belongs, closest to its root."""
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
