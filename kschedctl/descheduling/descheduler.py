"""One round of the descheduler: every plugin of the policy in its order.

Upstream: runProfiles in pkg/descheduler/descheduler.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kschedctl.descheduling.anti_affinity import RemovePodsViolatingInterPodAntiAffinity
from kschedctl.descheduling.duplicates import RemoveDuplicates
from kschedctl.descheduling.evictions import EvictionCounter
from kschedctl.descheduling.evictor import DefaultEvictor
from kschedctl.descheduling.life_time import PodLifeTime
from kschedctl.descheduling.node_fit import NodeFit
from kschedctl.descheduling.plugin import AnyDeschedulerPlugin, DeschedulingRound
from kschedctl.descheduling.policy import DeschedulerPolicy
from kschedctl.descheduling.restarts import RemovePodsHavingTooManyRestarts
from kschedctl.descheduling.seen_pods import SeenPods
from kschedctl.descheduling.topology_spread import RemovePodsViolatingTopologySpreadConstraint
from kschedctl.descheduling.utilization import HighNodeUtilization, LowNodeUtilization
from kschedctl.descheduling.wrong_nodes import RemovePodsViolatingNodeAffinity, RemovePodsViolatingNodeTaints

REPLAYED: Mapping[str, type[AnyDeschedulerPlugin]] = {
    plugin.name: plugin
    for plugin in (
        HighNodeUtilization,
        LowNodeUtilization,
        PodLifeTime,
        RemoveDuplicates,
        RemovePodsHavingTooManyRestarts,
        RemovePodsViolatingInterPodAntiAffinity,
        RemovePodsViolatingNodeAffinity,
        RemovePodsViolatingNodeTaints,
        RemovePodsViolatingTopologySpreadConstraint,
    )
}
LEAST_NODES = 2
"""With fewer there is no round."""


def run_round(policy: DeschedulerPolicy, seen: SeenPods, evictions: EvictionCounter) -> list[DefaultEvictor]:
    """Evict what the plugins want evicted; what may be evicted at all, by profile. Raises InputError."""
    fit = NodeFit(seen)
    evictors = [DefaultEvictor(profile.evictor, seen, fit) for profile in policy.profiles]
    for number, run in policy.runs() if int(seen.ready.sum()) >= LEAST_NODES else ():
        if run.name in REPLAYED and not list(run.arguments.not_replayed()):
            REPLAYED[run.name](run.arguments, DeschedulingRound(seen, fit, evictors[number], evictions)).run()
    return evictors


def not_replayed(policy: DeschedulerPolicy, *, containers: bool = True) -> Iterator[str]:
    """What of a policy no round replays. ``containers``: whether it is known what they have been through."""
    for _, run in policy.runs():
        if run.name not in REPLAYED:
            yield f"the descheduler's plugin {run.name}"
        if not containers and run.arguments.reads_containers:
            yield f"the descheduler's plugin {run.name}, restarts and states of containers, which the snapshot lacks"
        yield from (f"the descheduler's plugin {run.name}, {what}" for what in run.arguments.not_replayed())
