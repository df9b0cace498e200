"""What NodeResourceTopologyMatch's cache OverReserve holds, as far as a snapshot tells.

What pods take that were placed since counts against every NUMA node of their node. What was published counts once it
is about the very pods that are on the node, by their fingerprint: a node that refused a pod is looked up again.

Upstream: pkg/noderesourcetopology/cache/{overreserve,store,foreign_pods}.go of kubernetes-sigs/scheduler-plugins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from kschedctl.api.arrays import Amounts, Bools
from kschedctl.api.objects import NodeResourceTopology, Pod
from kschedctl.api.resource_names import CPU, is_native
from kschedctl.cluster import Gap
from kschedctl.scheduler.leaning import Effect, Lean, Unknown
from kschedctl.scheduler.scheduler_plugins.effective_requests import container_requests, effective_requests
from kschedctl.scheduler.scheduler_plugins.numa_nodes import KIND, is_affine
from kschedctl.scheduler.scheduler_plugins.pod_fingerprint import fingerprint
from kschedctl.scheduler.scheduler_plugins.quality_of_service import QualityOfService, quality_of_service
from kschedctl.scheduler.scheduler_plugins.topology_match_args import (
    AUTODETECT,
    DEDICATED,
    NONE,
    ONLY_EXCLUSIVE,
    NumaCacheArgs,
)
from kschedctl.snapshot.fork import Fork

FINGERPRINT, METHOD = "nodeTopologyPodsFingerprint", "nodeTopologyPodsFingerprintMethod"
WITH_EXCLUSIVE = "with-exclusive-resources"
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

    def doubts(self, view: Fork) -> Unknown:
        """That what it holds follows from no object: older topologies of nodes that refused no pod since, and of those
        that are not published as they are now who knows which."""
        differ = int(self.published(view).differ.sum())
        if not differ:
            return Unknown(Lean(KIND, Effect.SCORES), Gap(OLDER), self.plugin)
        of = "a node" if differ == 1 else f"{differ:,} nodes"
        return Unknown(Lean(KIND, Effect.EITHER), Gap(OTHERS.format(of)), self.plugin)

    def published(self, view: Fork) -> PublishedPods:
        profiles = _profiles(self.plugin, view.cluster.configuration)
        key = self.plugin, self.settings, profiles
        return view.objects.index(
            key, lambda found: self._published(found, view, profiles), KIND, of=(view.nodes, view.pods)
        )

    def reserved(self, view: Fork) -> dict[str, Amounts]:
        """Resource -> (N,): what the pods take that were placed since."""
        placed = np.flatnonzero(view.arrivals.came & (view.node >= 0))
        info, found = view.pods.info[placed], dict[str, Amounts]()
        for number in np.unique(info).tolist():
            rows = view.node[placed[info == number]]
            for name, amount in effective_requests(view.pods.infos[number].pod).items():
                np.add.at(found.setdefault(name, np.zeros(len(view.nodes), np.int64)), rows, amount)
        return found

    def _published(
        self, topologies: Iterable[NodeResourceTopology], view: Fork, profiles: frozenset[str]
    ) -> PublishedPods:
        differ, foreign = np.zeros(len(view.nodes), np.bool_), np.zeros(len(view.nodes), np.bool_)
        there: dict[str, list[Pod]] = {}
        for pod in view.cluster.pods:
            there.setdefault(pod.spec.node_name, []).append(pod)
        for topology in topologies:
            row = view.nodes.index.get(topology.metadata.name)
            if row is None:
                continue
            pods = there.get(topology.metadata.name, [])
            differ[row] = not self._is_about(topology, pods)
            foreign[row] = differ[row] and any(self._is_foreign(pod, topology, profiles) for pod in pods)
        return PublishedPods(differ, foreign)

    def _is_about(self, topology: NodeResourceTopology, pods: Sequence[Pod]) -> bool:
        attributes = {attribute.name: attribute.value for attribute in reversed(topology.attributes)}
        detected = self.settings.resync_method == AUTODETECT and attributes.get(METHOD) == WITH_EXCLUSIVE
        counted = [pod for pod in pods if self._is_known(pod)]
        if detected or self.settings.resync_method == ONLY_EXCLUSIVE:
            names = _resources(topology)
            counted = [pod for pod in counted if is_exclusive(pod, names)]
        return fingerprint((p.metadata.namespace, p.metadata.name) for p in counted) == attributes.get(FINGERPRINT)

    def _is_known(self, pod: Pod) -> bool:
        phase = pod.status.phase
        return phase != "Pending" if self.settings.informer_mode == DEDICATED else phase == "Running"

    def _is_foreign(self, pod: Pod, topology: NodeResourceTopology, profiles: frozenset[str]) -> bool:
        mode = self.settings.foreign_pods_detect
        if mode == NONE or pod.spec.scheduler_name in profiles:
            return False
        return mode != ONLY_EXCLUSIVE or is_exclusive(pod, _resources(topology))


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


def _profiles(plugin: str, configuration: Mapping[str, Any] | None) -> frozenset[str]:
    """The profiles that name a plugin."""
    profiles = (configuration or {}).get("profiles") or ()
    return frozenset(each.get("schedulerName") or "default-scheduler" for each in profiles if _names(each, plugin))


def _names(profile: Mapping[str, Any], plugin: str) -> bool:
    points = (profile.get("plugins") or {}).values()
    enabled = (each for point in points if isinstance(point, Mapping) for each in point.get("enabled") or ())
    return any(each.get("name") == plugin for each in enabled)
