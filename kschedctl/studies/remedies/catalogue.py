"""Which changes might help against what: by plugin, and those that are tried whatever stands in the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from kschedctl.studies.remedies.changes import Fix
from kschedctl.studies.remedies.targets import NodeRefusal, Site
from kschedctl.studies.remedies.trials import PREEMPTS
from kschedctl.studies.remedies.ways import (
    devices,
    extended_resources,
    neighbours,
    new_nodes,
    node_affinity,
    pod_affinity,
    ports,
    quotas,
    requests,
    scheduling,
    selected_pods,
    spread,
    stopped_pods,
    taints,
    volume_limits,
    volumes,
    waiting,
)

Way = Callable[[Site, NodeRefusal], Iterator[Fix]]

LIMITS: Sequence[Way] = (waiting.leaving, volumes.unbound, neighbours.in_the_way, volume_limits.exceeded)
AGAINST: Mapping[str, Sequence[Way]] = {
    "NodeUnschedulable": (taints.cordoned,),
    "TaintToleration": (taints.tainted,),
    "NodeAffinity": (node_affinity.unmet,),
    "NodePorts": (waiting.leaving, ports.free_ports, neighbours.in_the_way),
    "NodeResourcesFit": (waiting.leaving, requests.lower, extended_resources.backed, neighbours.in_the_way),
    "VolumeRestrictions": (
        waiting.leaving,
        volumes.unbound,
        neighbours.in_the_way,
        stopped_pods.holding,
    ),
    "NodeVolumeLimits": LIMITS,
    **dict.fromkeys(("EBSLimits", "GCEPDLimits", "AzureDiskLimits", "CinderLimits"), LIMITS),
    "VolumeBinding": (volumes.unbound,),
    "VolumeZone": (volumes.unbound,),
    "DynamicResources": (
        waiting.leaving,
        devices.unfit,
    ),
    "PodTopologySpread": (spread.skewed, neighbours.in_the_way),
    "CapacityScheduling": (quotas.exceeded,),
    "InterPodAffinity": (waiting.leaving, pod_affinity.terms, selected_pods.label_namespaces, neighbours.in_the_way),
}
"""Plugin -> what could be done about its refusals."""


def against(site: Site) -> Iterator[Fix]:
    """What could be done about the first thing that stands against the site: the rest comes after it.

    About all of it where the pod is to evict others, which may be the ones that stand there first.
    """
    refusals = site.refusals()
    evicts = any(change.kind == PREEMPTS for change in site.trial.changes)
    for refusal in refusals if evicts else refusals[:1]:
        for way in AGAINST.get(refusal.plugin, ()):
            yield from way(site, refusal)


def everywhere(site: Site) -> Iterator[Fix]:
    """What could be done without a look at a node."""
    yield from against(site)
    yield from scheduling.served(site)
    if site.trial.cycle is not None:
        yield from scheduling.more_important(site)
        yield from new_nodes.one_more(site)
