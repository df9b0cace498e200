"""Decoders of the items of JSON lists, which decode and store values that many pods or nodes share only once.

Such a value is recognized by its JSON. Most of a pod is decoded once for each template, and pods become rows of a table
without a Pod being built.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial, reduce
from operator import attrgetter, or_
from types import GenericAlias
from typing import Any, Literal, NamedTuple, get_type_hints

import msgspec
from msgspec.structs import replace

from kschedctl.api.container_states import NotableContainers
from kschedctl.api.decoding import decode_json, get_json_decoder
from kschedctl.api.kinds import KINDS
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
from kschedctl.sources.decoding import iter_pod_resources, validate_names, validate_quantities
from kschedctl.sources.documents.place import Place

_SHARED_METADATA = ("labels", "owner_references")
_SHARED_SPEC = (
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
_SHARED_STATUS = ("conditions",)
_OWN_FIELDS = frozenset({"name", "uid", "creation_timestamp", "node_name", "start_time", "message"})
"""The fields that may differ between pods of one template."""
_TIME = re.compile(rb'TransitionTime"\s*:\s*"([^"\\]*)"')
_encode = msgspec.msgpack.Encoder().encode
_ONE_FIELD_PREFIX = _encode(Volume("v")).partition(_encode("name"))[0]
"""The first bytes of the msgpack of a volume with only one field. Encoding is faster than comparing structs."""
_TIME_PLACEHOLDER = b'TransitionTime" : null'
"""A placeholder for a time, which no API server prints."""


def _define_partly_decoded(struct: type[Struct], undecoded: Iterable[str]) -> type[object]:
    """Define a subclass of the struct that does not decode the fields in ``undecoded``, but keeps their JSON.

    Fields that are missing in the JSON are empty.
    """
    fields: list[tuple[str, object, object]] = [(name, msgspec.Raw, msgspec.Raw()) for name in undecoded]
    return msgspec.defstruct(f"{struct.__name__}Item", fields, bases=(struct,), rename="camel", frozen=True, gc=False)


_Meta, _Spec, _Status = (
    _define_partly_decoded(*part)
    for part in ((PodMeta, _SHARED_METADATA), (PodSpec, _SHARED_SPEC), (PodStatus, _SHARED_STATUS))
)
POD_FIELDS: list[tuple[str, Any, Any]] = [
    ("metadata", _Meta, _Meta()),
    ("spec", _Spec, _Spec()),
    ("status", _Status, _Status()),
]
"""The fields of a pod among list items, as name, type and default."""


def _list_decoded_fields(struct: type[Struct], *undecoded: str) -> tuple[str, ...]:
    """Return the struct's fields that all pods of one template share, except for the fields in ``undecoded``."""
    return tuple(name for name in struct.__struct_fields__ if name not in _OWN_FIELDS and name not in undecoded)


_METADATA_DECODED = _list_decoded_fields(PodMeta, *_SHARED_METADATA)
_SPEC_DECODED = _list_decoded_fields(PodSpec, *_SHARED_SPEC, "volumes")
_STATUS_DECODED = _list_decoded_fields(PodStatus, *_SHARED_STATUS)
_meta_decoded, _spec_decoded, _status_decoded = (
    attrgetter(*names) for names in (_METADATA_DECODED, _SPEC_DECODED, _STATUS_DECODED)
)
_meta_json, _spec_json = attrgetter(*_SHARED_METADATA), attrgetter(*_SHARED_SPEC)


class TemplateKey(NamedTuple):
    """The key of a template."""

    decoded: bytes
    """The fields that the item's struct has decoded."""
    volumes: bytes
    metadata: bytes
    """The JSON of the other metadata."""
    spec: bytes
    """The JSON of the other fields of the spec."""
    conditions: bytes
    """The JSON of the conditions without their times."""


