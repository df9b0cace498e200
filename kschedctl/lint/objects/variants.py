"""Alternatives among linted objects, which are never in the same cluster: a repository may serve many clusters.

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
"""The maximum number of parts of one file, because each part is compared with each other one."""

BUILT = "<built>"
"""The file name for objects that a kustomization or chart produced."""

_SHARED = frozenset({"Namespace", "CustomResourceDefinition", "Kustomization"})
"""Kinds whose objects are often repeated in each place that needs them, which does not make the places alternatives."""

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
    """True if the set is a complete list of objects, none of which is an alternative of another one."""
    loose: bool = False
    """True if the set is only a guess.

    Two folders side by side then go together only if objects of both name a namespace.
    """


AppliedSets = Mapping[Subject, frozenset[AppliedSet]]
"""Object -> the sets that it is in; empty if all objects are applied together."""
NO_SETS: AppliedSets = MappingProxyType({})


class Variants:
    """The alternatives among objects, and the sets in which they are applied.

    Variants are true if they separate any objects.
    """

    def __init__(self, subjects: Sequence[Subject], sets: AppliedSets = NO_SETS) -> None:
        self._places = dict(_iter_objects_with_places(subjects))
        self._sets = sets if self._can_sets_keep_objects_apart(sets) else NO_SETS
        self._alternatives: dict[PlaceParts, dict[str, set[str]]] = {}
        """Folder or file -> name of each child that has alternatives -> these alternatives and the child itself."""
        places_by_identity: dict[tuple[str, ...], set[PlaceParts]] = {}
        for subject in subjects:
            for identity in _iter_unique_keys(subject):
                places_by_identity.setdefault(identity, set()).add(self._places[subject])
        for places in places_by_identity.values():
            for parent, children in _iter_divergences(places):
                self._mark_alternatives(parent, children)

    def __bool__(self) -> bool:
        """Return whether some objects cannot be in the same cluster."""
        return bool(self._alternatives or self._sets)

    def can_coexist(self, subject: Subject, other: Subject) -> bool:
        """Return whether two objects can be in one cluster.

        Objects read from a cluster can coexist with all others, and so can objects of one rendered file. If files are
        grouped into sets that are applied together, two manifests need a common set. In a closed set, they always
        coexist. If the common sets are only guessed, manifests of separate folders coexist only if both name a
        namespace. Lastly, alternatives, such as two overlays of one application, cannot coexist.
        """
        place, other_place = self._places.get(subject), self._places.get(other)
        if place is None or other_place is None or place == other_place:
            return True
        if self._sets:
            shared_sets = self._sets[subject] & self._sets[other]
            if not shared_sets:
                return False
            if any(applied.closed for applied in shared_sets):
                return True
            is_guess = all(applied.loose for applied in shared_sets)
            names_both_namespaces = bool(subject.namespace and other.namespace)
            # A place ends with the file and the number of its part, so the rest is the folder
            if is_guess and not names_both_namespaces and _are_separate_folders(place[:-2], other_place[:-2]):
                return False
        return not self._are_alternatives(place, other_place)

    def _are_alternatives(self, place: PlaceParts, other_place: PlaceParts) -> bool:
        """Return whether two different places are in folders or files that are alternatives of each other.

        The first step at which the places differ decides.
        """
        depth = next(
            i for i, (step, other_step) in enumerate(zip(place, other_place, strict=False)) if step != other_step
        )
        alternatives = self._alternatives.get(place[:depth], {})
        return other_place[depth] in alternatives.get(place[depth], ())

    def find_coexisting_group(self, subjects: Sequence[Subject]) -> Sequence[Subject]:
        """Find a large group of objects that can all be in one cluster.

        The search is greedy: one group grows from each object, and the first of the largest groups is returned. Without
        variants, all objects are returned.
        """
        if not self:
            return subjects
        largest: Sequence[Subject] = subjects[:1]
        for first in subjects:
            group = [first]
            for candidate in subjects:
                if candidate is not first and all(self.can_coexist(candidate, member) for member in group):
                    group.append(candidate)
            largest = max(largest, group, key=len)
        return largest

    def _can_sets_keep_objects_apart(self, sets: AppliedSets) -> bool:
        """Return whether the applied sets can keep objects in different clusters.

        Several sets can do so, and so can a loose set if the objects are in several folders.
        """
        distinct_sets = set(sets.values())
        if len(distinct_sets) > 1:
            return True
        has_loose_set = any(applied.loose for applied_sets in distinct_sets for applied in applied_sets)
        # A place ends with the file and the number of its part
        folders = {place[:-2] for place in self._places.values()}
        return has_loose_set and len(folders) > 1

    def _mark_alternatives(self, parent: PlaceParts, children: set[str]) -> None:
        """Record that the children of a folder or file are alternatives of each other.

        Groups of alternatives that overlap are merged.
        """
        groups = self._alternatives.setdefault(parent, {})
        overlapping = [groups[child] for child in children if child in groups]
        if overlapping and children <= overlapping[0]:
            return
        merged = children.union(*overlapping)
        groups.update(dict.fromkeys(merged, merged))


def _are_separate_folders(folder: PlaceParts, other_folder: PlaceParts) -> bool:
    """Return whether neither folder is or contains the other."""
    shorter = min(len(folder), len(other_folder))
    return folder[:shorter] != other_folder[:shorter]


def _iter_divergences(places: set[PlaceParts]) -> Iterator[tuple[PlaceParts, set[str]]]:
    """Yield each folder or file at which places diverge, with the names of its children that lead to the places."""
    groups: list[tuple[int, list[PlaceParts]]] = [(0, list(places))]  # places that agree in their first steps
    while groups:
        depth, group = groups.pop()
        by_child: dict[str, list[PlaceParts]] = {}
        for place in group:
            by_child.setdefault(place[depth], []).append(place)
        if len(by_child) > 1:
            yield group[0][:depth], set(by_child)
        groups += [(depth + 1, below) for below in by_child.values() if len(below) > 1]


def _iter_objects_with_places(subjects: Iterable[Subject]) -> Iterator[tuple[Subject, PlaceParts]]:
    """Yield each object with its place: folders, file and number of the file's part."""
    by_file: dict[str, list[Subject]] = {}
    for subject in subjects:
        file = _get_file(subject.location) if subject.location else ""
        by_file.setdefault(file, []).append(subject)
    for file, file_subjects in by_file.items():
        for number, part in enumerate(_split_file_into_renders(file_subjects)):
            place = (*_split_path(file), str(number))
            yield from ((subject, place) for subject in part)


