"""Pods of lists as rows of a table: parts that pods of one template print alike are known by their JSON.

So most of a pod is decoded once a template, and no pod is made of an item.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from operator import attrgetter
from typing import Any, NamedTuple, get_type_hints

import msgspec
from msgspec.structs import replace

from kschedctl.api.container_states import NotableContainers
from kschedctl.api.decoding import decode_json, get_json_decoder
from kschedctl.api.objects import (
    ZERO_TIME,
    Condition,
    ContainerImage,
    Node,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodMeta,
    PodSpec,
    PodStatus,
    Resources,
    Struct,
    Volume,
)
from kschedctl.api.pod_columns import MAX_MESSAGE_LENGTH
from kschedctl.api.pod_table import PodRows, PodTable, PodTableBuilder
from kschedctl.sources.documents.place import Place
from kschedctl.sources.object_checks import check_names, check_quantities, pod_resources

_META = ("labels", "owner_references")
_SPEC = (
    "node_selector",
    "affinity",
    "tolerations",
    "topology_spread_constraints",
    "overhead",
    "resources",
    "resource_claims",
    "scheduling_gates",
    "scheduling_group",
)
_STATUS = ("conditions",)
_OWN = frozenset({"name", "uid", "creation_timestamp", "node_name", "start_time", "message"})
"""The fields in which pods of one template differ."""
_TIME = re.compile(rb'TransitionTime"\s*:\s*"([^"\\]*)"')
_encode = msgspec.msgpack.Encoder().encode
_ONE_FIELD = _encode(Volume("v")).partition(_encode("name"))[0]
"""How msgpack begins the map of a volume with one key: to encode a small struct is faster than to compare two."""
_NO_TIME = b'TransitionTime" : null'
"""In the place of a time: nobody prints it so where there was none."""


def _partly(struct: type[Struct], undecoded: Iterable[str]) -> type[object]:
    """The struct with fields that stay JSON, and are empty when they are missing."""
    fields: list[tuple[str, object, object]] = [(name, msgspec.Raw, msgspec.Raw()) for name in undecoded]
    return msgspec.defstruct(f"{struct.__name__}Item", fields, bases=(struct,), rename="camel", frozen=True, gc=False)


_Meta, _Spec, _Status = (_partly(*part) for part in ((PodMeta, _META), (PodSpec, _SPEC), (PodStatus, _STATUS)))
POD_FIELDS: list[tuple[str, Any, Any]] = [
    ("metadata", _Meta, _Meta()),
    ("spec", _Spec, _Spec()),
    ("status", _Status, _Status()),
]
"""The fields of an item that is a pod: name, type and default."""


def _decoded_fields(struct: type[Struct], *others: str) -> tuple[str, ...]:
    return tuple(name for name in struct.__struct_fields__ if name not in _OWN and name not in others)


_META_DECODED = _decoded_fields(PodMeta, *_META)
_SPEC_DECODED = _decoded_fields(PodSpec, *_SPEC, "volumes")
_STATUS_DECODED = _decoded_fields(PodStatus, *_STATUS)
_meta_decoded, _spec_decoded, _status_decoded = (
    attrgetter(*names) for names in (_META_DECODED, _SPEC_DECODED, _STATUS_DECODED)
)
_meta_json, _spec_json = attrgetter(*_META), attrgetter(*_SPEC)


Key = tuple[bytes, bytes, bytes, bytes, bytes]
"""The key of a template: what is decoded, the volumes, the JSON of metadata and spec, conditions less their times."""


class _Told(NamedTuple):
    """What PodScheduled says, and which of the pieces, into which conditions fall at their times, are its time and
    that of DisruptionTarget; 0 for none."""

    refusal: str
    scheduled: int
    disrupted: int

    @classmethod
    def of(cls, conditions: Sequence[Condition], pieces: int) -> _Told:
        """Where some condition has no time, nobody knows whose the others are."""
        types = [condition.type for condition in conditions] if pieces == 2 * len(conditions) + 1 else []
        places = [2 * types.index(kind) + 1 if kind in types else 0 for kind in ("PodScheduled", "DisruptionTarget")]
        refusal = next((condition.message for condition in conditions if condition.type == "PodScheduled"), "")
        return cls(refusal[:MAX_MESSAGE_LENGTH], *places)


class PodItems:
    """Turns the items of lists into rows of the table that is built; it keeps what the templates are made of."""

    def __init__(self, builder: PodTableBuilder) -> None:
        self._builder = builder
        self._known: dict[Key, tuple[int, _Told, str]] = {}
        self._told: dict[bytes, _Told] = {}
        self._texts: dict[bytes, bytes] = {}
        self._namespaces: dict[str, str] = {}
        self._pods: dict[bytes, Pod] = {}
        self._parts: dict[tuple[str, bytes], object] = {}
        self._specs: dict[tuple[bytes, bytes, bytes], PodSpec] = {}

    def table(self) -> PodTable:
        """The table of all rows, and what was added besides; no more can be added."""
        self._known, self._told, self._texts, self._pods, self._parts, self._specs = {}, {}, {}, {}, {}, {}
        return self._builder.build()

    def rows(self, items: Sequence[Any], where: Callable[[int], Place] | None) -> PodRows:
        """The rows of items; ``where``: the place of an item, or None for what an API server has checked.

        Raises InputError for a missing name and for quantities that are none, msgspec.ValidationError.
        """
        template: list[int] = []
        scheduled: list[str] = []
        containers: list[str] = []
        rare: list[tuple[int, Any, _Told, list[bytes]]] = []
        for index, item in enumerate(items):
            meta = item.metadata
            if where is not None and (not meta.name or "/" in meta.name or "/" in meta.namespace):
                check_names(meta, partial(where, index), may_be_generated=True)
            status = item.status
            pieces = _TIME.split(bytes(status.conditions))
            key = self._key(meta, item.spec, status, _NO_TIME.join(pieces[::2]))
            number, at, told = self._known.get(key) or self._new(
                item, key, len(pieces), where and partial(where, index)
            )
            template.append(number)
            containers.append(told)
            scheduled.append(_moment(pieces[at.scheduled]) if at.scheduled else "")
            if at.disrupted or at.refusal or status.message:
                rare.append((index, status, at, pieces))
        return self._rows(items, template, scheduled, rare, containers)

    def _rows(
        self,
        items: Sequence[Any],
        template: list[int],
        scheduled: list[str],
        rare: list[tuple[int, Any, _Told, list[bytes]]],
        containers: list[str],
    ) -> PodRows:
        """``rare``: what few pods have, by their places."""
        disrupted, message, refusal = ([""] * len(items) for _ in range(3))
        for index, status, at, pieces in rare:
            disrupted[index] = _moment(pieces[at.disrupted]) if at.disrupted else ""
            message[index], refusal[index] = status.message[:MAX_MESSAGE_LENGTH], at.refusal
        metas, namespace = [item.metadata for item in items], self._namespaces.setdefault
        texts = [  # in the order of OwnTexts
            [meta.uid for meta in metas],
            [item.spec.node_name for item in items],
            [meta.creation_timestamp or "" for meta in metas],
            [item.status.start_time or "" for item in items],
            scheduled,
            disrupted,
            message,
            refusal,
            containers,
        ]
        namespaces = [namespace(meta.namespace, meta.namespace) for meta in metas]
        return PodRows(namespaces, [meta.name for meta in metas], template, texts)

    def _key(self, meta: object, spec: object, status: object, conditions: bytes) -> Key:
        """Equal for pods of one template."""
        return (
            _encode((_meta_decoded(meta), _spec_decoded(spec), _status_decoded(status))),
            _encode(_volumes(spec)),
            b",".join(_meta_json(meta)),
            b",".join(_spec_json(spec)),
            conditions,
        )

    def _new(self, item: Any, key: Key, pieces: int, where: Callable[[], Place] | None) -> tuple[int, _Told, str]:
        """What is to be known of a key not seen before. Raises InputError, msgspec.ValidationError."""
        decoded, volumes, _, spec, text = key
        common = self._pods.get(decoded) or self._pods.setdefault(decoded, _common(item))
        conditions = self._part(PodStatus, "conditions", text or b"[]")
        pod = Pod(
            replace(common.metadata, **self._undecoded(PodMeta, item.metadata, _META)),
            self._spec(common.spec, item.spec, (decoded, volumes, spec), where),
            replace(common.status, conditions=conditions),
        )
        kept: Any = tuple(self._texts.setdefault(text, text) for text in key)
        at = self._told.get(text) or self._told.setdefault(text, _Told.of(conditions, pieces))
        self._known[kept] = self._builder.intern_template(pod), at, NotableContainers.from_status(pod.status).to_text()
        return self._known[kept]

    def _spec(
        self, common: PodSpec, item: object, key: tuple[bytes, bytes, bytes], where: Callable[[], Place] | None
    ) -> PodSpec:
        """The spec of an item. Raises InputError, msgspec.ValidationError."""
        if key not in self._specs:
            pod_spec = replace(common, volumes=tuple(_volumes(item)), **self._undecoded(PodSpec, item, _SPEC))
            if where is not None:
                check_quantities(pod_resources(pod_spec), where)
            self._specs[key] = pod_spec
        return self._specs[key]

    def _undecoded(self, struct: type[Struct], part: object, names: Iterable[str]) -> dict[str, object]:
        """What the fields that are JSON stand for, less those that are missing. Raises msgspec.ValidationError."""
        return {name: self._part(struct, name, text) for name in names if (text := bytes(getattr(part, name)))}

    def _part(self, struct: type[Struct], name: str, text: bytes) -> Any:
        key = name, text
        if key not in self._parts:
            self._parts[key] = _decoder(struct, name).decode(text)
        return self._parts[key]


def _moment(piece: bytes) -> str:
    """A time of a condition; Go's zero time is none."""
    text = piece.decode()
    return "" if text == ZERO_TIME else text


