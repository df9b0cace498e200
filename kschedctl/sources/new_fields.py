"""Warnings about fields of stored objects that kschedctl does not know, since only a newer API has them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, Protocol, cast

import msgspec

from kschedctl.api.decoding import get_json_decoder
from kschedctl.api.field_errors import format_path
from kschedctl.api.json_values import JsonObject, drop_nulls
from kschedctl.api.objects import Pod
from kschedctl.api.validation.unknown_fields import get_fields_by_type, iter_unknown_fields
from kschedctl.api.versions_read import iter_unread_relevant_paths

_REVISION_LABEL = b"controller-revision-hash"
_REVISION = re.compile(rb'"%s"\s*:\s*"([^"]*)"' % _REVISION_LABEL)
"""The label that distinguishes the pods of one owner if they have different templates."""
_TEMPLATE_OWNER = re.compile(rb'"kind"\s*:\s*"(?:ReplicaSet|ReplicationController|StatefulSet|DaemonSet|Job)"')
"""Owners whose pods have one template. Pods owned by a Node or a Workflow may have nothing in common."""
_UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, OverflowError)
_SCALAR = str | int | float | bool | None
"""The types that are accepted in place of a struct, because wrong types are reported elsewhere."""


FULLY_KNOWN_KINDS = frozenset(
    {
        *("PodGroup", "CompositePodGroup", "DeviceTaintRule"),
        *("ResourceClaim", "ResourceClaimTemplate", "DeviceClass", "ResourceSlice"),
    }
)
"""Kinds of young API groups whose structs have every field of the newest version."""


class NewFieldWarnings:
    """A builder of warnings about unknown fields, which warns about each field once."""

    def __init__(self) -> None:
        self._reported: set[tuple[str, str]] = set()
        """The kind and path of each field that was reported."""

    def iter_pod_warnings(self, pod: JsonObject, place: object) -> Iterator[str]:
        """Yield warnings about unknown fields in the spec of a pod that were not reported before."""
        for field in iter_unknown_fields({"kind": "Pod", "spec": pod.get("spec")}):
            if self._mark_as_reported("Pod", format_path(field.path)):
                yield _format_warning(place, str(field))

    def iter_warnings(self, kind: str, document: JsonObject, place: object) -> Iterator[str]:
        """Yield warnings about unknown fields of an object of FULLY_KNOWN_KINDS that were not reported before."""
        for path in map(str, iter_unread_relevant_paths(kind, drop_nulls(document))):
            if self._mark_as_reported(kind, path):
                yield _format_warning(place, f'unknown field "{path}" of a {kind}')

    def _mark_as_reported(self, kind: str, path: str) -> bool:
        """Record that a field of a kind was reported, and return whether this is the first report.

        Indices of lists in the path are ignored.
        """
        key = (kind, _drop_indices(path))
        is_first = key not in self._reported
        self._reported.add(key)
        return is_first


def _format_warning(place: object, description: str) -> str:
    """Format the warning about the unknown field with this description."""
    return f"{place}: {description}, which this version of kschedctl does not know (reported once)"


def _drop_indices(path: str) -> str:
    """Return the path without the indices of lists.

    >>> _drop_indices("spec.containers[0].imagee")
    'spec.containers[].imagee'
    """
    return re.sub(r"\[\d+\]", "[]", path)


class _ItemMetadata(Protocol):
    """The metadata of a pod among list items. See list_items.py."""

    @property
    def namespace(self) -> str:
        """The namespace of the pod."""
        ...

    @property
    def owner_references(self) -> msgspec.Raw:
        """The JSON of the pod's owners."""
        ...

    @property
    def labels(self) -> msgspec.Raw:
        """The JSON of the pod's labels."""
        ...


class NewPodFields:
    """A finder of pods with unknown fields among list items, which are passed to ``report`` with their index."""

    def __init__(self, report: Callable[[JsonObject, int], None]) -> None:
        self._report = report
        self._templates: set[tuple[str, bytes, bytes]] = set()

    def check_pods(
        self, items: Sequence[object], raw_items: Callable[[], Sequence[msgspec.Raw]], start: int
    ) -> list[msgspec.Raw]:
        """Report the unknown fields of one pod of each template, and return the JSON of the checked pods.

        ``raw_items`` returns the JSON of all items, and ``start`` is the index of the first item in the list.
        """
        checked_indices = [
            index
            for index, item in enumerate(items)
            if isinstance(item, Pod) and self._register_template_if_new(cast(_ItemMetadata, item.metadata))
        ]
        documents = raw_items() if checked_indices else ()
        for index in checked_indices:
            with suppress(*_UNDECODABLE):
                if not self._has_only_known_fields(documents[index]):
                    self._report(msgspec.json.decode(documents[index]), start + index)
        return [documents[index] for index in checked_indices]

    def _register_template_if_new(self, meta: _ItemMetadata) -> bool:
        """Register the template of a pod, and return whether the template is new.

        Pods with the same namespace, owners and revision have the same template. A pod whose owner gives it no template
        always counts as new.
        """
        # The metadata is searched as raw JSON, which is faster than decoding it for each pod.
        owners = bytes(meta.owner_references)
        labels = bytes(meta.labels)
        revision_match = _REVISION.search(labels) if _REVISION_LABEL in labels else None
        revision = revision_match[1] if revision_match else b""
        template_key = (meta.namespace, owners, revision)
        if template_key in self._templates:
            return False
        if _TEMPLATE_OWNER.search(owners):  # pods of other owners may have nothing in common
            self._templates.add(template_key)
        return True

    def _has_only_known_fields(self, item: msgspec.Raw) -> bool:
        """Return whether the spec in the JSON of a pod has no unknown field."""
        try:
            _get_strict_decoder().decode(item)
        except msgspec.ValidationError:
            return False
        return True


@cache
def _get_strict_decoder() -> msgspec.json.Decoder[Any]:
    """Return a decoder of pods that rejects unknown fields."""
    pod = msgspec.defstruct("StrictPod", [("spec", _StrictTypes().build_strict_type("PodSpec"), None)])
    return get_json_decoder(pod)


class _StrictTypes:
    """A builder of structs that reject unknown fields."""

    def __init__(self) -> None:
        self._types: dict[str, Any] = {}

    def build_strict_type(self, name: str) -> Any:
        """Build a type that accepts a value of an API type only if the value has no unknown fields.

        The type also accepts a list of these values, or a scalar. The fields of the built structs have short names,
        since only decoding matters. For "", the type of a value that may hold anything, return msgspec.Raw.
        """
        if not name:
            return msgspec.Raw
        if name not in self._types:
            fields = []
            names = {}
            for number, (field, type_name) in enumerate(get_fields_by_type()[name].items()):
                fields.append((f"f{number}", self.build_strict_type(type_name), None))
                names[f"f{number}"] = field
            struct = msgspec.defstruct(name, fields, rename=names, forbid_unknown_fields=True, gc=False)
            self._types[name] = list[struct] | struct | _SCALAR  # type: ignore[valid-type]
        return self._types[name]
