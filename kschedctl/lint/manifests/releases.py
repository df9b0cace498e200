"""The namespace of a Helm release, as far as its rendered objects tell: those that name none are installed into it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from kschedctl.lint.subject import Located

Release = tuple[str, str]
"""A file or a build, and the chart that was rendered to it; the chart is empty for what Helm did not write."""

_INSTALLED = frozenset(
    {"Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob", "Service", "ConfigMap", "PodDisruptionBudget"}
    | {"HorizontalPodAutoscaler", "ServiceAccount"}
)
"""Kinds that charts put where the release goes; roles and their bindings are made in other namespaces too."""


def release_of(place: Located) -> Release:
    return place.build or place.file, place.source.partition("/")[0]


def release_namespaces(manifests: Iterable[tuple[Mapping[str, Any], Located]]) -> dict[Release, str]:
    """The one namespace that objects of a release name; releases that name none, or several, are left out."""
    named: dict[Release, set[str]] = defaultdict(set)
    for document, place in manifests:
        metadata = document.get("metadata")
        namespace = metadata.get("namespace") if isinstance(metadata, Mapping) else None
        if document.get("kind") in _INSTALLED and isinstance(namespace, str) and namespace and place.source:
            named[release_of(place)].add(namespace)
    return {release: next(iter(found)) for release, found in named.items() if len(found) == 1}
