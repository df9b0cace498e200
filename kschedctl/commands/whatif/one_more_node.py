"""Find how many additional nodes a step needs so that no pod stays pending, verified by replay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice, product

import numpy as np

from kschedctl.api.json_values import JsonObject
from kschedctl.api.node_pools import find_node_pool_name
from kschedctl.api.objects import Pod
from kschedctl.cluster import Cluster
from kschedctl.cluster.recreation import recreate_pod
from kschedctl.commands.whatif import whatif
from kschedctl.commands.whatif.report import BLOCKED, LOST, WhatIf
from kschedctl.errors import KschedctlError
from kschedctl.replay.edits import change_pods, get_zone
from kschedctl.replay.scenarios import reject_file
from kschedctl.replay.scenarios.steps import add_nodes
from kschedctl.reports.placements import UnplacedPods
from kschedctl.reports.scenario import AddNodes
from kschedctl.scheduler.engine.cycle import run_cycle
from kschedctl.scheduler.engine.sampling import SearchOptions
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

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


def build_scenario_with_enough_nodes(
    cluster: Cluster,
    step: JsonObject,
    taken_nodes: Sequence[str],
    unplaced: Sequence[UnplacedPods],
    options: SearchOptions,
    *,
    deletes_nodes: bool,
    lost_anyway: Collection[str],
) -> JsonObject | None:
    """Build a scenario that adds enough new nodes before the step, so that the step leaves no pod pending.

    No pod may be lost for good in this scenario, except the pods in `lost_anyway`. This condition rules out that
    displaced pods find room only because pods without a controller are lost.

    New nodes are modelled on nodes of the pools and zones that lose nodes, then on nodes of these pools in other zones.
    If the pods need nodes of several pools or zones, nodes of each of them are added. Return None if nothing helps
    within MAX_TRIES attempts, or if the answer depends on kinds of objects that were not read. Errors and interruptions
    also lead to None.

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
        groups = unplaced[:MAX_CHECKED_GROUPS]
        accepted_by_model: dict[str, frozenset[int]] = {}
        model_nodes: list[str] = []
        for node, accepted in _iter_accepted_groups(cluster, candidates, groups):
            accepted_by_model[node] = accepted
            if len(accepted) == len(groups):
                model_nodes.append(node)
            if len(model_nodes) == MAX_MODELS:
                break
        if model_nodes:
            return _find_sufficient_copies(
                cluster, step, taken_nodes, model_nodes, options=options, lost_anyway=lost_anyway
            )
        mix = _choose_model_mix(accepted_by_model, len(groups))
        return _find_sufficient_mix(cluster, step, taken_nodes, mix, options=options, lost_anyway=lost_anyway)
    except (_UndecidedError, KschedctlError, KeyboardInterrupt):
        return None


def _find_sufficient_copies(
    cluster: Cluster,
    step: JsonObject,
    taken_nodes: Sequence[str],
    model_nodes: Sequence[str],
    *,
    options: SearchOptions,
    lost_anyway: Collection[str],
) -> JsonObject | None:
    """Find how many copies of a single model node the step needs, and return a scenario that adds them first.

    One copy of each model node is tried, then as many as the step takes nodes away, then one more. The first sufficient
    number is lowered by bisection. Return None if no number is enough within MAX_TRIES attempts. The other arguments
    are as for `build_scenario_with_enough_nodes`.
    """
    counts = dict.fromkeys((1, len(taken_nodes), len(taken_nodes) + 1))  # without duplicates
    insufficient_by_model = dict.fromkeys(model_nodes, 0)

    def are_copies_sufficient(model: str, count: int) -> bool:
        """Return whether this many copies of the model node are enough."""
        return _is_sufficient(cluster, step, {model: count}, options=options, lost_anyway=lost_anyway)

    for count, model in islice(product(counts, model_nodes), MAX_TRIES):
        if are_copies_sufficient(model, count):
            too_few = insufficient_by_model[model]
            smallest = _find_smallest_number(partial(are_copies_sufficient, model), too_few=too_few, enough=count)
            return _build_scenario(step, {model: smallest})
        insufficient_by_model[model] = count
    return None


