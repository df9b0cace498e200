"""Nodes of lists: what many of them have alike is kept once. An image, known by its JSON, is decoded once, too."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec.structs import replace

from kschedctl.api.decoding import decode_json
from kschedctl.api.objects import Condition, ContainerImage, Node, NodeStatus, ObjectMeta, Resources

_Status = msgspec.defstruct(
    "NodeStatusItem", [("images", list[msgspec.Raw], [])], bases=(NodeStatus,), rename="camel", frozen=True, gc=False
)
FIELDS: list[tuple[str, Any, Any]] = [("status", _Status, _Status())]
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
