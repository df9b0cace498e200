"""The objects of a fork, and indexes of them that are recomputed only when the objects change.

Objects and tuples of objects never change, so a value derived from some tuples is valid as long as these are the
cluster's.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from operator import is_
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from kschedctl.api.objects import Struct
from kschedctl.cluster import FIELDS, Cluster, Gap

MAX_VERSIONS = 4
AnyObject: TypeAlias = Any
"""An object of the kind that the caller names."""
V = TypeVar("V")


class _Version(NamedTuple):
    """A derived value, with the objects from which it was derived."""

    sources: tuple[object, ...]
    value: AnyObject


class Indexes:
    """Derived values by key, each with the objects from which it was derived. The latest few are kept for each key."""

    def __init__(self) -> None:
        self._versions: dict[Hashable, list[_Version]] = {}

    def get_or_make(self, key: Hashable, sources: tuple[object, ...], make: Callable[[], V]) -> V:
        """Return the value for `key` that is derived from exactly these source objects, and derive it if needed.

        Source objects are compared by identity. Only the MAX_VERSIONS latest values of a key are kept.
        """
        versions = self._versions.setdefault(key, [])
        for place, version in enumerate(versions):
            if all(map(is_, version.sources, sources)):
                if place:  # the latest used version comes first
                    versions.insert(0, versions.pop(place))
                cached: V = version.value
                return cached
        value = make()
        versions.insert(0, _Version(sources, value))
        del versions[MAX_VERSIONS:]
        return value


class Maintained(Protocol):
    """A derived value that is kept up to date while objects of a fork are replaced."""

    def replace_object(self, obj: AnyObject) -> None:
        """Account for an object that replaces the object of the same kind and name, or is new."""


F = TypeVar("F", bound=Maintained)


class ClusterObjects:
    """The objects of a fork: the objects of a cluster, some of them replaced as pods are placed and evicted.

    `indexes` are shared with other forks. The values of `get_derived_value` belong to this fork.
    """

    def __init__(self, cluster: Cluster, indexes: Indexes) -> None:
        self._cluster, self._indexes = cluster, indexes
        self._replaced: dict[str, list[Struct]] = {}  # by kind, the replacements that `cluster` still has to apply
        self._derived_values: dict[Hashable, AnyObject] = {}
        self._derived_values_by_kind: dict[str, list[Maintained]] = {}
        self.replaced_count = 0
        """The number of objects that were replaced so far."""

    @property
    def cluster(self) -> Cluster:
        """A cluster with the current state of all objects. The cluster is rebuilt only after objects were replaced."""
        if self._replaced:
            self._cluster = self._cluster.with_objects(self._replaced)
            self._replaced = {}
        return self._cluster

    @property
    def gaps(self) -> Mapping[str, Gap]:
        """The reasons why kinds are not covered, by kind."""
        return self._cluster.gaps

    def of(self, kind: str) -> tuple[AnyObject, ...]:
        """Return the objects of a kind as they are now."""
        cluster = self.cluster if kind in self._replaced else self._cluster
        kind_objects: tuple[AnyObject, ...] = getattr(cluster, FIELDS[kind])
        return kind_objects

    def index(self, key: Hashable, make: Callable[..., V], *kinds: str, of: tuple[object, ...] = ()) -> V:
        """Return the result of `make` for the objects of these kinds, cached while the objects are the same.

        `make` gets one tuple of objects per kind. `of` has other objects from which the value is derived.
        """
        objects_by_kind = tuple(map(self.of, kinds))
        return self._indexes.get_or_make(key, (*objects_by_kind, *of), lambda: make(*objects_by_kind))

    def list_in_namespace(self, kind: str, namespace: str) -> Sequence[AnyObject]:
        """Return the objects of a kind in a namespace."""
        return self.index(("by namespace", kind), _group_by_namespace, kind).get(namespace, ())

    def find(self, kind: str, namespace: str, name: str) -> AnyObject | None:
        """Return the object of a kind with this namespace and name, or None if it does not exist."""
        return self.index(("by name", kind), _index_by_name, kind).get((namespace, name))

    def find_gap(self, kind: str, namespace: str = "") -> Gap | None:
        """Return the reason why not all objects of a kind were read, or None if all were read."""
        return self._cluster.find_gap(kind, namespace)

    def get_derived_value(self, key: Hashable, make: Callable[[], F], *kinds: str) -> F:
        """Return the value that `make` derives from the objects, building it on first use.

        The value's `replace_object` is called whenever an object of one of `kinds` is replaced.
        """
        value: F | None = self._derived_values.get(key)
        if value is None:
            value = self._derived_values[key] = make()
            for kind in kinds:
                self._derived_values_by_kind.setdefault(kind, []).append(value)
        return value

    def replace_objects(self, objects: Mapping[str, Sequence[Struct]]) -> None:
        """Record replacements for objects of the same kind and name, and notify the values derived from their kinds.

        `objects` has the replacements by kind. Objects with new names are added. The cluster itself is updated when
        `cluster` is read next.
        """
        for kind, replacements in objects.items():
            self._replaced.setdefault(kind, []).extend(replacements)
            self.replaced_count += len(replacements)
            for value in self._derived_values_by_kind.get(kind, ()):
                for replacement in replacements:
                    value.replace_object(replacement)

    def fork(self) -> ClusterObjects:
        """Return a copy in which objects can be replaced independently."""
        return ClusterObjects(self.cluster, self._indexes)


def _group_by_namespace(objects: tuple[AnyObject, ...]) -> dict[str, list[AnyObject]]:
    """Group the objects by namespace, keeping their order."""
    by_namespace: dict[str, list[AnyObject]] = {}
    for obj in objects:
        by_namespace.setdefault(obj.metadata.namespace, []).append(obj)
    return by_namespace


def _index_by_name(objects: tuple[AnyObject, ...]) -> dict[tuple[str, str], AnyObject]:
    """Index objects by namespace and name."""
    return {(obj.metadata.namespace, obj.metadata.name): obj for obj in objects}