def _get_file(location: Location) -> str:
    """Return the path of the file, or an invented file in the folder of a build."""
    return f"{location.build}/{BUILT}" if location.build else location.file


def _split_path(path: str) -> PlaceParts:
    """Split a normalized path into its folders and file name."""
    return tuple(posixpath.normpath(path.replace("\\", "/")).split("/"))


def _split_file_into_renders(subjects: Sequence[Subject]) -> list[Sequence[Subject]]:
    """Split the objects of a file into parts, one for each render of a chart that the file contains.

    When an object recurs, the next part starts at the first object of the render to which the recurring object belongs.
    There are at most `MAX_PARTS` + 1 parts.
    """
    parts: list[Sequence[Subject]] = []
    part_start = 0
    identities_in_part: set[object] = set()
    for index, subject in enumerate(subjects):
        identity = _get_identity(subject)
        if identity in identities_in_part and len(parts) < MAX_PARTS:
            next_start = _find_render_start(subjects, part_start, index)
            parts.append(subjects[part_start:next_start])
            part_start = next_start
            identities_in_part = set(map(_get_identity, subjects[next_start:index]))
        if identity is not None:
            identities_in_part.add(identity)
    return [*parts, subjects[part_start:]]


def _find_render_start(subjects: Sequence[Subject], begin: int, index: int) -> int:
    """Return the index of the first object of the Helm render that contains the object at ``index``.

    Only objects after the one at ``begin`` are considered. Without Helm, this is the object itself.
    """
    while index - 1 > begin and _follows_in_render(subjects[index - 1], subjects[index]):
        index -= 1
    return index


def _follows_in_render(before: Subject, after: Subject) -> bool:
    """Return whether one object may come after another in the output of one Helm render."""
    if not (before.location and after.location and before.location.source and after.location.source):
        return False
    return _INSTALL_RANK.get(before.kind, len(_INSTALL_RANK)) <= _INSTALL_RANK.get(after.kind, len(_INSTALL_RANK))


def _iter_unique_keys(subject: Subject) -> Iterator[tuple[str, ...]]:
    """Yield the keys of the object that no other object of its cluster can have.

    The keys are the object's identity and, if a build rendered the object, the position in the file where it was
    written. Nothing is yielded if the object may exist several times.
    """
    identity = _get_identity(subject)
    if identity is None:
        return
    yield identity
    if subject.location and subject.location.build:
        line, column = subject.location.locate(())
        yield subject.location.file, str(line), str(column)


def _get_identity(subject: Subject) -> tuple[str, str, str, str] | None:
    """Return group, kind, namespace and name, or None for an object without a name or of a shared kind."""
    if not subject.name or subject.kind in _SHARED:
        return None
    return subject.group, subject.kind, subject.namespace, subject.name
