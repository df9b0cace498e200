"""Which linted objects can be in the same cluster, since a repository may hold variants for many clusters.

If two files hold the same object (kind, namespace, name), the folders that separate them are alternatives: objects of
one are never in a cluster with objects of the other. The same holds for files of one folder, for parts of one file and
for builds of one base. Other folders, above or beside, are combined with each alternative. An explicit list of what is
applied together overrides these rules.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from kschedctl.lint.objects.subject import Location, Subject

PlaceParts = tuple[str, ...]
"""Folders, file name, and the number of a part of the file."""

MAX_PARTS = 50
"""The most renders that are told apart in one file, because each is compared with each other one."""

BUILT = "<built>"
"""The file name for objects that a kustomization or chart produced."""

_SHARED = frozenset({"Namespace", "CustomResourceDefinition", "Kustomization"})
"""Kinds that are often declared again wherever they are needed."""

_INSTALL_ORDER = (
    *("PriorityClass", "Namespace", "NetworkPolicy", "ResourceQuota", "LimitRange", "PodSecurityPolicy"),
    *("PodDisruptionBudget", "ServiceAccount", "Secret", "SecretList", "ConfigMap", "StorageClass", "PersistentVolume"),
    *("PersistentVolumeClaim", "CustomResourceDefinition", "ClusterRole", "ClusterRoleList", "ClusterRoleBinding"),
    *("ClusterRoleBindingList", "Role", "RoleList", "RoleBinding", "RoleBindingList", "Service", "DaemonSet", "Pod"),
    *("ReplicationController", "ReplicaSet", "Deployment", "HorizontalPodAutoscaler", "StatefulSet", "Job", "CronJob"),
)
_INSTALL_RANK = {kind: rank for rank, kind in enumerate(_INSTALL_ORDER)}
"""Rank of each kind in the order in which Helm writes a release. See InstallOrder in its kind_sorter.go."""


class AppliedSet(NamedTuple):
    """A set of objects that are applied together."""

    name: str
    closed: bool = False
    """Whether none of the objects is an alternative of another one."""
    loose: bool = False
    """Whether the set is only a guess.

    Two folders side by side then go together only if objects of both name a namespace.
    """


AppliedSets = Mapping[Subject, frozenset[AppliedSet]]
"""Object -> the sets that it is in; empty if all objects are applied together."""
NO_SETS: AppliedSets = MappingProxyType({})


class Variants:
    """The alternatives among objects, and the sets in which they are applied."""

    def __init__(self, subjects: Sequence[Subject], sets: AppliedSets = NO_SETS) -> None:
        self._homes = dict(_iter_places(subjects))
        distinct_sets = set(sets.values())
        loose = (
            any(applied.loose for together in distinct_sets for applied in together)
            and len({home[:-2] for home in self._homes.values()}) > 1
        )
        self._sets = sets if len(distinct_sets) > 1 or loose else NO_SETS
        self._alternatives: dict[PlaceParts, dict[str, set[str]]] = {}
        holders: dict[tuple[str, ...], set[PlaceParts]] = {}
        for subject in subjects:
            for identity in _iter_identities(subject):
                holders.setdefault(identity, set()).add(self._homes[subject])
        for homes in holders.values():
            for at, children in _find_divergences(homes):
                self._mark_alternatives(at, children)

    def __bool__(self) -> bool:
        """Whether there is anything that is apart."""
        return bool(self._alternatives or self._sets)

    def can_coexist(self, subject: Subject, other: Subject) -> bool:
        """Return whether two objects can be in one cluster.

        An object read from a cluster can coexist with any other.
        """
        here, there = self._homes.get(subject), self._homes.get(other)
        if here is None or there is None or here == there:
            return True
        if self._sets:
            shared = self._sets[subject] & self._sets[other]
            if not shared or any(applied.closed for applied in shared):
                return bool(shared)
            if all(applied.loose for applied in shared) and _are_separate_folders(
                subject, other, here[:-2], there[:-2]
            ):
                return False
        depth = next(i for i, (a, b) in enumerate(zip(here, there, strict=False)) if a != b)
        groups = self._alternatives.get(here[:depth], {})
        return here[depth] not in groups or there[depth] not in groups[here[depth]]

    def find_largest_group(self, subjects: Sequence[Subject]) -> Sequence[Subject]:
        """Find the largest group of objects that can be in one cluster, or the first of several."""
        most: Sequence[Subject] = subjects[:1]
        for first in subjects if self else ():
            kept: list[Subject] = [first]
            kept += (s for s in subjects if s is not first and all(self.can_coexist(s, other) for other in kept))
            most = max(most, kept, key=len)
        return most if self else subjects

    def _mark_alternatives(self, parent: PlaceParts, children: set[str]) -> None:
        """Make the children of a folder or file alternatives of each other and of their present alternatives."""
        groups = self._alternatives.setdefault(parent, {})
        overlapping = [groups[child] for child in children if child in groups]
        if overlapping and children <= overlapping[0]:
            return
        merged = children.union(*overlapping)
        groups.update(dict.fromkeys(merged, merged))


def _are_separate_folders(subject: Subject, other: Subject, folder: PlaceParts, other_folder: PlaceParts) -> bool:
    """Return whether neither folder contains the other and at most one object names a namespace."""
    shorter = min(len(folder), len(other_folder))
    return folder[:shorter] != other_folder[:shorter] and not (subject.namespace and other.namespace)


def _find_divergences(places: set[PlaceParts]) -> Iterator[tuple[PlaceParts, set[str]]]:
    """Yield each folder or file below which places differ, with the names of the children."""
    undivided: list[tuple[int, list[PlaceParts]]] = [(0, list(places))]
    while undivided:
        depth, some = undivided.pop()
        by_step: dict[str, list[PlaceParts]] = {}
        for home in some:
            by_step.setdefault(home[depth], []).append(home)
        if len(by_step) > 1:
            yield some[0][:depth], set(by_step)
        undivided += [(depth + 1, ways) for ways in by_step.values() if len(ways) > 1]


def _iter_places(subjects: Iterable[Subject]) -> Iterator[tuple[Subject, PlaceParts]]:
    """Yield each object with its place: folders, file and part of the file."""
    by_file: dict[str, list[Subject]] = {}
    for subject in subjects:
        place = subject.location
        by_file.setdefault(_get_file(place) if place else "", []).append(subject)
    for file, of_file in by_file.items():
        for number, part in enumerate(_split_file(of_file)):
            yield from ((subject, (*_split_path(file), str(number))) for subject in part)


def _get_file(location: Location) -> str:
    """Return the path of the file, or an invented file in the folder of a build."""
    return f"{location.build}/{BUILT}" if location.build else location.file


def _split_path(path: str) -> PlaceParts:
    """Split a normalized path into its folders and file name."""
    return tuple(posixpath.normpath(path.replace("\\", "/")).split("/"))


def _split_file(subjects: Sequence[Subject]) -> list[Sequence[Subject]]:
    """Split the objects of a file before each one that repeats an earlier one.

    Several renders of a chart in one file repeat objects.
    """
    parts: list[Sequence[Subject]] = []
    begin, seen = 0, set()
    for index, subject in enumerate(subjects):
        identity = _get_identity(subject)
        if identity in seen and len(parts) < MAX_PARTS:
            end = _find_render_start(subjects, begin, index)
            parts.append(subjects[begin:end])
            begin, seen = end, set(map(_get_identity, subjects[end:index]))
        if identity is not None:
            seen.add(identity)
    return [*parts, subjects[begin:]]


def _find_render_start(subjects: Sequence[Subject], begin: int, index: int) -> int:
    """Return the index of the first object of the Helm render that contains the one at an index."""
    while index - 1 > begin and _follows_in_render(subjects[index - 1], subjects[index]):
        index -= 1
    return index


def _follows_in_render(before: Subject, after: Subject) -> bool:
    """Return whether one object may follow another in the same Helm render."""
    if not (before.location and after.location and before.location.source and after.location.source):
        return False
    return _INSTALL_RANK.get(before.kind, len(_INSTALL_RANK)) <= _INSTALL_RANK.get(after.kind, len(_INSTALL_RANK))


def _iter_identities(subject: Subject) -> Iterator[tuple[str, ...]]:
    """Yield the keys of an object of which a cluster has only one.

    They are the object itself and, if it was built, the place where it was written.
    """
    if (identity := _get_identity(subject)) is not None:
        yield identity
        if subject.location and subject.location.build:
            yield subject.location.file, *map(str, subject.location.locate(()))


def _get_identity(subject: Subject) -> tuple[str, str, str, str] | None:
    """Return group, kind, namespace and name, or None if the object may exist several times."""
    if not subject.name or subject.kind in _SHARED:
        return None
    return subject.group, subject.kind, subject.namespace, subject.name
