"""One round of the descheduler: every plugin of the policy in its order.

Upstream: runProfiles in pkg/descheduler/descheduler.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kschedctl.descheduling.anti_affinity import RemovePodsViolatingInterPodAntiAffinity
from kschedctl.descheduling.arguments import DefaultEvictorArgs
from kschedctl.descheduling.duplicates import RemoveDuplicates
from kschedctl.descheduling.evictions import EvictionCounter
from kschedctl.descheduling.evictor import DefaultEvictor
from kschedctl.descheduling.failed_pods import RemoveFailedPods
from kschedctl.descheduling.life_time import PodLifeTime
from kschedctl.descheduling.node_fit import NodeFit
from kschedctl.descheduling.plugin import AnyDeschedulerPlugin, DeschedulingRound
from kschedctl.descheduling.policy import DeschedulerPolicy
from kschedctl.descheduling.restarts import RemovePodsHavingTooManyRestarts
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
        RemoveFailedPods,
        RemovePodsHavingTooManyRestarts,
        RemovePodsViolatingInterPodAntiAffinity,
        RemovePodsViolatingNodeAffinity,
        RemovePodsViolatingNodeTaints,
        RemovePodsViolatingTopologySpreadConstraint,
    )
}
LEAST_NODES = 2
"""With fewer there is no round."""


def run_round(
    policy: DeschedulerPolicy, evictions: EvictionCounter, of_ended: EvictionCounter | None = None
) -> list[DefaultEvictor]:
    """Evict what the plugins want evicted; what may be evicted at all, by profile. Raises InputError.

    ``of_ended``: those of pods that have ended.
    """
    seen = evictions.seen
    rounds = [one_round(profile.evictor, evictions, of_ended) for profile in policy.profiles]
    for number, run in policy.runs() if int(seen.ready.sum()) >= LEAST_NODES else ():
        if run.name in REPLAYED and not list(run.arguments.not_replayed()):
            REPLAYED[run.name](run.arguments, rounds[number]).run()
    return [made.evictor for made in rounds]


def one_round(
    evictor: DefaultEvictorArgs, evictions: EvictionCounter, of_ended: EvictionCounter | None = None
) -> DeschedulingRound:
    """A round as one profile sees it. Raises InputError."""
    seen = evictions.seen
    fit, ended = NodeFit(seen), None
    if of_ended is not None:
        seen.others, of_ended.seen.others = of_ended.seen, seen
        fit_of_ended = NodeFit(of_ended.seen, seen)
        kept = DefaultEvictor(evictor, of_ended.seen, fit_of_ended)
        ended = DeschedulingRound(of_ended.seen, fit_of_ended, kept, of_ended)
    return DeschedulingRound(seen, fit, DefaultEvictor(evictor, seen, fit), evictions, ended)


def not_replayed(policy: DeschedulerPolicy, *, containers: bool = True) -> Iterator[str]:
    """What of a policy no round replays. ``containers``: whether it is known what they have been through."""
    for _, run in policy.runs():
        if run.name not in REPLAYED:
            yield f"the descheduler's plugin {run.name}"
        if not containers and run.arguments.reads_containers:
            yield f"the descheduler's plugin {run.name}, restarts and states of containers, which the snapshot lacks"
        yield from (f"the descheduler's plugin {run.name}, {what}" for what in run.arguments.not_replayed())
