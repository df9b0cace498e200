"""Which linted objects can be in one cluster: a repository holds variants of the same ones, for many clusters.

Where two files hold the same object (kind, namespace, name), the folders in which they are, below the one that they
share, are alternatives: nothing of the one is ever together with anything of the other. Files of one folder, and parts
of one file, are alternatives in the same way, and so are builds of one base. Folders above or beside that hold nothing
twice go with all of them. What a repository says itself of what is applied together goes before all that.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from kschedctl.lint.objects.subject import Located, Subject

Home = tuple[str, ...]
"""Folders, file, and the number of a part of the file."""

MOST_PARTS = 50
"""Renders in one file; nobody writes more into one, and all of them are compared with each other."""

BUILT = "<built>"
"""Stands for the file that nobody wrote."""

_SHARED = frozenset({"Namespace", "CustomResourceDefinition", "Kustomization"})
"""Kinds that are declared again wherever they are needed."""

_INSTALLED = (
    *("PriorityClass", "Namespace", "NetworkPolicy", "ResourceQuota", "LimitRange", "PodSecurityPolicy"),
    *("PodDisruptionBudget", "ServiceAccount", "Secret", "SecretList", "ConfigMap", "StorageClass", "PersistentVolume"),
    *("PersistentVolumeClaim", "CustomResourceDefinition", "ClusterRole", "ClusterRoleList", "ClusterRoleBinding"),
    *("ClusterRoleBindingList", "Role", "RoleList", "RoleBinding", "RoleBindingList", "Service", "DaemonSet", "Pod"),
    *("ReplicationController", "ReplicaSet", "Deployment", "HorizontalPodAutoscaler", "StatefulSet", "Job", "CronJob"),
)
_RANK = {kind: rank for rank, kind in enumerate(_INSTALLED)}
"""The order in which Helm writes the kinds of a release. See InstallOrder in its kind_sorter.go."""


class AppliedSet(NamedTuple):
    """Objects that are applied together. ``closed``: none of them is an alternative of another one.

    ``loose``: nothing says that they are. There folders beside each other are together only as far as both name
    namespaces: what names none goes where somebody puts the folder.
    """

    name: str
    closed: bool = False
    loose: bool = False


Sets = Mapping[Subject, frozenset[AppliedSet]]
"""The sets that each object is in; none where all is one."""
NO_SETS: Sets = MappingProxyType({})


class Variants:
    """Which of these objects are alternatives, and in which sets they are applied."""

    def __init__(self, subjects: Sequence[Subject], sets: Sets = NO_SETS) -> None:
        self._homes = dict(_homes(subjects))
        distinct_sets = set(sets.values())
        loose = (
            any(applied.loose for together in distinct_sets for applied in together)
            and len({home[:-2] for home in self._homes.values()}) > 1
        )
        self._sets = sets if len(distinct_sets) > 1 or loose else NO_SETS
        self._alternatives: dict[Home, dict[str, set[str]]] = {}
        holders: dict[tuple[str, ...], set[Home]] = {}
        for subject in subjects:
            for identity in _identities(subject):
                holders.setdefault(identity, set()).add(self._homes[subject])
        for homes in holders.values():
            for at, children in _divergences(homes):
                self._set_apart(at, children)

    def __bool__(self) -> bool:
        """Whether there is anything that is apart."""
        return bool(self._alternatives or self._sets)

    def together(self, one: Subject, other: Subject) -> bool:
        """Whether both can be in one cluster; what was read from a cluster is with everything."""
        here, there = self._homes.get(one), self._homes.get(other)
        if here is None or there is None or here == there:
            return True
        if self._sets:
            shared = self._sets[one] & self._sets[other]
            if not shared or any(applied.closed for applied in shared):
                return bool(shared)
            if all(applied.loose for applied in shared) and _are_apart(one, other, here[:-2], there[:-2]):
                return False
        depth = next(i for i, (a, b) in enumerate(zip(here, there, strict=False)) if a != b)
        groups = self._alternatives.get(here[:depth], {})
        return here[depth] not in groups or there[depth] not in groups[here[depth]]

    def largest(self, subjects: Sequence[Subject]) -> Sequence[Subject]:
        """The most of these that can be in one cluster; the first ones of as many."""
        most: Sequence[Subject] = subjects[:1]
        for first in subjects if self else ():
            kept: list[Subject] = [first]
            kept += (s for s in subjects if s is not first and all(self.together(s, other) for other in kept))
            most = max(most, kept, key=len)
        return most if self else subjects

    def _set_apart(self, at: Home, children: set[str]) -> None:
        """The children of a folder (or a file) are alternatives, with all that is one of them already."""
        groups = self._alternatives.setdefault(at, {})
        known = [groups[child] for child in children if child in groups]
        if known and children <= known[0]:
            return
        merged = children.union(*known)
        groups.update(dict.fromkeys(merged, merged))


def _are_apart(one: Subject, other: Subject, here: Home, there: Home) -> bool:
    """Whether neither folder is in the other one, and not both name a namespace."""
    shorter = min(len(here), len(there))
    return here[:shorter] != there[:shorter] and not (one.namespace and other.namespace)


def _divergences(homes: set[Home]) -> Iterator[tuple[Home, set[str]]]:
    """Where the ways to these homes part, and the steps that lead on from there."""
    undivided: list[tuple[int, list[Home]]] = [(0, list(homes))]
    while undivided:
        depth, some = undivided.pop()
        by_step: dict[str, list[Home]] = {}
        for home in some:
            by_step.setdefault(home[depth], []).append(home)
        if len(by_step) > 1:
            yield some[0][:depth], set(by_step)
        undivided += [(depth + 1, ways) for ways in by_step.values() if len(ways) > 1]


def _homes(subjects: Iterable[Subject]) -> Iterator[tuple[Subject, Home]]:
    by_file: dict[str, list[Subject]] = {}
    for subject in subjects:
        place = subject.place
        by_file.setdefault(_home_of(place) if place else "", []).append(subject)
    for file, of_file in by_file.items():
        for number, part in enumerate(_parts_of_file(of_file)):
            yield from ((subject, (*_parts(file), str(number))) for subject in part)


def _home_of(place: Located) -> str:
    """The file; of what is built the folder, as if all of it stood in a file there."""
    return f"{place.build}/{BUILT}" if place.build else place.file


def _parts(path: str) -> Home:
    return tuple(posixpath.normpath(path.replace("\\", "/")).split("/"))


def _parts_of_file(subjects: Sequence[Subject]) -> list[Sequence[Subject]]:
    """One after the other; another begins where an object comes a second time, as in renders written to one file."""
    parts: list[Sequence[Subject]] = []
    begin, seen = 0, set()
    for index, subject in enumerate(subjects):
        identity = _identity(subject)
        if identity in seen and len(parts) < MOST_PARTS:
            end = _begin_of_render(subjects, begin, index)
            parts.append(subjects[begin:end])
            begin, seen = end, set(map(_identity, subjects[end:index]))
        if identity is not None:
            seen.add(identity)
    return [*parts, subjects[begin:]]


def _begin_of_render(subjects: Sequence[Subject], begin: int, index: int) -> int:
    """Where the render of a chart begins in which this object is: what Helm writes before it belongs to it."""
    while index - 1 > begin and _in_render(subjects[index - 1], subjects[index]):
        index -= 1
    return index


def _in_render(before: Subject, after: Subject) -> bool:
    if not (before.place and after.place and before.place.source and after.place.source):
        return False
    return _RANK.get(before.kind, len(_RANK)) <= _RANK.get(after.kind, len(_RANK))


def _identities(subject: Subject) -> Iterator[tuple[str, ...]]:
    """What no cluster has twice: the object, and where that of a build was written, whatever it is called there."""
    if (identity := _identity(subject)) is not None:
        yield identity
        if subject.place and subject.place.build:
            yield subject.place.file, *map(str, subject.place.locate(()))


def _identity(subject: Subject) -> tuple[str, str, str, str] | None:
    """What no cluster has twice; None for what has no name, and for what is declared wherever it is needed."""
    if not subject.name or subject.kind in _SHARED:
        return None
    return subject.group, subject.kind, subject.namespace, subject.name