def _volumes(spec: Any) -> list[Volume]:
    """The volumes that are more than a name. A volume without one is kept as it is."""
    return [volume for volume in spec.volumes if not _encode(volume).startswith(_ONE_FIELD) or not volume.name]


def _common(item: Any) -> Pod:
    """What pods of one template have in common, as far as it is decoded, without volumes: pods may have their own."""
    meta, spec, status = item.metadata, item.spec, item.status
    return Pod(
        PodMeta(**{name: getattr(meta, name) for name in _META_DECODED}),
        PodSpec(**{name: getattr(spec, name) for name in _SPEC_DECODED}),
        PodStatus(**{name: getattr(status, name) for name in _STATUS_DECODED}),
    )


@cache
def _decoder(struct: type[Struct], name: str) -> msgspec.json.Decoder[object]:
    return get_json_decoder(get_type_hints(struct, include_extras=True)[name])


_NodeStatusItem = msgspec.defstruct(
    "NodeStatusItem", [("images", list[msgspec.Raw], [])], bases=(NodeStatus,), rename="camel", frozen=True, gc=False
)
NODE_FIELDS: list[tuple[str, Any, Any]] = [("status", _NodeStatusItem, _NodeStatusItem())]
"""The fields of an item that is a node and not decoded as its struct is: name, type and default."""


