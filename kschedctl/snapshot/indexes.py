"""The cluster's objects as a fork has them, and what is derived from them: found out again only when they change.

Objects never change, nor do tuples of them: what was derived from some tuples holds as long as they are the cluster's.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from operator import is_
from typing import Any, Protocol, TypeAlias, TypeVar

from kschedctl.api.objects import Struct
from kschedctl.cluster import FIELDS, Cluster, Gap

VERSIONS_KEPT = 4
AnyObject: TypeAlias = Any
"""One of some kind, which whoever asks names."""
V = TypeVar("V")


class Indexes:
    """What was derived, each under a key with the very objects that it was derived from; the latest few of each key."""

    def __init__(self) -> None:
        self._versions: dict[Hashable, list[tuple[tuple[object, ...], AnyObject]]] = {}

    def get(self, key: Hashable, read: tuple[object, ...], make: Callable[[], V]) -> V:
        """What was made of these objects, made now if it was not before."""
        versions = self._versions.setdefault(key, [])
        for place, (known, value) in enumerate(versions):
            if all(map(is_, known, read)):
                if place:
                    versions.insert(0, versions.pop(place))
                held: V = value
                return held
        made = make()
        versions.insert(0, (read, made))
        del versions[VERSIONS_KEPT:]
        return made


class Maintained(Protocol):
    """Something derived that is kept up to date while objects of a fork are replaced."""

    def replaced(self, objects: AnyObject) -> None:
        """An object, of a kind that it follows, came into the place of the one of its name."""


F = TypeVar("F", bound=Maintained)


class ClusterObjects:
    """The objects of a fork: those of a cluster, of which some are replaced as pods are placed and evicted.

    ``indexes`` are shared with the other forks; followers are the fork's own.
    """

    def __init__(self, cluster: Cluster, indexes: Indexes) -> None:
        self._cluster, self._indexes = cluster, indexes
        self._replaced: dict[str, list[Struct]] = {}
        self._followers: dict[Hashable, AnyObject] = {}
        self._told: dict[str, list[Maintained]] = {}
        self.replaced = 0
        """How many objects were replaced so far."""

    @property
    def cluster(self) -> Cluster:
        """All objects as they are now."""
        if self._replaced:
            self._cluster, self._replaced = self._cluster.with_objects(self._replaced), {}
        return self._cluster

    @property
    def gaps(self) -> Mapping[str, Gap]:
        """The kinds that are not covered, as of the cluster."""
        return self._cluster.gaps

    def of(self, kind: str) -> tuple[AnyObject, ...]:
        """The objects of a kind as they are now."""
        cluster = self.cluster if kind in self._replaced else self._cluster
        kind_objects: tuple[AnyObject, ...] = getattr(cluster, FIELDS[kind])
        return kind_objects

    def index(self, key: Hashable, make: Callable[..., V], *kinds: str, of: tuple[object, ...] = ()) -> V:
        """``make`` of the objects of these kinds, kept while they are the same; ``of``: of what else it was made."""
        read = tuple(map(self.of, kinds))
        return self._indexes.get(key, (*read, *of), lambda: make(*read))

    def in_namespace(self, kind: str, namespace: str) -> Sequence[AnyObject]:
        """The objects of a kind that are in a namespace."""
        return self.index(("by namespace", kind), _by_namespace, kind).get(namespace, ())

    def named(self, kind: str, namespace: str, name: str) -> AnyObject | None:
        """The object of that name, None where there is none."""
        return self.index(("by name", kind), _by_name, kind).get((namespace, name))

    def gap(self, kind: str, namespace: str = "") -> Gap | None:
        """Why a kind is not covered, as of the cluster."""
        return self._cluster.gap(kind, namespace)

    def follow(self, key: Hashable, make: Callable[[], F], *kinds: str) -> F:
        """What ``make`` derives from the objects as they are now, told of what replaces one of these kinds."""
        follower: F | None = self._followers.get(key)
        if follower is None:
            follower = self._followers[key] = make()
            for kind in kinds:
                self._told.setdefault(kind, []).append(follower)
        return follower

    def replace(self, objects: Mapping[str, Sequence[Struct]]) -> None:
        """Put these objects in the place of those of their kind and name; those that are new are added."""
        for kind, replacements in objects.items():
            self._replaced.setdefault(kind, []).extend(replacements)
            self.replaced += len(replacements)
            for follower in self._told.get(kind, ()):
                for replacement in replacements:
                    follower.replaced(replacement)

    def fork(self) -> ClusterObjects:
        """The objects once more, which can be replaced there without an effect here."""
        return ClusterObjects(self.cluster, self._indexes)


def _by_namespace(objects: tuple[AnyObject, ...]) -> dict[str, list[AnyObject]]:
    by_namespace: dict[str, list[AnyObject]] = {}
    for obj in objects:
        by_namespace.setdefault(obj.metadata.namespace, []).append(obj)
    return by_namespace


def _by_name(objects: tuple[AnyObject, ...]) -> dict[tuple[str, str], AnyObject]:
    return {(obj.metadata.namespace, obj.metadata.name): obj for obj in objects}
