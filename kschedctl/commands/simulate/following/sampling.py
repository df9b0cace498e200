"""Which nodes the scheduler looks at for one pod after the other, from an index on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kschedctl.cluster import Cluster
from kschedctl.commands.explain.one_pod import find_pod
from kschedctl.commands.simulate.following_report import SampledPod, SamplingReport
from kschedctl.errors import UsageError
from kschedctl.replay.controllers.workload_pods import is_pending
from kschedctl.replay.shared_cluster import build_cluster_basis
from kschedctl.replay.unknown import IN_SIMULATIONS, find_unread_dependencies, summarize_unknowns
from kschedctl.scheduler.engine.cycle import Cycle, run_cycle
from kschedctl.scheduler.engine.pre_filter import select_allowed_nodes
from kschedctl.scheduler.engine.sampling import SampledFrom, Sampling, SearchTerms
from kschedctl.scheduler.framework.dependencies import Unknown
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.snapshot.pod_info import PodInfo


def sampling(cluster: Cluster, pods: Sequence[str], *, start: int = 0) -> SamplingReport:
    """Try the pods (``namespace/name``) of the cluster, nothing assumed between them, on a part of the nodes each.

    ``start``: the index, in the scheduler's order of nodes, at which its first search begins; percentageOfNodesToScore
    is that of the cluster's configuration. Raises UsageError for pods that are not there, ConfigurationError.

    >>> sampling(Cluster.from_objects([]), []).node_order
    ()
    """
    scheduler = Scheduler(cluster)
    view = scheduler.view
    check_start(start)
    searches = SampledFrom(start).start_sampling(scheduler.configuration, len(view.nodes))
    unknown: dict[Unknown, None] = dict.fromkeys(find_unread_dependencies(cluster))
    steps = [_step(scheduler, pod, searches, unknown) for pod in pods]
    basis = build_cluster_basis(summarize_unknowns(unknown, IN_SIMULATIONS), scheduler)
    nodes = tuple(view.nodes.names)
    return SamplingReport(nodes, tuple(steps), basis["not_replayed"], basis["unknown"], basis["undecided"])


def check_start(start: int) -> None:
    """Raises UsageError."""
    if start < 0:
        raise UsageError(f"start index {start}: 0 or more")


def _step(scheduler: Scheduler, name: str, searches: Sampling, unknown: dict[Unknown, None]) -> SampledPod:
    pod = find_pod(scheduler, name)
    info = PodInfo(pod, scheduler.view.settings.requests)
    framework, unknowns = scheduler.framework_for(info, scheduler.view)
    unknown.update(dict.fromkeys(unknowns))
    start = searches.start
    if framework is None:
        why = f'no profile serves scheduler name "{pod.spec.scheduler_name}"'
        return SampledPod(name, start, 0, 0, 0, start, unscheduled=why)
    if not is_pending(pod):
        why = "it is being deleted" if pod.metadata.deletion_timestamp else "it does not wait for a node"
        return SampledPod(name, start, 0, 0, 0, start, unscheduled=why)
    cycle = run_cycle(framework, info, scheduler.view, searches)
    if cycle.gated:
        searches.start = start  # it is not tried at all
        refusals = (reason for status in cycle.queue.values() for reason in status.reasons)
        return SampledPod(name, start, 0, 0, 0, start, unscheduled=", ".join(refusals))
    return _sampled(name, cycle, searches, start)


def _sampled(name: str, cycle: Cycle, searches: Sampling, start: int) -> SampledPod:
    names = cycle.view.nodes.names
    search = cycle.search
    feasible = cycle.feasible.tolist() if search is None else search.feasible.tolist()
    rejected = [] if search is None else np.flatnonzero(search.examined & ~cycle.filter.passing).tolist()
    if cycle.pre_filter.status.rejected or (cycle.error and not cycle.considered.any()):
        offered = 0
    else:
        offered = int(select_allowed_nodes(cycle.pre_filter, cycle.view).sum())
    terms = SearchTerms.from_profile(cycle.framework.profile, cycle.framework.release)
    return SampledPod(
        pod=name,
        start=start,
        searched=offered,
        num_to_find=searches.count_needed_for_scoring(offered, terms),
        processed=len(feasible) + len(rejected),
        next=searches.start,
        feasible=tuple(names[row] for row in feasible),
        rejected=tuple(names[row] for row in rejected),
        total={
            names[row]: total
            for row, total in zip(cycle.scores.rows.tolist(), cycle.scores.total.tolist(), strict=True)
        },
        best=tuple(names[row] for row in cycle.scores.best.tolist()),
        unscheduled=cycle.error or "",
    )
