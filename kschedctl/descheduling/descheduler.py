"""One round of the descheduler, in which all plugins of the policy run in order.

Upstream: runProfiles in pkg/descheduler/descheduler.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kschedctl.descheduling.anti_affinity import RemovePodsViolatingInterPodAntiAffinity
from kschedctl.descheduling.arguments import DefaultEvictorArgs
from kschedctl.descheduling.duplicates import RemoveDuplicates
from kschedctl.descheduling.evictions import EvictionCounter
from kschedctl.descheduling.evictor import DefaultEvictor
from kschedctl.descheduling.lingering_pods import PodLifeTime, RemoveFailedPods, RemovePodsHavingTooManyRestarts
from kschedctl.descheduling.node_fit import NodeFit
from kschedctl.descheduling.plugin import AnyDeschedulerPlugin, DeschedulingRound
from kschedctl.descheduling.policy import DeschedulerPolicy
from kschedctl.descheduling.topology_spread import RemovePodsViolatingTopologySpreadConstraint
from kschedctl.descheduling.utilization import HighNodeUtilization, LowNodeUtilization
from kschedctl.descheduling.wrong_nodes import RemovePodsViolatingNodeAffinity, RemovePodsViolatingNodeTaints

PLUGIN_TYPES: Mapping[str, type[AnyDeschedulerPlugin]] = {
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
MIN_NODES = 2
"""With fewer ready nodes, no plugin runs."""


def run_round(
    policy: DeschedulerPolicy, evictions: EvictionCounter, ended_evictions: EvictionCounter | None = None
) -> list[DefaultEvictor]:
    """Run all plugins of the policy, and return the evictor of each profile. Raises InputError.

    ``ended_evictions`` counts the evictions of pods that have ended.
    """
    seen = evictions.seen
    rounds = [build_round(profile.evictor, evictions, ended_evictions) for profile in policy.profiles]
    for profile_index, run in policy.iter_runs() if int(seen.ready.sum()) >= MIN_NODES else ():
        if run.name in PLUGIN_TYPES and not list(run.arguments.iter_unreplayed()):
            PLUGIN_TYPES[run.name](run.arguments, rounds[profile_index]).run()
    return [profile_round.evictor for profile_round in rounds]


def build_round(
    evictor: DefaultEvictorArgs, evictions: EvictionCounter, ended_evictions: EvictionCounter | None = None
) -> DeschedulingRound:
    """Build the round of one profile from its evictor's arguments. Raises InputError."""
    seen = evictions.seen
    fit = NodeFit(seen)
    ended = None
    if ended_evictions is not None:
        seen.other_pods, ended_evictions.seen.other_pods = ended_evictions.seen, seen
        ended_fit = NodeFit(ended_evictions.seen, seen)
        ended_evictor = DefaultEvictor(evictor, ended_evictions.seen, ended_fit)
        ended = DeschedulingRound(ended_evictions.seen, ended_fit, ended_evictor, ended_evictions)
    return DeschedulingRound(seen, fit, DefaultEvictor(evictor, seen, fit), evictions, ended)


def iter_unreplayed(policy: DeschedulerPolicy, *, containers: bool = True) -> Iterator[str]:
    """Yield descriptions of the parts of a policy that cannot be replayed.

    ``containers`` is whether container states are known.
    """
    for _, run in policy.iter_runs():
        if run.name not in PLUGIN_TYPES:
            yield f"the descheduler's plugin {run.name}"
        if not containers and run.arguments.reads_containers:
            yield f"the descheduler's plugin {run.name}, restarts and states of containers, which the snapshot lacks"
        yield from (f"the descheduler's plugin {run.name}, {part}" for part in run.arguments.iter_unreplayed())
