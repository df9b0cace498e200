"""A cluster as the descheduler sees it in one round: nodes that are ready, and pods on them.

Pods are positions of a fork that does not change during the round. An evicted pod stays on its node until the round is
over, as one that terminates. Where upstream's order is that of a Go map, pods come by node, namespace and name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cached_property

import numpy as np

from kschedctl.api.arrays import Bools, Position, Rows
from kschedctl.api.columns import NO_TIME
from kschedctl.api.container_states import NotableContainers
from kschedctl.api.labels import EVERYTHING, Selector, selector_from_api
from kschedctl.api.objects import LabelSelector, Pod
from kschedctl.descheduling.arguments import ChosenNamespaces
from kschedctl.scheduler.scheduler_plugins.quality_of_service import QualityOfService, quality_of_service
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

LONG_AGO = -(2**62)
QUALITIES = (QualityOfService.BEST_EFFORT, QualityOfService.BURSTABLE, QualityOfService.GUARANTEED)


class SeenPods:
    """``view``: the cluster; ``now``: the time, in microseconds since 1970; ``came`` (P,): pods that rounds before this
    one have moved, which are as young as can be; ``evicted`` (P,): those that this round has evicted; ``others``: the
    rest of the cluster's pods, as those that have ended.
    """

    def __init__(self, view: Fork, now: int, came: Bools | None = None, nodes: Selector = EVERYTHING) -> None:
        self.view, self.now = view, now
        self.came = np.zeros(len(view.pods), np.bool_) if came is None else came
        self.evicted = np.zeros(len(view.pods), np.bool_)
        self.others: SeenPods | None = None
        self.ready = self.ready_nodes(nodes)

    def ready_nodes(self, selector: Selector = EVERYTHING) -> Bools:
        """(N,): the nodes of these labels that are ready, or do not say that they are not."""
        nodes = self.view.nodes
        chosen = nodes.evaluate(lambda labels, _: selector.matches(labels), selector.keys).astype(np.bool_)
        return chosen & self._are_ready

    @cached_property
    def _are_ready(self) -> Bools:
        conditions = (node.status.conditions for node in self.view.nodes.objects)
        ready = [all(c.status == "True" for c in several if c.type == "Ready") for several in conditions]
        return np.array(ready, np.bool_)

    @cached_property
    def on_ready(self) -> Bools:
        """(P,): the pods on nodes that plugins look at."""
        node = self.view.node
        return (node >= 0) & self.ready[node] if len(self.ready) else node >= 0

    @property
    def info(self) -> Rows:
        """(P,): the number of each pod's info."""
        return self.view.pods.info.astype(np.int64)

    @property
    def infos(self) -> Sequence[PodInfo]:
        return self.view.pods.infos

    def where(self, predicate: Callable[[Pod], bool]) -> Bools:
        """(T,): the infos of pods for which it holds."""
        return self.view.pods.where(lambda info: predicate(info.pod))

    def by_containers(self, measure: Callable[[NotableContainers], int]) -> Rows:
        """(P,): a measure of what the containers of each pod tell; those of pods that came by an eviction are new."""
        column = self.view.pods.objects.table.columns.containers
        values = np.array([measure(NotableContainers.from_text(text)) for text in column.values], np.int64)
        return np.where(self.came, measure(NotableContainers()), values[column.codes][self.view.pods.objects.rows])

    def chosen(self, namespaces: ChosenNamespaces | None, labels: LabelSelector | None) -> Bools:
        """(T,): the infos of pods in these namespaces with such labels."""
        said = namespaces or ChosenNamespaces()
        scope = frozenset(said.include) if said.include else None
        selector = EVERYTHING if labels is None else selector_from_api(labels)
        selected = self.view.pods.matching(selector, scope)
        if not said.exclude:
            return selected
        return selected & self.where(lambda pod: pod.metadata.namespace not in said.exclude)

    def by_node(self, chosen: Bools) -> Rows:
        """The positions of the pods chosen (P,), by node and then in the order of the cluster."""
        positions = np.flatnonzero(chosen)
        return positions[np.argsort(self.view.node[positions], kind="stable")]

    def by_priority(self, positions: Rows) -> Rows:
        """Those of low priority first; of one priority by class of quality of service, who asks to stay at the end."""
        numbers = self.info[positions]
        keys = (self._unwilling[numbers], self._quality[numbers], self.view.pods.priority[numbers])
        return positions[np.lexsort(keys)]

    @cached_property
    def _quality(self) -> Rows:
        return np.array([QUALITIES.index(quality_of_service(info.pod)) for info in self.infos], np.int64)

    @cached_property
    def _unwilling(self) -> Bools:
        return self.where(lambda pod: pod.metadata.annotations.prefers_no_eviction is not None)

    @cached_property
    def created(self) -> Rows:
        """(P,): when each pod was created, in microseconds since 1970; as upstream long ago where none is told.

        Raises InputError.
        """
        created = self.view.pods.created
        return np.where(self.came, self.now, np.where(created == NO_TIME, LONG_AGO, created))

    @cached_property
    def siblings(self) -> Rows:
        """(T,): how many pods the one owner of an info's pods has; as many as can be for those of no or many owners."""
        counts = self._counts + (self.others._counts if self.others else Counter())
        owners = [_owner(info.pod) for info in self.infos]
        return np.array([np.iinfo(np.int64).max if owner is None else counts[owner] for owner in owners], np.int64)

    @cached_property
    def _counts(self) -> Counter[Hashable]:
        """How many pods each owner has, but for those that are being deleted and have no node."""
        there = (self.view.node >= 0) | ~self.view.pods.terminating[self.info]
        numbers, counts = np.bincount(self.info[there], minlength=len(self.infos)).tolist(), Counter[Hashable]()
        for info, number in zip(self.infos, numbers, strict=True):
            counts[_owner(info.pod)] += number
        return counts


def _owner(pod: Pod) -> Hashable:
    """What tells the one owner of a pod from others; None for none, or several."""
    owners = pod.metadata.owner_references
    if len(owners) != 1:
        return None
    return owners[0].uid or (pod.metadata.namespace, owners[0].kind, owners[0].name)


def listed(positions: Iterable[int]) -> list[Position]:
    return [Position(position) for position in positions]
