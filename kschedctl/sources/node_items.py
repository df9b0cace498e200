"""Nodes of lists: an image that many nodes hold, known by its JSON, is decoded once and shared by them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from kschedctl.api.decoding import from_json
from kschedctl.api.objects import ContainerImage, Node, NodeStatus

_STATUS_DECODED = tuple(name for name in NodeStatus.__struct_fields__ if name != "images")
_Status = msgspec.defstruct(
    "NodeStatusItem", [("images", list[msgspec.Raw], [])], bases=(NodeStatus,), rename="camel", frozen=True, gc=False
)
FIELDS: list[tuple[str, Any, Any]] = [("status", _Status, _Status())]
"""The fields of an item that is a node and not decoded as its struct is: name, type and default."""


class NodeItems:
    """Turns the items of lists into nodes."""

    def __init__(self) -> None:
        self._images: dict[bytes, ContainerImage] = {}

    def nodes(self, items: Iterable[Any]) -> list[Node]:
        """Raises msgspec.ValidationError for an image that is none."""
        return [Node(item.metadata, item.spec, self._status(item.status)) for item in items]

    def _status(self, status: Any) -> NodeStatus:
        images = tuple([self._images.get(text) or self._new(text) for text in map(bytes, status.images)])
        return NodeStatus(images=images, **{name: getattr(status, name) for name in _STATUS_DECODED})

    def _new(self, text: bytes) -> ContainerImage:
        image = self._images[text] = from_json(text, ContainerImage)
        return image
