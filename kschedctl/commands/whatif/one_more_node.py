"""Scenarios with additional nodes, offered only if a replay shows that they help."""

from __future__ import annotations

from collections.abc import Sequence

from kschedctl.api.json_values import JsonObject
from kschedctl.api.node_pools import find_pool
from kschedctl.api.workloads import recreate_pod
from kschedctl.cluster import Cluster
from kschedctl.commands.whatif import whatif
from kschedctl.commands.whatif.report import WhatIf
from kschedctl.errors import KschedctlError
from kschedctl.replay.edits import change_pods
from kschedctl.replay.scenarios.scenario import read_no_files
from kschedctl.replay.scenarios.steps_on_nodes import add_nodes
from kschedctl.reports.placements import UnplacedPods
from kschedctl.reports.scenario import AddNodes
from kschedctl.scheduler.engine.sampling import SearchOptions
from kschedctl.scheduler.scheduler import Scheduler

MOST_MODELS, MOST_ASKED = 2, 20
"""So many kinds of nodes are tried, and so many pods that are not alike are asked whether they would go there."""
NEW = "one-more"
MAX_TRIES = 3
"""Each try costs about as much as the original question."""


def find_sufficient_nodes(
    cluster: Cluster,
    step: JsonObject,
    taken: Sequence[str],
    unplaced: Sequence[UnplacedPods],
    options: SearchOptions,
    *,
    gone: bool,
) -> JsonObject | None:
    """Return the scenario with the fewest additional nodes tried with which the step leaves no pod without a node.

    ``taken`` are the nodes that the step removes. New nodes are like a node of the same pool, a different one if the
    removed nodes are ``gone``. ``unplaced`` are the pods that the step leaves without a node. Return None if nothing
    tried helps, the answer depends on unread kinds, or the user interrupts.
    """
    try:
        models = [like for like in _choose_models(cluster, taken, gone) if _accepts_all(cluster, like, unplaced)]
        counts = dict.fromkeys((1, len(taken), len(taken) + 1))
        for count, like in [(count, like) for count in counts for like in models][:MAX_TRIES]:
            scenario = {"steps": [{"addNodes": {"like": like, "count": count}}, step]}
            report = whatif(
                cluster,
                scenario,
                seed=options["seed"],
                sampling=options["sampling"],
                call_extender=options["call_extender"],
            )
            if report.interrupted or report.undecided:
                return None
            if leaves_no_pod_pending(report):
                return scenario
    except (KschedctlError, KeyboardInterrupt):
        return None
    return None


def leaves_no_pod_pending(report: WhatIf) -> bool:
    """Return whether all pods are created and none is newly pending."""
    most = report.over_runs.get("NewlyPending")
    return not (report.not_created or (most and most.most)) and all(
        change.change != "NewlyPending" for change in report.changes
    )


def _choose_models(cluster: Cluster, taken: Sequence[str], gone: bool) -> list[str]:
    """Return a node that takes pods from each pool that loses nodes, from at most two pools."""
    names = frozenset(taken)
    models: dict[str, str] = {}
    lost = {find_pool(node) for node in cluster.nodes if node.metadata.name in names}
    for node in cluster.nodes:
        if find_pool(node) in lost and not node.spec.unschedulable and not (gone and node.metadata.name in names):
            models.setdefault(find_pool(node), node.metadata.name)
    return list(models.values())[:MOST_MODELS]


def _accepts_all(cluster: Cluster, like: str, unplaced: Sequence[UnplacedPods]) -> bool:
    """Return whether an empty node like this one would take a pod of each group, judged without a replay."""
    edit = add_nodes(AddNodes(like=like, name=NEW), cluster, read_no_files)
    refused = [cluster.pod(*group.pods[0].split("/", 1)) for group in unplaced[:MOST_ASKED]]
    pods = [recreate_pod(pod) for pod in refused if pod is not None]
    scheduler = Scheduler(
        change_pods(edit.resulting_cluster, {(p.metadata.namespace, p.metadata.name): p for p in pods})
    )
    row = scheduler.view.nodes.index[f"{NEW}-0"]
    for pod in map(scheduler.view.stored, pods):
        framework = scheduler.framework(pod.spec.scheduler_name)
        cycle = scheduler.cycle(framework, pod) if framework else None
        if cycle is None or cycle.error is not None or not (cycle.considered[row] and cycle.filter.passing[row]):
            return False
    return True