class _UndecidedError(Exception):
    """An answer depends on unread kinds, or the user interrupted it."""


def _choose_model_mix(accepted_by_model: Mapping[str, frozenset[int]], groups: int) -> list[str]:
    """Return nodes such that a node like one of them accepts each of the groups, or [] if no nodes do.

    `accepted_by_model` has the accepted groups of each node in order of preference.
    """
    chosen: list[str] = []
    unaccepted_groups = set(range(groups))
    for model, accepted in accepted_by_model.items():
        if unaccepted_groups & accepted:
            chosen.append(model)
            unaccepted_groups -= accepted
    return [] if unaccepted_groups else chosen


def _find_sufficient_mix(
    cluster: Cluster,
    step: JsonObject,
    taken_nodes: Sequence[str],
    model_nodes: Sequence[str],
    *,
    options: SearchOptions,
    lost_anyway: Collection[str],
) -> JsonObject | None:
    """Find how many nodes like each of the model nodes the step needs, and return a scenario that adds them first.

    One node of each is tried, then as many as the step takes from the model's pool and zone, then one more of each. The
    sufficient numbers are then lowered one after the other by bisection. Return None if they are not enough. The other
    arguments are as for `build_scenario_with_enough_nodes`.
    """
    if not model_nodes:
        return None
    place_by_node = {node.metadata.name: (find_node_pool_name(node), get_zone(node)) for node in cluster.nodes}
    taken_counts = Counter(place_by_node[name] for name in taken_nodes if name in place_by_node)
    taken_like = {model: max(taken_counts[place_by_node[model]], 1) for model in model_nodes}
    is_sufficient = partial(_is_sufficient, cluster, step, options=options, lost_anyway=lost_anyway)
    tries = [
        dict.fromkeys(model_nodes, 1),
        taken_like,
        {model: count + 1 for model, count in taken_like.items()},
    ]
    counts = next((tried_counts for tried_counts in tries if is_sufficient(tried_counts)), None)
    if counts is None:
        return None

    def is_enough(model: str, other_counts: Mapping[str, int], count: int) -> bool:
        """Return whether this many copies of the model are enough beside the copies of the other models."""
        return is_sufficient({**other_counts, model: count})

    for model in model_nodes:
        fewest = _find_smallest_number(partial(is_enough, model, counts), too_few=0, enough=counts[model])
        counts = {**counts, model: fewest}
    return _build_scenario(step, counts)


def _find_smallest_number(is_enough: Callable[[int], bool], too_few: int, enough: int) -> int:
    """Find the smallest number that is enough by bisection between a number that is too small and one that is enough.

    >>> _find_smallest_number(lambda number: number >= 5, 0, 9)
    5
    """
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        if is_enough(middle):
            enough = middle
        else:
            too_few = middle
    return enough


def _build_scenario(step: JsonObject, count_by_model: Mapping[str, int]) -> JsonObject:
    """Build the scenario that adds copies of nodes before the step."""
    additions = [{"addNodes": {"like": like, "count": count}} for like, count in count_by_model.items()]
    return {"steps": [*additions, step]}


def _is_sufficient(
    cluster: Cluster,
    step: JsonObject,
    count_by_model: Mapping[str, int],
    *,
    options: SearchOptions,
    lost_anyway: Collection[str],
) -> bool:
    """Return whether the step leaves no pod pending and loses no further pods if copies of nodes are added first.

    `count_by_model` has the number of copies of each node. Return False for a step that cannot be completed, such as a
    drain that a PodDisruptionBudget blocks. Raises _UndecidedError if the answer is not certain.
    """
    report = whatif(
        cluster,
        _build_scenario(step, count_by_model),
        seed=options["seed"],
        sampling=options["sampling"],
        call_extender=options["call_extender"],
        replays_time_before_deletion=False,
    )
    if report.interrupted or report.undecided:
        raise _UndecidedError
    lost_pods = {change.pod for change in report.changes if change.lost}
    return makes_no_pod_pending(report) and not report.incomplete_steps and lost_pods.issubset(lost_anyway)