class _ConditionFacts(NamedTuple):
    """Facts from the conditions of the pods of a template."""

    unschedulable_message: str
    """The message of PodScheduled."""
    scheduled_piece: int
    """The index of PodScheduled's time among the pieces of the conditions' JSON split at times, or 0."""
    disrupted_piece: int
    """The index of DisruptionTarget's time among these pieces, or 0."""

    @classmethod
    def from_conditions(cls, conditions: Sequence[Condition], piece_count: int) -> _ConditionFacts:
        """Extract the facts from the conditions. The message of a condition is cut at MAX_MESSAGE_LENGTH.

        The conditions' JSON was split at its timestamps, and ``piece_count`` is the number of pieces. If a condition
        has no time, the other times cannot be assigned to conditions, and the indices are 0.
        """
        # Texts and times alternate in the pieces, so the time of condition i is piece 2 * i + 1.
        all_have_times = piece_count == 2 * len(conditions) + 1
        types = [condition.type for condition in conditions] if all_have_times else []

        def find_time_piece(condition_type: str) -> int:
            """Return the index of the piece with the condition's time, or 0 if there is none."""
            return 2 * types.index(condition_type) + 1 if condition_type in types else 0

        messages = (condition.message for condition in conditions if condition.type == "PodScheduled")
        return cls(
            unschedulable_message=next(messages, "")[:MAX_MESSAGE_LENGTH],
            scheduled_piece=find_time_piece("PodScheduled"),
            disrupted_piece=find_time_piece("DisruptionTarget"),
        )


class _Template(NamedTuple):
    """A pod template that occurred among list items."""

    number: int
    """The number of the template in the table that is built."""
    facts: _ConditionFacts
    containers: str
    """The notable containers as text, as the table stores them."""


