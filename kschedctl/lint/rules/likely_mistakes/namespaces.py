"""Namespaces that nothing makes, where others are made: of objects, and of terms of affinity."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kschedctl.lint.near_names import one_meant
from kschedctl.lint.rule import WARNING, Rule
from kschedctl.lint.subject import Path, Problem, Subject
from kschedctl.lint.terms import REQUIRED, pod_terms
from kschedctl.lint.workload import TEMPLATES
from kschedctl.lint.world import World

_PROVIDED = ("kube-", "openshift-", "default")
"""What the names begin with of namespaces that clusters bring with them."""
_NAME = "kubernetes.io/metadata.name"
"""The label by which every namespace can be selected."""
_KINDS = ("Namespace", "Project", "ProjectRequest")


class _Named(NamedTuple):
    """A namespace that a field names; ``needed``: without it no pod is ever made, or finds a node."""

    subject: Subject
    path: Path
    name: str
    needed: bool


def missing(world: World) -> Iterator[Problem]:
    made = {name for kind in _KINDS for name in world.names_anywhere(kind)}
    for subject, path, name, needed in (*_of_objects(world), *_of_terms(world)):
        if name in made or name.startswith(_PROVIDED):
            continue
        beside = world.names_beside(subject, "Namespace")
        known = beside if beside or path == _OF_OBJECT else set(world.by_namespace)
        meant = one_meant(name, known) if name not in known else ""
        if meant or (needed and beside and name not in beside and world.cluster is None):
            message = f'nothing makes the namespace "{name}"' + f', but "{meant}"' * bool(meant and beside)
            yield subject.problem(path, message, f"Write {meant}" if meant else "")


_OF_OBJECT: Path = ("metadata", "namespace")


def _of_objects(world: World) -> Iterator[_Named]:
    """Needed where the file of what makes pods makes another namespace, and no object of that one is elsewhere."""
    making = {subject.place.file for subject in world.subjects if subject.kind == "Namespace" and subject.place}
    files: dict[str, set[str]] = {}
    for subject in world.subjects:
        if subject.namespace and subject.place:
            files.setdefault(subject.namespace, set()).add(subject.place.file)
    for subject in world.subjects:
        name = subject.namespace
        if name and _is_written(subject):
            alone = subject.place is not None and files.get(name) == {subject.place.file} <= making
            yield _Named(subject, _OF_OBJECT, name, alone and subject.kind in TEMPLATES)


def _is_written(subject: Subject) -> bool:
    """Whether the namespace stands in the object."""
    metadata = subject.document.get("metadata")
    return isinstance(metadata, dict) and bool(metadata.get("namespace"))


def _of_terms(world: World) -> Iterator[_Named]:
    used = {subject.namespace for subject in world.subjects}
    for workload in world.workloads:
        for path, term in pod_terms(workload):
            required = "podAffinity" in path and REQUIRED in path
            for i, name in enumerate(term.namespaces):
                at = workload.at_field(*path, "namespaces", i)
                yield _Named(workload.subject, at, name, required and name not in used)
            selector = term.namespace_selector.match_labels if term.namespace_selector else {}
            if _NAME in selector:
                at, name = workload.at_field(*path, "namespaceSelector", "matchLabels", _NAME), selector[_NAME]
                yield _Named(workload.subject, at, name, required and name not in used)


RULES = (
    Rule(
        "ns-missing",
        WARNING,
        missing,
        summary="A namespace that nothing makes, where the manifests make others",
        why="The API server refuses objects of a namespace that is not there, and required affinity to its pods leaves "
        "pods Pending. Told of names that are nearly one that is made, of such affinity, and of what makes pods in a "
        "file that makes another namespace.",
        fix="Correct the name, or make the namespace",
        source="https://kubernetes.io/docs/concepts/overview/working-with-objects/namespaces/",
    ),
)
