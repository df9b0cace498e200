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


def run_descheduling_round(
    policy: DeschedulerPolicy, evictions: EvictionCounter, ended_evictions: EvictionCounter | None = None
) -> list[DefaultEvictor]:
    """Run the policy's plugins, which request evictions, and return the evictor of each profile.

    Plugins that cannot be replayed are skipped. With fewer than MIN_NODES ready nodes, no plugin runs. If pods that
    have ended may be evicted, ``ended_evictions`` counts their evictions. Raises InputError if a configured
    PriorityClass does not exist.
    """
    rounds = [build_profile_round(profile.evictor, evictions, ended_evictions) for profile in policy.profiles]
    if int(evictions.seen.ready.sum()) >= MIN_NODES:
        for profile_index, run in policy.iter_runs():
            if run.name in PLUGIN_TYPES and not list(run.arguments.iter_unreplayed_arguments()):
                plugin = PLUGIN_TYPES[run.name](run.arguments, rounds[profile_index])
                plugin.run()
    return [profile_round.evictor for profile_round in rounds]


def build_profile_round(
    evictor: DefaultEvictorArgs, evictions: EvictionCounter, ended_evictions: EvictionCounter | None = None
) -> DeschedulingRound:
    """Build the round of one profile from its evictor's arguments.

    With ``ended_evictions``, the round contains a second round for pods that have ended. When either of these rounds
    counts the pods of an owner, it also counts the pods of the other round. For this, the pods of both counters are
    linked to each other. Raises InputError if a configured PriorityClass does not exist.
    """
    pods = evictions.seen
    ended_round = None
    if ended_evictions is not None:
        ended_pods = ended_evictions.seen
        pods.other_pods = ended_pods
        ended_pods.other_pods = pods
        ended_fit = NodeFit(ended_pods, placed=pods)  # pods that have ended occupy no node
        ended_evictor = DefaultEvictor(evictor, ended_pods, ended_fit)
        ended_round = DeschedulingRound(ended_pods, ended_fit, ended_evictor, evictions=ended_evictions)

    fit = NodeFit(pods)
    return DeschedulingRound(pods, fit, DefaultEvictor(evictor, pods, fit), evictions=evictions, ended=ended_round)


def iter_unreplayed_plugins(policy: DeschedulerPolicy, *, containers: bool = True) -> Iterator[str]:
    """Yield descriptions of the plugins and plugin arguments that cannot be replayed.

    If ``containers`` is false, container states are unknown. Arguments that depend on container states then cannot be
    replayed either.
    """
    for _, run in policy.iter_runs():
        plugin = f"the descheduler's plugin {run.name}"
        if run.name not in PLUGIN_TYPES:
            yield plugin
        if not containers and run.arguments.reads_containers:
            yield f"{plugin}, restarts and states of containers, which the snapshot lacks"
        for description in run.arguments.iter_unreplayed_arguments():
            yield f"{plugin}, {description}"
