"""What an answer about a pod leans on that was not read: unknown is not absent.

A plugin with ``dependencies`` names the kinds whose missing objects could change what it says of a pod. Those that the
cluster covers are harmless: what is not there does not exist. The others make the answer conditional, and a plugin that
could only invent refusals is not asked at all.
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
    """What objects that nobody read could do: only refuse nodes, only make some fit, either, or only order them.

    NARROWS: only refuse nodes that nothing else refuses, as extenders do: of a pod that fits none they are not asked.
    REFUSES_MORE: only refuse more than is refused without them: the plugin can be asked all the same.
    ORDER: only have another of several pods tried first.
    """

    REFUSES = "refuses"
    NARROWS = "narrows"
    REFUSES_MORE = "refuses more"
    ADMITS = "admits"
    EITHER = "either"
    SCORES = "scores"
    VICTIMS = "victims"
    ORDER = "order"


class Dependency(NamedTuple):
    """A kind, and what its objects could do to the answer."""

    kind: str
    effect: Effect


class Unknown(NamedTuple):
    """A lean on a kind that is not covered, of a plugin or, where that is empty, of the whole answer."""

    dependency: Dependency
    gap: Gap
    plugin: str = ""


@runtime_checkable
class DependentPlugin(Plugin, Protocol):
    def dependencies(self, info: PodInfo, view: Fork) -> Iterator[Dependency]:
        """The kinds whose missing objects could change what the plugin says of the pod.

        With Effect.REFUSES the plugin cannot be asked without them.
        """


@runtime_checkable
class DoubtfulPlugin(Plugin, Protocol):
    def doubts(self, info: PodInfo, view: Fork) -> Iterator[Unknown]:
        """What its answer about the pod leans on that no object tells, as what the scheduler remembers."""


EVERYTHING = (Dependency("Node", Effect.EITHER), Dependency("Pod", Effect.EITHER))
"""What every answer leans on."""


def unknowns(plugins: Iterable[Plugin], info: PodInfo, view: Fork) -> tuple[Unknown, ...]:
    """What the answer about a pod leans on that the cluster does not cover."""
    objects = view.objects
    if not objects.gaps:
        return ()
    always = (*EVERYTHING, *_of_manifest(info.pod, view))
    unread = [Unknown(dependency, gap) for dependency in always if (gap := objects.gap(dependency.kind))]
    for plugin in plugins:
        if offers(plugin, DependentPlugin):
            dependencies = dict.fromkeys(plugin.dependencies(info, view))
            gaps = ((dependency, objects.gap(dependency.kind, info.namespace)) for dependency in dependencies)
            unread += [Unknown(dependency, gap, plugin.name) for dependency, gap in gaps if gap]
    return tuple(dict.fromkeys(unread))


def not_asked(unread: Iterable[Unknown]) -> frozenset[str]:
    """The plugins that would refuse nodes for what may well exist."""
    return frozenset(
        unknown.plugin for unknown in unread if unknown.dependency.effect is Effect.REFUSES and unknown.plugin
    )


def _of_manifest(pod: Pod, view: Fork) -> Iterator[Dependency]:
    """What the API server would have added to a pod that was not created yet."""
    spec = pod.spec
    known = {class_.metadata.name for class_ in view.objects.of("RuntimeClass")}
    if pod.metadata.creation_timestamp is None and spec.runtime_class_name not in (None, *known):
        yield Dependency("RuntimeClass", Effect.EITHER)
    if spec.priority is None:
        yield Dependency("PriorityClass", Effect.EITHER if spec.priority_class_name else Effect.VICTIMS)
