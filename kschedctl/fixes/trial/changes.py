"""What somebody could change: one change is what a person would do in one go, and edits of objects are what it does."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Node, Pod, Struct
from kschedctl.cluster import FIELDS, Cluster
from kschedctl.fixes.trial.prices import PRICES, Price
from kschedctl.replay.object_keys import ObjectKey

By = Literal["author", "operator"]


class ObjectEdit(NamedTuple):
    """One object's change: from what it is, None where there is no such object, to what it becomes, None to delete it.

    ``like``: the node, or the pod of a node, that a new one is a copy of.
    """

    key: ObjectKey
    change: Callable[[Any], Struct | None]
    like: str = ""


@dataclass(frozen=True, eq=False)
class Fix:
    """One change and how much it is.

    ``kind`` is the word by which people choose among changes. ``target``: what, and to what; two changes of one kind
    and target are the same. ``price``: what it costs those whom it concerns, None for that of its kind; of one price
    ``cost`` orders changes by how little they are. ``weakens``: the guarantee that is given up, empty for none.
    ``commands``: how an operator makes it; what it does to the asked pod is told by its patch. ``variant_of``: the best
    of the fixes of one kind that are variants of the same stands for all; without it a fix is its own. ``where``: what
    tells it from the others then, the name of a node or pod. ``needs_values`` names the fields whose values only the
    user knows, and ``manifests`` has the objects in which these fields are still empty.
    """

    kind: str
    target: Hashable
    text: str
    by: By
    edits: tuple[ObjectEdit, ...]
    cost: float
    weakens: str = ""
    commands: tuple[str, ...] = ()
    variant_of: Hashable = None
    where: str = ""
    price: Price | None = None
    times: Callable[[int], Fix] | None = None
    """The fix with so many nodes in place of one, if it adds a node."""
    check_first: str = ""
    """What to find out before the commands are run, as a clause that the text says, too; empty for nothing."""
    needs_values: tuple[str, ...] = ()
    manifests: tuple[JsonObject, ...] = ()

    def __post_init__(self) -> None:
        assert self.kind in PRICES, self.kind

    @property
    def paid(self) -> Price:
        """The price of the change."""
        return PRICES[self.kind] if self.price is None else self.price

    @property
    def family(self) -> tuple[str, Hashable]:
        """What all variants of one idea share."""
        return self.kind, self.target if self.variant_of is None else self.variant_of

    @property
    def name(self) -> tuple[str, Hashable]:
        return self.kind, self.target

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fix) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


class Edited(NamedTuple):
    """An object before, None for one that is created, and after, None for one that is deleted."""

    before: Struct | None
    after: Struct | None
    like: str = ""


Found = Callable[[ObjectKey], Struct | None]
"""The object as it was read."""


def edited(changes: Iterable[Fix], read: Found) -> dict[ObjectKey, Edited]:
    """What all the changes together make of the objects, each after those before it."""
    objects: dict[ObjectKey, Edited] = {}
    for edit in (edit for change in changes for edit in change.edits):
        known = objects.get(edit.key)
        if known is None:
            before = read(edit.key)
            known = Edited(before, before, edit.like)
        objects[edit.key] = known._replace(after=edit.change(known.after))
    return objects


def reader(cluster: Cluster) -> Found:
    """How an object of the cluster is found by its key."""
    known: dict[str, Mapping[tuple[str, str], Struct]] = {}

    def read(key: ObjectKey) -> Struct | None:
        if key.kind == "Pod":
            return cluster.pod(key.namespace, key.name)
        if key.kind not in known:
            objects = getattr(cluster, FIELDS[key.kind])
            known[key.kind] = {ObjectKey.of(obj)[1:]: obj for obj in objects}
        return known[key.kind].get(key[1:])

    return read


def on_pod(pod: Pod, change: Callable[[Pod], Pod]) -> tuple[ObjectEdit, ...]:
    """The edit of a pod."""
    return (ObjectEdit(ObjectKey.of(pod), change),)


def on_node(node: Node, change: Callable[[Node], Node]) -> tuple[ObjectEdit, ...]:
    """The edit of a node."""
    return (ObjectEdit(ObjectKey.of(node), change),)
