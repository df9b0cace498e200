"""Objects that were not read although an answer about a pod depends on them.

A plugin with `dependencies` names the kinds whose missing objects could change its answer. Kinds that the cluster
covers are harmless, because objects that are not there do not exist. The others make the answer conditional, and a
plugin that could only cause false rejections is not asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import NamedTuple, Protocol, runtime_checkable

from kschedctl.api.objects import Pod
from kschedctl.cluster import Gap
from kschedctl.scheduler.framework import Plugin, offers
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo


class Effect(StrEnum):
    """The possible effect of unread objects on an answer."""

    REFUSES = "refuses"
    """Cause only rejections that do not exist in the cluster; the plugin cannot be asked without them."""
    NARROWS = "narrows"
    """Reject only nodes that nothing else rejects, as extenders do; irrelevant for a pod without feasible nodes."""
    REFUSES_MORE = "refuses more"
    """Add rejections to those known; the plugin can be asked all the same."""
    ADMITS = "admits"
    """Make nodes feasible."""
    EITHER = "either"
    """Reject nodes or make nodes feasible."""
    SCORES = "scores"
    """Change the order of feasible nodes."""
    VICTIMS = "victims"
    """Change the choice of victims."""
    ORDER = "order"
    """Change which of several pods is tried first."""


class Dependency(NamedTuple):
    """A kind of objects, with the effect that unread ones could have on the answer."""

    kind: str
    effect: Effect


class Unknown(NamedTuple):
    """An answer's dependency on something that was not read."""

    dependency: Dependency
    gap: Gap
    plugin: str = ""
    """The plugin that depends on it; empty for the whole answer."""


@runtime_checkable
class DependentPlugin(Plugin, Protocol):
    """A plugin whose answers depend on kinds that may not have been read."""

    def dependencies(self, info: PodInfo, view: Fork) -> Iterator[Dependency]:
        """Yield the kinds whose missing objects could change the plugin's answer about the pod.

        If the effect is Effect.REFUSES, the plugin cannot answer without these objects.
        """


@runtime_checkable
class DoubtfulPlugin(Plugin, Protocol):
    """A plugin whose answers depend on something that no object records."""

    def iter_unknowns(self, info: PodInfo, view: Fork) -> Iterator[Unknown]:
        """Yield the unknowns of an answer that no object records, such as the scheduler's memory."""


ALWAYS_NEEDED = (Dependency("Node", Effect.EITHER), Dependency("Pod", Effect.EITHER))
"""The dependencies of every answer."""


def find_unknowns(plugins: Iterable[Plugin], info: PodInfo, view: Fork) -> tuple[Unknown, ...]:
    """Return an unknown for each dependency of the pod's answer on a kind of objects that was not read.

    Some kinds affect every answer, and others are read by single plugins. The result is empty if all objects were read.
    """
    objects = view.objects
    if not objects.gaps:
        return ()
    unknowns: list[Unknown] = []

    # Dependencies of every answer.
    for dependency in (*ALWAYS_NEEDED, *_iter_defaulting_dependencies(info.pod, view)):
        gap = objects.find_gap(dependency.kind)
        if gap:
            unknowns.append(Unknown(dependency, gap))

    # Dependencies of single plugins.
    for plugin in plugins:
        if not offers(plugin, DependentPlugin):
            continue
        for dependency in dict.fromkeys(plugin.dependencies(info, view)):
            gap = objects.find_gap(dependency.kind, info.namespace)
            if gap:
                unknowns.append(Unknown(dependency, gap, plugin.name))
    return tuple(dict.fromkeys(unknowns))


def find_plugins_to_skip(unknowns: Iterable[Unknown]) -> frozenset[str]:
    """Return the names of plugins that are not asked because unread objects could make them reject nodes falsely."""
    return frozenset(
        unknown.plugin for unknown in unknowns if unknown.dependency.effect is Effect.REFUSES and unknown.plugin
    )


def _iter_defaulting_dependencies(pod: Pod, view: Fork) -> Iterator[Dependency]:
    """Yield a dependency on each kind from which the API server would fill in missing fields of the pod.

    A pod without a priority depends on PriorityClass. A pod that is not created yet depends on RuntimeClass if its
    class was not read.
    """
    spec = pod.spec
    if pod.metadata.creation_timestamp is None and spec.runtime_class_name is not None:
        runtime_classes = {class_.metadata.name for class_ in view.objects.of("RuntimeClass")}
        if spec.runtime_class_name not in runtime_classes:
            yield Dependency("RuntimeClass", Effect.EITHER)
    if spec.priority is None:
        yield Dependency("PriorityClass", Effect.EITHER if spec.priority_class_name else Effect.VICTIMS)
