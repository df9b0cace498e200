"""What NodeResourceTopologyMatch's cache OverReserve holds, as far as a snapshot tells.

What pods take that were placed since counts against every NUMA node of their node. What was published counts once it
is about the very pods that are on the node, by their fingerprint: a node that refused a pod is looked up again.

Upstream: pkg/noderesourcetopology/cache/{overreserve,store,foreign_pods}.go of kubernetes-sigs/scheduler-plugins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Amounts, Bools, Rows
from kschedctl.api.json_values import JsonObject, object_at, objects_at, text_at
from kschedctl.api.objects import NodeResourceTopology, Pod
from kschedctl.api.pod_table import PodTable
from kschedctl.api.resource_names import CPU, is_native
from kschedctl.cluster import Gap
from kschedctl.scheduler.framework.dependencies import Dependency, Effect, Unknown
from kschedctl.scheduler.scheduler_plugins.effective_requests import container_requests, effective_requests
from kschedctl.scheduler.scheduler_plugins.numa_nodes import KIND, is_affine
from kschedctl.scheduler.scheduler_plugins.pod_fingerprint import fingerprints, in_words, xxh64_of
from kschedctl.scheduler.scheduler_plugins.quality_of_service import QualityOfService, quality_of_service
from kschedctl.scheduler.scheduler_plugins.topology_match_args import (
    AUTODETECT,
    DEDICATED,
    NONE,
    ONLY_EXCLUSIVE,
    NumaCacheArgs,
)
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

FINGERPRINT, METHOD = "nodeTopologyPodsFingerprint", "nodeTopologyPodsFingerprintMethod"
WITH_EXCLUSIVE = "with-exclusive-resources"
LONGEST = 32
"""Characters, more than any fingerprint has."""
PLACEMENT = "topology.node.k8s.io/numaplacement-metadata"
"""Where it is told in which NUMA node each container is; upstream: github.com/k8stopologyawareschedwg/numaplacement."""
FREED = "says in which NUMA nodes containers are, from which it follows what their eviction frees: not replayed"
OLDER = "may be older in the scheduler's cache"
OTHERS = "of {} are not about the pods that are there, and the scheduler's cache was not read"


class PublishedPods(NamedTuple):
    """``differ`` (N,): what was published of the node is not about the pods that are there, or does not say of which;
    ``foreign`` (N,): besides, some of these came from other schedulers, which leaves the node out until it is."""

    differ: Bools
    foreign: Bools


class OverReserve:
    """The cache of the profiles that name a ``plugin``."""

    def __init__(self, plugin: str, settings: NumaCacheArgs) -> None:
        self.plugin, self.settings = plugin, settings

    def doubts(self, view: Fork, decided: Bools, scored: Bools) -> Iterator[Unknown]:
        """What of it follows from no object: older topologies of nodes that refused no pod since, and of those
        that are not published as they are now who knows which.

        ``decided`` and ``scored`` (N,): where what is available decides about a pod, and where its score hangs on it.
        """
        published = self.published(view)
        doubtful, effect = published.foreign | (published.differ & decided), Effect.EITHER
        if not doubtful.any():
            doubtful, effect = published.differ & scored, Effect.SCORES
        if count := int(doubtful.sum()):
            of = "a node" if count == 1 else f"{count:,} nodes"
            yield Unknown(Dependency(KIND, effect), Gap(OTHERS.format(of)), self.plugin)
        elif scored.any():
            yield Unknown(Dependency(KIND, Effect.SCORES), Gap(OLDER), self.plugin)

    def doubts_of_preemption(self, info: PodInfo, view: Fork, decided: Bools) -> Iterator[Unknown]:
        """Whether whoever makes room frees what its containers have of their NUMA node, where that is told."""
        lower = (view.pods.priority[view.pods.info] < info.priority) & (view.node >= 0)
        index = view.nodes.index
        placements = view.objects.index(
            (KIND, PLACEMENT), lambda topologies: _placements(topologies, index), KIND, of=(view.nodes,)
        )
        if info.spec.preemption_policy != "Never" and (placements & decided)[view.node[lower]].any():
            yield Unknown(Dependency(KIND, Effect.ADMITS), Gap(FREED), self.plugin)

    def published(self, view: Fork) -> PublishedPods:
        profiles = _profiles(self.plugin, view.cluster.configuration)
        key = self.plugin, self.settings, profiles
        return view.objects.index(
            key, lambda topologies: self._published(topologies, view, profiles), KIND, of=(view.nodes, view.pods)
        )

    def reserved(self, view: Fork) -> dict[str, Amounts]:
        """Resource -> (N,): what the pods take that were placed since."""
        placed = np.flatnonzero(view.arrivals.came & (view.node >= 0))
        info, amounts = view.pods.info[placed], dict[str, Amounts]()
        for number in np.unique(info).tolist():
            rows = view.node[placed[info == number]]
            for name, amount in effective_requests(view.pods.infos[number].pod).items():
                np.add.at(amounts.setdefault(name, np.zeros(len(view.nodes), np.int64)), rows, amount)
        return amounts

    def _published(
        self, topologies: Iterable[NodeResourceTopology], view: Fork, profiles: frozenset[str]
    ) -> PublishedPods:
        pods, nodes = view.cluster.pods, len(view.nodes)
        published = _Told.of(topologies, view.nodes.index, nodes, self.settings.resync_method)
        place = np.array([view.nodes.index.get(name, -1) for name in pods.node.values], np.int64)[pods.node.codes]
        there = np.flatnonzero((place >= 0) & (published.published[place] != ""))
        row, template = place[there], pods.template[there]
        exclusive = self._exclusive(published, pods.templates)[published.offered[row], template]
        counted = _where(self._is_known, pods)[template] & (exclusive | ~published.only_exclusive[row])
        chosen, seeds = there[counted], xxh64_of([pod.metadata.namespace for pod in pods.templates])
        hashes = xxh64_of(np.array(pods.names, object)[chosen], seeds[pods.template[chosen]])
        now = np.array([in_words(fingerprint) for fingerprint in fingerprints(hashes, row[counted], nodes)], np.str_)
        differ = (published.published != "") & (published.published != now)
        others = _where(lambda pod: self._is_foreign(pod, profiles), pods)[template]
        others &= exclusive | (self.settings.foreign_pods_detect != ONLY_EXCLUSIVE)
        return PublishedPods(differ, differ & (np.bincount(row[others], minlength=nodes) > 0))

    def _exclusive(self, published: _Told, templates: Sequence[Pod]) -> Bools:
        """(S, T): whether pods of a template have something of their own, of each set of resources; where that is not
        asked for none has."""
        asked = published.only_exclusive.any() or self.settings.foreign_pods_detect == ONLY_EXCLUSIVE
        exclusive = np.zeros((len(published.resources), len(templates)), np.bool_)
        for number, names in enumerate(published.resources if asked else ()):
            exclusive[number] = [is_exclusive(template, names) for template in templates]
        return exclusive

    def _is_known(self, pod: Pod) -> bool:
        phase = pod.status.phase
        return phase != "Pending" if self.settings.informer_mode == DEDICATED else phase == "Running"

    def _is_foreign(self, pod: Pod, profiles: frozenset[str]) -> bool:
        return self.settings.foreign_pods_detect != NONE and pod.spec.scheduler_name not in profiles


class _Told(NamedTuple):
    """What the topologies say: ``published`` (N,) is the fingerprint, a blank where there is none, empty for a node
    without a topology; ``only_exclusive`` (N,): it is of the pods that have something of their own, of the resources
    ``offered`` (N,), by their numbers among the sets of names."""

    published: npt.NDArray[np.str_]
    only_exclusive: Bools
    offered: Rows
    resources: tuple[frozenset[str], ...]

    @classmethod
    def of(cls, topologies: Iterable[NodeResourceTopology], index: Mapping[str, int], nodes: int, method: str) -> _Told:
        published, only_exclusive, offered = [""] * nodes, np.zeros(nodes, np.bool_), np.zeros(nodes, np.int64)
        resources: dict[frozenset[str], int] = {frozenset(): 0}
        for topology in topologies:
            row = index.get(topology.metadata.name)
            if row is None:
                continue
            attributes = {attribute.name: attribute.value for attribute in reversed(topology.attributes)}
            published[row] = (attributes.get(FINGERPRINT) or " ")[:LONGEST]
            detected = method == AUTODETECT and attributes.get(METHOD) == WITH_EXCLUSIVE
            only_exclusive[row] = detected or method == ONLY_EXCLUSIVE
            offered[row] = resources.setdefault(_resources(topology), len(resources))
        return cls(np.array(published, np.str_), only_exclusive, offered, tuple(resources))


def _placements(topologies: Iterable[NodeResourceTopology], index: Mapping[str, int]) -> Bools:
    """(N,): whether it is told in which NUMA nodes containers are."""
    placed = np.zeros(len(index), np.bool_)
    for topology in topologies:
        if (row := index.get(topology.metadata.name)) is not None:
            placed[row] = any(attribute.name == PLACEMENT for attribute in topology.attributes)
    return placed


def _where(holds: Callable[[Pod], bool], pods: PodTable) -> Bools:
    """(T,): the templates for which it holds."""
    return np.array([holds(template) for template in pods.templates], np.bool_)


def is_exclusive(pod: Pod, published: frozenset[str]) -> bool:
    """Whether a container that runs on has something of its own: devices that are ``published``, whole cpus, memory."""
    guaranteed = quality_of_service(pod) is QualityOfService.GUARANTEED
    lasting = (*(c for c in pod.spec.init_containers if c.restart_policy == "Always"), *pod.spec.containers)
    return any(
        _is_own(name, amount, guaranteed, published)
        for container in lasting
        for name, amount in container_requests(pod, container).items()
    )


def _is_own(name: str, amount: int, guaranteed: bool, published: frozenset[str]) -> bool:
    if not is_native(name):
        return name in published
    return guaranteed and is_affine(name) and amount > 0 and (name != CPU or amount % 1000 == 0)


def _resources(topology: NodeResourceTopology) -> frozenset[str]:
    return frozenset(resource.name for zone in topology.zones for resource in zone.resources)


def _profiles(plugin: str, configuration: JsonObject | None) -> frozenset[str]:
    """The profiles that name a plugin."""
    profiles = objects_at(configuration, "profiles")
    return frozenset(
        text_at(profile, "schedulerName") or "default-scheduler" for profile in profiles if _names(profile, plugin)
    )


def _names(profile: JsonObject, plugin: str) -> bool:
    points = object_at(profile, "plugins").values()
    return any(text_at(plugin_set, "name") == plugin for point in points for plugin_set in objects_at(point, "enabled"))