class NodeItems:
    """Turns the items of lists into nodes."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._images: dict[bytes, ContainerImage] = {}
        self._amounts: dict[tuple[tuple[str, object], ...], Resources] = {}
        self._conditions: dict[tuple[tuple[str, str, str], ...], tuple[Condition, ...]] = {}

    def nodes(self, items: Iterable[Any]) -> list[Node]:
        """Raises msgspec.ValidationError for an image that is none."""
        return [Node(self._metadata(item.metadata), item.spec, self._status(item.status)) for item in items]

    def _metadata(self, metadata: ObjectMeta) -> ObjectMeta:
        """The hostname among the labels is the name, mostly; the others many nodes have."""
        text = self._texts.setdefault
        labels = {text(key, key): text(value, value) for key, value in metadata.labels.items()}
        return replace(metadata, name=text(metadata.name, metadata.name), labels=labels)

    def _status(self, status: Any) -> NodeStatus:
        images = tuple([self._images.get(text) or self._new(text) for text in map(bytes, status.images)])
        told = tuple([(c.type, c.status, c.reason) for c in status.conditions])  # nothing reads the rest
        conditions = self._conditions.get(told) or self._conditions.setdefault(
            told, tuple([Condition(*c) for c in told])
        )
        allocatable, capacity = self._shared(status.allocatable), self._shared(status.capacity)
        return NodeStatus(allocatable, capacity, images, conditions, status.declared_features)

    def _shared(self, amounts: Resources) -> Resources:
        return self._amounts.setdefault(tuple(amounts.items()), amounts)

    def _new(self, text: bytes) -> ContainerImage:
        image = self._images[text] = decode_json(text, ContainerImage)
        return image
