"""The cluster as the descheduler sees it in one round: ready nodes, and the pods on them with their states.

Pods are positions of a fork that does not change during the round. An evicted pod stays on its node until the end of
the round, like a pod that terminates. Where upstream iterates over a Go map, pods come by node, namespace and name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Sequence
from functools import cached_property

import numpy as np

from kschedctl.api.arrays import Bools, Rows
from kschedctl.api.columns import NO_TIME
from kschedctl.api.container_states import NotableContainers
from kschedctl.api.labels import EVERYTHING, Selector, selector_from_api
from kschedctl.api.objects import LabelSelector, Pod
from kschedctl.descheduling.arguments import NamespaceChoice
from kschedctl.scheduler.scheduler_plugins.effective_requests import QualityOfService, compute_qos_class
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

LONG_AGO = -(2**62)
"""The creation time of pods without one, in microseconds."""
QUALITIES = (QualityOfService.BEST_EFFORT, QualityOfService.BURSTABLE, QualityOfService.GUARANTEED)
RUNNING = "Running"


class SeenPods:
    """The pods and nodes of a cluster in one round.

    Arrays have one element per pod (P,), per node (N,), or per PodInfo (T,). Similar pods share a PodInfo.
    """

    def __init__(self, view: Fork, now: int, moved: Bools | None = None, nodes: Selector = EVERYTHING) -> None:
        self.view = view
        self.now = now
        """The time in microseconds since 1970."""
        self.moved = np.zeros(len(view.pods), np.bool_) if moved is None else moved
        """The pods that earlier rounds moved, as a (P,) mask. They count as new."""
        self.evicted = np.zeros(len(view.pods), np.bool_)
        """The pods that this round has evicted, as a (P,) mask."""
        self.other_pods: SeenPods | None = None
        """The cluster's other pods, such as those that have ended, or None if there are none."""
        self.ready = self.find_ready_nodes(nodes)

    def find_ready_nodes(self, selector: Selector = EVERYTHING) -> Bools:
        """Return an (N,) mask of the ready nodes that the selector matches.

        A node without a Ready condition counts as ready.
        """
        nodes = self.view.nodes
        is_selected = nodes.evaluate_per_node(lambda labels, _: selector.matches(labels), selector.keys).astype(
            np.bool_
        )
        return is_selected & self._ready_nodes

    @cached_property
    def _ready_nodes(self) -> Bools:
        """The nodes that are ready or have no Ready condition, as an (N,) mask."""
        ready = []
        for node in self.view.nodes.objects:
            ready_conditions = [condition for condition in node.status.conditions if condition.type == "Ready"]
            ready.append(all(condition.status == "True" for condition in ready_conditions))
        return np.array(ready, np.bool_)

    @cached_property
    def on_ready_nodes(self) -> Bools:
        """The pods on the ready nodes that the policy's node selector selects, as a (P,) mask."""
        rows = self.view.node
        if not len(self.ready):  # without nodes, rows cannot be looked up
            return rows >= 0
        return (rows >= 0) & self.ready[rows]

    @property
    def info(self) -> Rows:
        """The number of each pod's PodInfo, (P,)."""
        return self.view.pods.info.astype(np.int64)

    @property
    def infos(self) -> Sequence[PodInfo]:
        """The distinct PodInfos."""
        return self.view.pods.infos

    def get_info(self, position: int) -> PodInfo:
        """Return the PodInfo of the pod at a position."""
        return self.view.pods.get_info(position)

    def select_infos(self, predicate: Callable[[Pod], bool]) -> Bools:
        """Return a (T,) mask of the PodInfos whose pods satisfy the predicate."""
        return self.view.pods.where(lambda info: predicate(info.pod))

    def measure_containers(self, measure: Callable[[NotableContainers], int]) -> Rows:
        """Apply ``measure`` to each pod's container states, and return the values as an array (P,).

        Pods that earlier rounds moved have new containers, which have not restarted or failed.
        """
        column = self.view.pods.objects.table.columns.containers
        # measured once for all pods with equal container states, which share a code
        value_by_code = np.array([measure(NotableContainers.from_text(text)) for text in column.values], np.int64)
        values = value_by_code[column.codes][self.view.pods.objects.rows]
        return np.where(self.moved, measure(NotableContainers()), values)

    def select_matching_infos(self, namespaces: NamespaceChoice | None, labels: LabelSelector | None) -> Bools:
        """Return a (T,) mask of the PodInfos whose pods are in the chosen namespaces and match the label selector.

        If an argument is None, it excludes nothing.
        """
        selection = namespaces or NamespaceChoice()
        included = frozenset(selection.include) if selection.include else None
        selector = EVERYTHING if labels is None else selector_from_api(labels)
        selected = self.view.pods.match_infos(selector, included)
        if not selection.exclude:
            return selected
        return selected & self.select_infos(lambda pod: pod.metadata.namespace not in selection.exclude)

    def list_positions_by_node(self, chosen: Bools) -> Rows:
        """Return the positions of the pods in the (P,) mask ``chosen``, sorted by node, then in the cluster's order."""
        positions = np.flatnonzero(chosen)
        return positions[np.argsort(self.view.node[positions], kind="stable")]

    def sort_positions_by_priority(self, positions: Rows) -> Rows:
        """Return the positions sorted by priority, lowest first, then by QoS class, then by eviction preference.

        Among pods of the same priority and QoS class, pods that prefer not to be evicted come last.
        """
        info_numbers = self.info[positions]
        keys = (  # np.lexsort sorts by the last key first
            self._infos_preferring_no_eviction[info_numbers],
            self._qos_class[info_numbers],
            self.view.pods.priority[info_numbers],
        )
        return positions[np.lexsort(keys)]

    @cached_property
    def _qos_class(self) -> Rows:
        """The rank of the QoS class of each PodInfo, (T,). BestEffort comes first."""
        return np.array([QUALITIES.index(compute_qos_class(info.pod)) for info in self.infos], np.int64)

    @cached_property
    def _infos_preferring_no_eviction(self) -> Bools:
        """The PodInfos whose pods prefer not to be evicted, as a (T,) mask."""
        return self.select_infos(lambda pod: pod.metadata.annotations.prefers_no_eviction is not None)

    @cached_property
    def created(self) -> Rows:
        """The creation time of each pod in microseconds since 1970, (P,).

        It is the current time for pods that earlier rounds moved. Pods without a creation time count as created long
        ago.
        """
        created = self.view.pods.created
        created_or_long_ago = np.where(created == NO_TIME, LONG_AGO, created)
        return np.where(self.moved, self.now, created_or_long_ago)

    @cached_property
    def sibling_counts(self) -> Rows:
        """The number of pods that have the same owner as the pods of each PodInfo, (T,).

        The pods in `other_pods` also count. The number is the maximum integer for pods that do not have exactly one
        owner.
        """
        counts = self._pods_per_owner
        if self.other_pods is not None:
            counts = counts + self.other_pods._pods_per_owner
        owners = [_get_owner_key(info.pod) for info in self.infos]
        unlimited = np.iinfo(np.int64).max
        return np.array([unlimited if owner is None else counts[owner] for owner in owners], np.int64)

    @cached_property
    def _pods_per_owner(self) -> Counter[Hashable]:
        """The number of each owner's pods, by the owner's key. Terminating pods without a node are not counted."""
        exists = (self.view.node >= 0) | ~self.view.pods.terminating[self.info]
        counts_by_info = np.bincount(self.info[exists], minlength=len(self.infos)).tolist()
        pods_per_owner: Counter[Hashable] = Counter()
        for info, count in zip(self.infos, counts_by_info, strict=True):
            pods_per_owner[_get_owner_key(info.pod)] += count
        return pods_per_owner


def _get_owner_key(pod: Pod) -> Hashable:
    """Return a key of the pod's only owner, or None if the pod has no owner or several owners."""
    owners = pod.metadata.owner_references
    if len(owners) != 1:
        return None
    (owner,) = owners
    return owner.uid or (pod.metadata.namespace, owner.kind, owner.name)


def find_pods_in_states(
    seen: SeenPods,
    states: Collection[str],
    has_state: Callable[[NotableContainers], bool],
    *,
    include_reasons: bool = False,
) -> Bools:
    """Return a (P,) mask of the pods whose phase is among the states or whose containers satisfy ``has_state``.

    With ``include_reasons``, pods whose reason is among the states are included as well. Pods that earlier rounds moved
    count as running.
    """
    has_pod_state = seen.select_infos(
        lambda pod: pod.status.phase in states or (include_reasons and pod.status.reason in states)
    )
    is_in_pod_state = np.where(seen.moved, RUNNING in states, has_pod_state[seen.info])
    return is_in_pod_state | seen.measure_containers(has_state).astype(np.bool_)