class PodItems:
    """A converter of list items to rows of a pod table, which decodes each template only once."""

    def __init__(self, builder: PodTableBuilder) -> None:
        self._builder = builder
        self._templates: dict[TemplateKey, _Template] = {}
        self._facts: dict[bytes, _ConditionFacts] = {}
        self._texts: dict[bytes, bytes] = {}
        self._namespaces: dict[str, str] = {}
        self._pods: dict[bytes, Pod] = {}
        self._parts: dict[tuple[type[Struct], str, bytes], object] = {}
        self._specs: dict[tuple[bytes, bytes, bytes], PodSpec] = {}

    def build_table(self) -> PodTable:
        """Build the table of all rows, and clear the caches. Afterwards, no rows can be added."""
        self._templates = {}
        self._facts = {}
        self._texts = {}
        self._pods = {}
        self._parts = {}
        self._specs = {}
        return self._builder.build()

    @property
    def conflicts(self) -> list[tuple[str, str]]:
        """Namespace and name of the pods that were added with different contents. Known once the table is built."""
        return self._builder.conflicts

    def build_rows(self, items: Sequence[Any], get_place: Callable[[int], Place] | None) -> PodRows:
        """Build the rows of items, and register new templates.

        ``get_place`` returns the place of the item at an index. Items from an API server have no place (None) and are
        not validated. Raises InputError for missing names and invalid quantities, and msgspec.ValidationError.
        """
        numbers: list[int] = []
        containers: list[str] = []
        scheduled, disrupted, messages, unschedulable_messages = ([""] * len(items) for _ in range(4))
        for index, item in enumerate(items):
            meta = item.metadata
            status = item.status
            if get_place is not None and (not meta.name or "/" in meta.name or "/" in meta.namespace):
                validate_names(meta, partial(get_place, index), may_be_generated=True)

            # The template, for which the times of conditions do not matter
            pieces = _TIME.split(bytes(status.conditions))  # texts and times alternate
            key = self._build_template_key(meta, item.spec, status, _TIME_PLACEHOLDER.join(pieces[::2]))
            template = self._templates.get(key)
            if template is None:
                get_item_place = get_place and partial(get_place, index)
                template = self._add_template(item, key, piece_count=len(pieces), get_place=get_item_place)
            numbers.append(template.number)
            containers.append(template.containers)

            # Times and messages
            facts = template.facts
            if facts.scheduled_piece:
                scheduled[index] = _parse_condition_time(pieces[facts.scheduled_piece])
            if facts.disrupted_piece:
                disrupted[index] = _parse_condition_time(pieces[facts.disrupted_piece])
            if facts.unschedulable_message:
                unschedulable_messages[index] = facts.unschedulable_message
            if status.message:
                messages[index] = status.message[:MAX_MESSAGE_LENGTH]

        metas = [item.metadata for item in items]
        intern_namespace = self._namespaces.setdefault
        texts = [  # in the order of PodTexts
            [meta.uid for meta in metas],
            [item.spec.node_name for item in items],
            [meta.creation_timestamp or "" for meta in metas],
            [item.status.start_time or "" for item in items],
            scheduled,
            disrupted,
            messages,
            unschedulable_messages,
            containers,
        ]
        namespaces = [intern_namespace(meta.namespace, meta.namespace) for meta in metas]
        return PodRows(namespaces, [meta.name for meta in metas], numbers, texts)

    def _build_template_key(self, meta: object, spec: object, status: object, conditions: bytes) -> TemplateKey:
        """Build a key from a pod's metadata, spec and status that is equal for pods that may share all decoded values.

        ``conditions`` is the JSON of the pod's conditions without times. Decoded parts are compared by their values,
        and raw parts by their JSON.
        """
        return TemplateKey(
            decoded=_encode((_meta_decoded(meta), _spec_decoded(spec), _status_decoded(status))),
            volumes=_encode(_list_relevant_volumes(spec)),
            metadata=b",".join(_meta_json(meta)),
            spec=b",".join(_spec_json(spec)),
            conditions=conditions,
        )

    def _add_template(
        self, item: Any, key: TemplateKey, *, piece_count: int, get_place: Callable[[], Place] | None
    ) -> _Template:
        """Register the template of an item under a new key, and return the template.

        ``piece_count`` is the number of pieces into which the timestamps split the JSON of the pod's conditions.
        Quantities are validated only if ``get_place`` is given. Raises InputError or msgspec.ValidationError if the
        item is invalid.
        """
        # The pod is put together from parts that are cached on their own, because few templates differ in all parts.
        if key.decoded not in self._pods:
            self._pods[key.decoded] = _build_common_pod(item)
        common_pod = self._pods[key.decoded]
        spec_key = (key.decoded, key.volumes, key.spec)
        conditions = self._decode_field_cached(PodStatus, "conditions", key.conditions or b"[]")
        pod = Pod(
            replace(common_pod.metadata, **self._decode_fields(PodMeta, item.metadata, _SHARED_METADATA)),
            self._get_pod_spec(common_pod.spec, item.spec, spec_key, get_place),
            replace(common_pod.status, conditions=conditions),
        )

        if key.conditions not in self._facts:
            self._facts[key.conditions] = _ConditionFacts.from_conditions(conditions, piece_count)
        condition_facts = self._facts[key.conditions]
        containers = NotableContainers.from_status(pod.status).to_text()
        template = _Template(self._builder.intern_template(pod), condition_facts, containers)
        shared_key = TemplateKey(*(self._texts.setdefault(part, part) for part in key))  # equal parts are stored once
        self._templates[shared_key] = template
        return template

    def _get_pod_spec(
        self, common_spec: PodSpec, item: object, key: tuple[bytes, bytes, bytes], get_place: Callable[[], Place] | None
    ) -> PodSpec:
        """Return the pod spec of an item, building it only once per key.

        ``common_spec`` holds the fields that are decoded already. The volumes and the remaining fields come from
        ``item``. When a spec is built and ``get_place`` is given, its quantities are validated. Raises InputError for
        an invalid quantity, and msgspec.ValidationError for any other invalid field.
        """
        if key not in self._specs:
            pod_spec = replace(
                common_spec,
                volumes=tuple(_list_relevant_volumes(item)),
                **self._decode_fields(PodSpec, item, _SHARED_SPEC),
            )
            if get_place is not None:
                validate_quantities(iter_pod_resources(pod_spec), get_place)
            self._specs[key] = pod_spec
        return self._specs[key]

    def _decode_fields(self, struct: type[Struct], partly_decoded: object, names: Iterable[str]) -> dict[str, object]:
        """Decode the named fields of a partly decoded struct, in which they are still JSON.

        Fields that were missing in the JSON are left out. Raises msgspec.ValidationError if a value is invalid.
        """
        values = {}
        for name in names:
            text = bytes(getattr(partly_decoded, name))
            if text:
                values[name] = self._decode_field_cached(struct, name, text)
        return values

    def _decode_field_cached(self, struct: type[Struct], name: str, text: bytes) -> Any:
        """Decode the JSON of a field of the struct. Equal JSON is decoded only once.

        Raises msgspec.ValidationError if the value is invalid.
        """
        key = struct, name, text
        if key not in self._parts:
            self._parts[key] = _get_field_decoder(struct, name).decode(text)
        return self._parts[key]