def makes_no_pod_pending(report: WhatIf) -> bool:
    """Return whether all pods are created and, in every run, no pod becomes pending."""
    if report.not_created or any(change.change == "NewlyPending" for change in report.changes):
        return False
    newly_pending = report.over_runs.get("NewlyPending")
    return not (newly_pending and newly_pending.most)


def is_harmless(report: WhatIf) -> bool:
    """Return whether all pods are created, and no run leaves a pod pending or loses one for good.

    All drains must be completed in every run. No pod may stay Terminating because its node is unreachable or not ready,
    and none may wait until failed nodes are deleted.
    """
    if report.pods_waiting_until_deleted:
        return False
    lost_over_runs, blocked_over_runs = report.over_runs.get(LOST), report.over_runs.get(BLOCKED)
    if report.lost_pods or (lost_over_runs and lost_over_runs.most):
        return False
    if report.incomplete_steps or (blocked_over_runs and blocked_over_runs.most):
        return False
    return makes_no_pod_pending(report) and not report.down_nodes


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
        name, pool, zone = node.metadata.name, find_node_pool_name(node), get_zone(node)
        is_deleted = deletes_nodes and name in taken_names
        if pool in pools and not node.spec.unschedulable and not is_deleted:
            models.setdefault((pool, zone), name)
    places = sorted(models, key=lambda place: place not in taken_places)
    return [models[place] for place in places[:MAX_CHECKED_MODELS]]


def _iter_accepted_groups(
    cluster: Cluster, model_nodes: Sequence[str], groups: Sequence[UnplacedPods]
) -> Iterator[tuple[str, frozenset[int]]]:
    """Yield each model node with the indexes of the groups of which a pod passes all filters on one more such node.

    This is a quick check before a replay, which ignores the step. Pods that do not exist yet are accepted.
    """
    # Take the first pod of each group off its node.
    pods = {}
    for index, group in enumerate(groups):
        namespace, _, name = group.pods[0].partition("/")
        pod = cluster.pod(namespace, name)
        if pod is not None:
            pods[index] = recreate_pod(pod, cluster)
    pods_by_key = {(pod.metadata.namespace, pod.metadata.name): pod for pod in pods.values()}
    trial_cluster = change_pods(cluster, pods_by_key)

    # Add a node like each model, but let the pods see only one of the new nodes at a time.
    for number, model_node in enumerate(model_nodes):
        edit = add_nodes(AddNodes(like=model_node, name=f"{NEW}-{number}"), trial_cluster, reject_file)
        trial_cluster = edit.resulting_cluster
    scheduler = Scheduler(trial_cluster)
    rows = [scheduler.view.nodes.index[f"{NEW}-{number}-0"] for number in range(len(model_nodes))]
    for model_node, row in zip(model_nodes, rows, strict=True):
        is_hidden = np.zeros(len(scheduler.view.nodes), np.bool_)
        is_hidden[rows] = True
        is_hidden[row] = False
        view = scheduler.view.without_nodes(is_hidden)
        new_node = scheduler.view.nodes.names[row]
        rejected = {index for index, pod in pods.items() if not _fits_on_node(scheduler, view, pod, new_node)}
        yield model_node, frozenset(range(len(groups))) - rejected


def _fits_on_node(scheduler: Scheduler, view: Fork, pod: Pod, node: str) -> bool:
    """Return whether a pending pod passes all filters on a node of the view, which is a fork of the scheduler's."""
    stored_pod = view.build_stored_pod(pod)
    framework = scheduler.find_framework(stored_pod.spec.scheduler_name)
    if framework is None:
        return False
    cycle = run_cycle(framework, PodInfo(stored_pod, view.settings.requests), view)
    row = view.nodes.index[node]
    return cycle.error is None and bool(cycle.considered[row] and cycle.filter.passing[row])
