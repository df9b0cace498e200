"""Find how many additional nodes a step needs so that no pod stays pending, verified by replay."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from itertools import islice, product

from kschedctl.api.json_values import JsonObject
from kschedctl.api.node_pools import find_node_pool_name
from kschedctl.api.workloads import recreate_pod
from kschedctl.cluster import Cluster
from kschedctl.commands.whatif import whatif
from kschedctl.commands.whatif.report import BLOCKED, LOST, WhatIf
from kschedctl.errors import KschedctlError
from kschedctl.replay.edits import change_pods, get_zone
from kschedctl.replay.scenarios import reject_file
from kschedctl.replay.scenarios.steps import add_nodes
from kschedctl.reports.placements import UnplacedPods
from kschedctl.reports.scenario import AddNodes
from kschedctl.scheduler.engine.sampling import SearchOptions
from kschedctl.scheduler.scheduler import Scheduler

MAX_MODELS = 2
"""The maximum number of nodes of which copies are tried."""
MAX_CHECKED_MODELS = 6
"""The maximum number of nodes that are checked before a replay."""
MAX_CHECKED_GROUPS = 20
"""The maximum number of groups of pods that are checked before a replay."""
NEW = "one-more"
"""The prefix of the names of new nodes."""
MAX_TRIES = 3
"""The maximum number of replays, each of which costs about as much as the original question."""


def find_sufficient_nodes(
    cluster: Cluster,
    step: JsonObject,
    taken_nodes: Sequence[str],
    unplaced: Sequence[UnplacedPods],
    options: SearchOptions,
    *,
    deletes_nodes: bool,
    lost_anyway: Collection[str],
) -> JsonObject | None:
    """Find how many new nodes the step needs to leave no pod pending, and return a scenario that adds them first.

    In this scenario, no pod may be lost for good except the pods in `lost_anyway`. Otherwise, displaced pods would only
    take the new room from pods without a controller.

    New nodes are modelled on nodes of the pools and zones that lose nodes, then on nodes of these pools in other zones.
    Small numbers of nodes are tried first. If a number is enough, numbers between it and the last insufficient number
    are tried by bisection. Return None if nothing helps within MAX_TRIES attempts, or if the answer depends on unread
    kinds. Errors and interruptions also lead to None.

    Arguments:
        cluster: the cluster before the step.
        step: the step, which takes nodes away.
        taken_nodes: the names of the nodes that the step takes away.
        unplaced: the pods that the step leaves without a node.
        options: options for the replay.
        lost_anyway: the pods that are lost for good if the step is taken without new nodes.
        deletes_nodes: whether the step deletes the nodes, so that new nodes cannot be modelled on them.
    """
    try:
        candidates = _choose_model_nodes(cluster, taken_nodes, deletes_nodes)
        accepting = (node for node in candidates if _accepts_all_groups(cluster, node, unplaced))
        model_nodes = list(islice(accepting, MAX_MODELS))
        counts = dict.fromkeys((1, len(taken_nodes), len(taken_nodes) + 1))  # without duplicates
        insufficient = dict.fromkeys(model_nodes, 0)
        for count, like in islice(product(counts, model_nodes), MAX_TRIES):
            is_sufficient = partial(_is_sufficient, cluster, step, like, options=options, lost_anyway=lost_anyway)
            if not is_sufficient(count):
                insufficient[like] = count
                continue
            too_few, enough = insufficient[like], count
            while enough - too_few > 1:
                middle = (too_few + enough) // 2
                if is_sufficient(middle):
                    enough = middle
                else:
                    too_few = middle
            return _build_scenario(step, like, enough)
    except (_UndecidedError, KschedctlError, KeyboardInterrupt):
        pass
    return None


class _UndecidedError(Exception):
    """An answer depends on unread kinds, or the user interrupted it."""


def _build_scenario(step: JsonObject, like: str, count: int) -> JsonObject:
    """Build the scenario that adds copies of a node before the step."""
    return {"steps": [{"addNodes": {"like": like, "count": count}}, step]}


def _is_sufficient(
    cluster: Cluster, step: JsonObject, like: str, count: int, *, options: SearchOptions, lost_anyway: Collection[str]
) -> bool:
    """Return whether the step leaves no pod pending with `count` more nodes like `like`, and loses no further pods.

    A step that cannot be completed, such as a drain that a PodDisruptionBudget blocks, is not helped either. Raises
    _UndecidedError if the answer is not certain.
    """
    report = whatif(
        cluster,
        _build_scenario(step, like, count),
        seed=options["seed"],
        sampling=options["sampling"],
        call_extender=options["call_extender"],
        replays_time_before_deletion=False,
    )
    if report.interrupted or report.undecided:
        raise _UndecidedError
    lost_pods = {change.pod for change in report.changes if change.lost}
    return leaves_no_pod_pending(report) and not report.incomplete_steps and lost_pods.issubset(lost_anyway)


def leaves_no_pod_pending(report: WhatIf) -> bool:
    """Return whether all pods are created and, in every run, no pod becomes pending."""
    if report.not_created or any(change.change == "NewlyPending" for change in report.changes):
        return False
    newly_pending = report.over_runs.get("NewlyPending")
    return not (newly_pending and newly_pending.most)


def is_harmless(report: WhatIf) -> bool:
    """Return whether the report's pods are all created, and in no run a pod becomes pending or is lost for good.

    All drains must be completed in every run, no pod may stay Terminating because its node is unreachable or not
    ready, and no pod may wait until failed nodes are deleted.
    """
    if report.pods_waiting_until_deleted:
        return False
    lost_over_runs, blocked_over_runs = report.over_runs.get(LOST), report.over_runs.get(BLOCKED)
    if report.lost_pods or (lost_over_runs and lost_over_runs.most):
        return False
    if report.incomplete_steps or (blocked_over_runs and blocked_over_runs.most):
        return False
    return leaves_no_pod_pending(report) and not report.down_nodes


def _choose_model_nodes(cluster: Cluster, taken_nodes: Sequence[str], deletes_nodes: bool) -> list[str]:
    """Return the names of nodes to model new nodes on: a schedulable node of each pool and zone.

    Only pools that lose nodes count. Their zones that lose nodes come first, since volumes and spread constraints may
    keep pods in their zone. At most MAX_CHECKED_MODELS nodes are returned. With `deletes_nodes`, nodes that the step
    takes away cannot be models.
    """
    taken_names = frozenset(taken_nodes)
    taken_places = {
        (find_node_pool_name(node), get_zone(node)) for node in cluster.nodes if node.metadata.name in taken_names
    }
    pools = {pool for pool, _ in taken_places}
    models: dict[tuple[str, str], str] = {}
    for node in cluster.nodes:
        name, place = node.metadata.name, (find_node_pool_name(node), get_zone(node))
        if place[0] in pools and not node.spec.unschedulable and not (deletes_nodes and name in taken_names):
            models.setdefault(place, name)
    places = sorted(models, key=lambda place: place not in taken_places)
    return [models[place] for place in places[:MAX_CHECKED_MODELS]]


def _accepts_all_groups(cluster: Cluster, model_node: str, unplaced: Sequence[UnplacedPods]) -> bool:
    """Return whether one more node like the model would pass all filters for a pod of each group of unplaced pods.

    This is a quick check before a replay. It ignores the step, and considers at most MAX_CHECKED_GROUPS groups.
    """
    edit = add_nodes(AddNodes(like=model_node, name=NEW), cluster, reject_file)

    # Take the first pod of each group off its node.
    pods = []
    for group in unplaced[:MAX_CHECKED_GROUPS]:
        namespace, _, name = group.pods[0].partition("/")
        pod = cluster.pod(namespace, name)
        if pod is not None:
            pods.append(recreate_pod(pod))
    pods_by_key = {(pod.metadata.namespace, pod.metadata.name): pod for pod in pods}
    scheduler = Scheduler(change_pods(edit.resulting_cluster, pods_by_key))

    # Run a cycle for each of these pods, and look at the new node.
    row = scheduler.view.nodes.index[f"{NEW}-0"]
    for pod in map(scheduler.view.build_stored_pod, pods):
        framework = scheduler.framework(pod.spec.scheduler_name)
        if framework is None:
            return False
        cycle = scheduler.run_cycle(framework, pod)
        if cycle.error is not None or not cycle.considered[row] or not cycle.filter.passing[row]:
            return False
    return True