def _parse_condition_time(piece: bytes) -> str:
    """Return the time of a condition as a string, or "" for Go's zero time."""
    text = piece.decode()
    return "" if text == ZERO_TIME else text


def _list_relevant_volumes(spec: Any) -> list[Volume]:
    """Return the volumes of a pod spec with a source that scheduling reads, and invalid volumes without a name."""
    return [volume for volume in spec.volumes if not _encode(volume).startswith(_ONE_FIELD_PREFIX) or not volume.name]


def _build_common_pod(item: Any) -> Pod:
    """Build a pod without volumes from the decoded fields that all pods of a template share."""
    meta = item.metadata
    spec = item.spec
    status = item.status
    return Pod(
        PodMeta(**{name: getattr(meta, name) for name in _METADATA_DECODED}),
        PodSpec(**{name: getattr(spec, name) for name in _SPEC_DECODED}),
        PodStatus(**{name: getattr(status, name) for name in _STATUS_DECODED}),
    )


@cache
def _get_field_decoder(struct: type[Struct], name: str) -> msgspec.json.Decoder[object]:
    """Return the JSON decoder for the type of the field with this name in the struct."""
    return get_json_decoder(get_type_hints(struct, include_extras=True)[name])


_NodeStatusItem = msgspec.defstruct(
    "NodeStatusItem", [("images", list[msgspec.Raw], [])], bases=(NodeStatus,), rename="camel", frozen=True, gc=False
)
NODE_FIELDS: list[tuple[str, Any, Any]] = [("status", _NodeStatusItem, _NodeStatusItem())]
"""The fields of a node among list items that differ from its struct, as name, type and default."""


class NodeItems:
    """A converter of list items to nodes that share equal parts."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._images: dict[bytes, ContainerImage] = {}
        self._amounts: dict[tuple[tuple[str, object], ...], Resources] = {}
        self._conditions: dict[tuple[tuple[str, str, str], ...], tuple[Condition, ...]] = {}

    def build_nodes(self, items: Iterable[Any]) -> list[Node]:
        """Build the nodes of items. Raises msgspec.ValidationError for an invalid image."""
        return [
            Node(self._share_metadata(item.metadata), item.spec, self._build_shared_status(item.status))
            for item in items
        ]

    def _share_metadata(self, metadata: ObjectMeta) -> ObjectMeta:
        """Return the metadata with shared strings.

        Most nodes have their name as a label, and have the other labels in common.
        """
        intern = self._texts.setdefault
        labels = {intern(key, key): intern(value, value) for key, value in metadata.labels.items()}
        return replace(metadata, name=intern(metadata.name, metadata.name), labels=labels)

    def _build_shared_status(self, status: Any) -> NodeStatus:
        """Build the status of a node, which shares equal images, conditions and quantities with other nodes."""
        images = tuple([self._images.get(text) or self._decode_image(text) for text in map(bytes, status.images)])
        return NodeStatus(
            allocatable=self._share_amounts(status.allocatable),
            capacity=self._share_amounts(status.capacity),
            images=images,
            conditions=self._share_conditions(status.conditions),
            declared_features=status.declared_features,
        )

    def _share_conditions(self, conditions: Iterable[Condition]) -> tuple[Condition, ...]:
        """Return the tuple of conditions that all nodes with these types, statuses and reasons share.

        No other fields of the conditions are kept.
        """
        key = tuple([(condition.type, condition.status, condition.reason) for condition in conditions])
        if key not in self._conditions:
            self._conditions[key] = tuple(
                [Condition(type=type_, status=status, reason=reason) for type_, status, reason in key]
            )
        return self._conditions[key]

    def _share_amounts(self, amounts: Resources) -> Resources:
        """Return the first mapping with these quantities, so that nodes share it."""
        return self._amounts.setdefault(tuple(amounts.items()), amounts)

    def _decode_image(self, text: bytes) -> ContainerImage:
        """Decode an image and cache it by its JSON."""
        image = self._images[text] = decode_json(text, ContainerImage)
        return image


PARTLY_DECODED: dict[str, list[tuple[str, Any, Any]]] = {"Pod": POD_FIELDS, "Node": NODE_FIELDS}
"""The fields of items of a kind that keep some JSON undecoded, because many objects share the JSON."""


class TypeMeta(Struct, frozen=True):
    """The kind and API version of a document."""

    kind: str = ""
    api_version: str = ""


@cache
def get_items_decoder(kind: str) -> msgspec.json.Decoder[Any]:
    """Return the decoder for a JSON array of objects of this kind, or of mixed kinds if ``kind`` is "".

    The items are subclasses of the structs for their kinds, with the fields of PARTLY_DECODED. Mixed kinds do not
    include kinds that share a name, nor kinds of which only some objects are read. The decoder raises
    msgspec.ValidationError if an item has another kind or a version that is not read.
    """
    if kind:
        item_type = build_item_type(kind)
    else:
        mixed_kinds = [
            api_kind.name for api_kind in KINDS.values() if api_kind.kind == api_kind.name and not api_kind.names
        ]
        # msgspec tells the types of this union apart by the kind, which is their tag
        item_type = reduce(or_, map(build_item_type, mixed_kinds))
    list_type: Any = GenericAlias(list, item_type)
    return get_json_decoder(list_type)


def get_item_decoder(kind: str) -> msgspec.json.Decoder[object]:
    """Return the decoder of one list item of this kind."""
    return get_json_decoder(build_item_type(kind))


@cache
def build_item_type(kind: str) -> Any:
    """Build the struct type for list items of a kind. It extends the kind's struct and checks kind and apiVersion."""
    versions = KINDS[kind].versions
    fields: list[tuple[str, object, object]] = [("api_version", Literal[versions], versions[0])]
    fields += PARTLY_DECODED.get(kind, [])
    settings: dict[str, Any] = {
        "tag_field": "kind",
        "tag": KINDS[kind].kind,
        "rename": "camel",
        "frozen": True,
        "gc": False,
    }
    return msgspec.defstruct(f"{kind}Item", fields, bases=(KINDS[kind].struct,), **settings)


def get_item_kind(item: object) -> str:
    """Return the kind of a decoded list item."""
    return type(item).__name__.removesuffix("Item")


def to_plain_struct(kind: str, item: object) -> Struct:
    """Convert a decoded list item to the plain struct of its kind."""
    struct = KINDS[kind].struct
    return struct(*[getattr(item, name) for name in struct.__struct_fields__])
