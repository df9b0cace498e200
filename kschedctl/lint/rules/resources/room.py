"""Rules about workloads that do not fit on the nodes, ever or at present."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Amounts, Bools
from kschedctl.api.objects import RuntimeClass, Taint
from kschedctl.api.resource_names import CPU, PODS, format_amounts_for_sentence
from kschedctl.api.tolerations import HARD_EFFECTS, find_untolerated_taint
from kschedctl.api.workloads import add_daemon_tolerations
from kschedctl.lint import documentation as doc
from kschedctl.lint.analysis.facts import (
    NODE_PLUGINS,
    ClusterFacts,
    PlacementResult,
    find_rows_with_room,
    place_additional_pods,
)
from kschedctl.lint.analysis.placement import iter_host_ports, iter_pod_affinity_terms, iter_storage_class_names
from kschedctl.lint.context import LintContext
from kschedctl.lint.objects.manifests import TypedObject
from kschedctl.lint.objects.subject import Problem, Subject, join_names
from kschedctl.lint.objects.workload import SERVING_KINDS, Workload
from kschedctl.lint.rule import ERROR, NOTE, WARNING, Rule
from kschedctl.lint.rules.resources.amounts import REQUIRED_RESOURCES
from kschedctl.scheduler.plugins.node_resources.fit import NodeResourcesFit
from kschedctl.text.counts import agreeing, counted, join_words

IDLE_SHARE = 0.2
"""A node at its pod limit is reported if more than this share of its cpu and memory is free."""


def find_pods_larger_than_any_node(context: LintContext) -> Iterator[Problem]:
    """Find workloads whose requests no eligible node can satisfy even without movable pods.

    A replay confirms each case.
    """
    facts = context.facts
    for workload in context.workloads:
        # Exclude most workloads without a replay.
        eligible = facts.get_eligible_nodes(workload)
        if not eligible.any() or (eligible & facts.get_nodes_with_room(workload)).any():
            continue
        unoffered_resources = facts.list_unoffered_resources(workload)
        requests = facts.get_requests(workload)
        large_enough = eligible & find_rows_with_room(facts.view.allocatable, requests)
        is_any_node_large_enough = not unoffered_resources and large_enough.any()
        if is_any_node_large_enough and not _are_full_of_fixed_pods(context, requests, large_enough):
            continue

        if facts.is_always_rejected_by(workload, (NodeResourcesFit, *NODE_PLUGINS)):
            if unoffered_resources:
                message = f"no node offers {join_words(unoffered_resources, 'or')}"
                yield workload.build_problem(("containers",), message)
                continue
            message = _explain_misfit(context, requests, eligible)
            tainted = _find_tainted_nodes(context, workload, requests)
            if tainted.names_by_taints:
                message = f"{tainted.describe()}; {message}"
                yield workload.build_problem(("containers",), message, tainted.suggest_fix())
            else:
                yield workload.build_problem(("containers",), message)


RQ_LARGER_THAN_ANY_NODE = Rule(
    "rq-larger-than-any-node",
    ERROR,
    find_pods_larger_than_any_node,
    summary="Requests that no usable node can ever satisfy",
    why="No node would have enough room even if all pods that can be moved were gone, so preemption does not help. "
    "Verified by replay without these pods.",
    fix="Lower the requests, or add larger nodes",
    source=f"{doc.PLUGINS}: noderesources/fit.go",
    needs_cluster=True,
)


class _TaintedNodes(NamedTuple):
    """The selected nodes that are large enough for a workload and that only untolerated taints keep from it."""

    names_by_taints: dict[tuple[Taint, ...], list[str]]
    """Untolerated taints -> the names of the nodes that have exactly these, both in node order."""

    def describe(self) -> str:
        """Return a clause that names the nodes and the taints of each."""
        names = [name for group in self.names_by_taints.values() for name in group]
        nodes, are = counted(len(names), "node"), agreeing(len(names), "is", "are")
        if len(self.names_by_taints) > 1:
            groups = (f"{_join_taints(taints)} ({join_names(group)})" for taints, group in self.names_by_taints.items())
            return f"{nodes} {are} large enough, but the pod does not tolerate their taints: {', '.join(groups)}"
        (taints,) = self.names_by_taints
        whose = agreeing(len(names), "its", "their")
        taint = f"{whose} {agreeing(len(taints), 'taint', 'taints')} {_join_taints(taints)}"
        return f"{nodes} ({join_names(names)}) {are} large enough, but the pod does not tolerate {taint}"

    def suggest_fix(self) -> str:
        """Return the sentence that suggests to tolerate the taints of some of the nodes."""
        if len(self.names_by_taints) > 1:
            return "Tolerate the taints of some of these nodes, or lower the requests"
        (taints,) = self.names_by_taints
        return f"Tolerate the {agreeing(len(taints), 'taint', 'taints')}, or lower the requests"


def _join_taints(taints: Sequence[Taint]) -> str:
    """Return the taints as in ``key=value:NoSchedule and other:NoExecute``."""
    return join_words([str(taint) for taint in taints])


def _find_tainted_nodes(context: LintContext, workload: Workload, requests: Amounts) -> _TaintedNodes:
    """Return the selected nodes that are large enough but have taints that the pods do not tolerate.

    The nodes are grouped by these taints.
    """
    facts, nodes = context.facts, context.facts.view.nodes
    is_large_enough = find_rows_with_room(facts.view.allocatable, requests)
    selected = facts.get_selected_nodes(workload) & ~nodes.unschedulable
    is_tainted = selected & is_large_enough & ~facts.get_tolerated_nodes(workload)
    names_by_taints: dict[tuple[Taint, ...], list[str]] = {}
    for row in np.flatnonzero(is_tainted).tolist():
        taints = nodes.objects[row].spec.taints
        untolerated = tuple(
            taint
            for taint in taints
            if find_untolerated_taint((taint,), workload.spec.tolerations, HARD_EFFECTS) is not None
        )
        if untolerated:
            names_by_taints.setdefault(untolerated, []).append(nodes.names[row])
    return _TaintedNodes(names_by_taints)


def _are_full_of_fixed_pods(context: LintContext, requests: Amounts, nodes: Bools) -> bool:
    """Return whether DaemonSet and static pods leave no room for the requests on any node of the mask.

    The view with only these pods may have fewer resource columns than the view that ``requests`` is for.
    """
    fixed_view, view = context.facts.scheduler_with_fixed_pods.view, context.facts.view
    names = [name for name in view.resources if name in fixed_view.resources]
    fixed_columns = [fixed_view.resources[name] for name in names]
    columns = [view.resources[name] for name in names]
    free = (fixed_view.allocatable - fixed_view.requested)[:, fixed_columns]
    return not (nodes & find_rows_with_room(free, requests[columns])).any()


def _explain_misfit(context: LintContext, requests: Amounts, eligible: Bools) -> str:
    """Explain which of the requests keep the pod off every eligible node, and how much these nodes have at most.

    The explanation names the requests that exceed the resource's maximum over the eligible nodes. If no request does,
    it names all requests.
    """
    view = context.facts.view
    maximums = view.allocatable[eligible].max(axis=0)
    requested_columns = {name: column for name, column in view.resources.items() if requests[column] and name != PODS}
    excessive_columns = {name: c for name, c in requested_columns.items() if requests[c] > maximums[c]}
    count = int(eligible.sum())
    parts = []
    for name, column in (excessive_columns or requested_columns).items():
        (requested, maximum), unit = format_amounts_for_sentence(name, int(requests[column]), int(maximums[column]))
        largest = f"at most {maximum}" if maximum != "0" else "none"
        parts.append(f"{requested} {unit} ({agreeing(count, 'it has', 'they have')} {largest})")
    nodes = "the only usable node does not have" if count == 1 else f"none of the {count:,} usable nodes has"
    return f"{nodes} room for it, even if all movable pods left: it requests {join_words(parts)}"


def find_workloads_without_contiguous_room(context: LintContext) -> Iterator[Problem]:
    """Find workloads that lack pods although enough is free on their nodes in total, but on no single node.

    Workloads that would not fit even on an empty node are left out. A replay confirms that the scheduler rejects every
    eligible node for lack of resources.
    """
    facts = context.facts
    for workload in context.workloads:
        eligible = facts.get_eligible_nodes(workload)
        lacks_pods = len(facts.list_node_rows_of_pods(workload)) < workload.lowest_replicas
        has_node_with_room = (eligible & facts.get_nodes_with_room(workload)).any()
        if not lacks_pods or not eligible.any() or has_node_with_room:
            continue

        # Moving other pods must be able to help: enough is free in total, and an empty node is large enough
        requests = facts.get_requests(workload)
        free = np.maximum(facts.free_amounts[eligible], 0)  # an overcommitted node has nothing free
        is_free_in_total = (free.sum(axis=0) >= requests).all()
        is_a_node_large_enough = find_rows_with_room(facts.view.allocatable[eligible], requests).any()
        if facts.list_unoffered_resources(workload) or not is_free_in_total or not is_a_node_large_enough:
            continue

        is_rejected_in_replay = facts.find_nodes_rejected_by(workload, NodeResourcesFit)
        if not is_rejected_in_replay[eligible].all():
            continue
        short_resources = [
            name for name, column in facts.view.resources.items() if requests[column] > free[:, column].max()
        ]
        names = " and ".join("CPU" if name == CPU else name for name in short_resources) or "of everything it requests"
        yield workload.build_problem(("containers",), f"enough {names} is free in total, but not on any single node")


RQ_FRAGMENTED = Rule(
    "rq-fragmented",
    WARNING,
    find_workloads_without_contiguous_room,
    summary="Requests that fit into the total of free resources, but on no single node",
    why="Pods of the workload stay Pending although dashboards show free capacity. Verified by replay: every "
    "usable node lacks resources.",
    fix="Pack small pods onto fewer nodes, or add a node",
    source=f"{doc.PLUGINS}: noderesources/fit.go",
    needs_cluster=True,
)


def find_daemon_sets_without_room(context: LintContext) -> Iterator[Problem]:
    """Find DaemonSets that have no room on some of their nodes unless they preempt other pods.

    Whether preemption would make room is not checked.

    If the DaemonSet was read from the cluster, nodes that already run one of its pods are skipped. If the DaemonSet
    comes from a manifest, such nodes are checked as well, because the manifest may change the requests of the running
    pods.
    """
    facts = context.facts
    for daemon_set in context.workloads:
        if daemon_set.kind != "DaemonSet":
            continue
        # The controller adds tolerations, so that the pods run on cordoned nodes, too.
        workload = replace(daemon_set, spec=add_daemon_tolerations(daemon_set.spec))
        has_pod = np.zeros(len(facts), np.bool_)
        if not workload.subject.document:  # a manifest may change the requests of running pods
            has_pod[facts.list_node_rows_of_pods(workload)] = True
        eligible = facts.get_eligible_nodes(workload)
        free_without_own_pods = facts.free_amounts + _sum_workload_requests_per_node(context, workload)
        full = eligible & ~has_pod & ~find_rows_with_room(free_without_own_pods, facts.get_requests(workload))
        if full.any():
            nodes = counted(eligible.sum(), "node")
            names = facts.format_node_names(full)
            have = agreeing(int(full.sum()), "has", "have")
            message = f"{full.sum():,} of {nodes} {have} no room for it unless it preempts other pods: {names}"
            yield workload.build_problem(("containers",), message)


RQ_DAEMONSET_OVERHEAD = Rule(
    "rq-daemonset-overhead",
    WARNING,
    find_daemon_sets_without_room,
    summary="DaemonSet that does not fit on some of its nodes",
    why="Nodes without room get no pod of the DaemonSet, unless the pod preempts others.",
    fix="Lower the requests of the DaemonSet, or give it a priority with which it preempts other pods",
    source="https://github.com/kubernetes/kubernetes/pull/32677",
    needs_cluster=True,
)


def _sum_workload_requests_per_node(context: LintContext, workload: Workload) -> Amounts:
    """Return the total requests of the workload's pods on each node, (N, R)."""
    view = context.facts.view
    requests = np.zeros_like(context.facts.free_amounts)
    for pod in context.facts.pods_by_owner.get(workload.owner, ()):
        row = view.nodes.index.get(pod.spec.node_name)
        if row is not None:
            position = view.pods.index[pod.key]
            info_number = view.pods.info[position]
            requests[row] += view.requests[info_number]
    return requests


def find_nodes_at_pod_limit(context: LintContext) -> Iterator[Problem]:
    """Find nodes that have reached their pod limit with much cpu and memory left.

    All such nodes are reported as one problem, at the first node.
    """
    view, free = context.facts.view, context.facts.free_amounts
    pods_column = view.resources[PODS]
    is_wasted = (free[:, pods_column] <= 0) & (view.allocatable[:, pods_column] > 0)
    for name in REQUIRED_RESOURCES:
        column = view.resources[name]
        is_wasted &= free[:, column] > IDLE_SHARE * view.allocatable[:, column]
    if is_wasted.any():
        first_name = view.nodes.names[int(np.flatnonzero(is_wasted)[0])]
        count = int(is_wasted.sum())
        are_at = agreeing(count, "is at its", "are at their")
        message = f"{counted(count, 'node')} {are_at} pod limit with over {IDLE_SHARE:.0%} of CPU and memory free"
        yield Subject("Node", first_name).build_problem(("status", "allocatable", PODS), message)


RQ_MAX_PODS = Rule(
    "rq-max-pods",
    NOTE,
    find_nodes_at_pod_limit,
    summary="Nodes at their pod limit while CPU and memory are free",
    why="The kubelet's pod limit, 110 by default, is reached first, so the remaining capacity cannot be used.",
    fix="Raise maxPods of the kubelets, or use smaller nodes",
    source=doc.LARGE_CLUSTERS,
    needs_cluster=True,
)


def find_replicas_without_room(context: LintContext) -> Iterator[Problem]:
    """Find workloads whose lowest number of replicas does not fit on the nodes now.

    Finds nothing if a node autoscaler seems to run. Workloads that other rules about room report are left out.
    """
    if context.facts.has_node_autoscaler():
        return
    reported = {problem.subject for problem in find_pods_larger_than_any_node(context)}
    reported |= {problem.subject for problem in find_workloads_without_contiguous_room(context)}
    for workload, running, placed in _iter_workloads_without_room(context, lambda workload: workload.lowest_replicas):
        if workload.subject not in reported:
            # The running replicas, and the additional ones that found a node in the simulation
            message = _describe_missing_room(workload.lowest_replicas, running + placed.number, placed)
            yield context.build_replica_problem(workload, (), message, at_maximum=False)


RQ_NO_ROOM_NOW = Rule(
    "rq-no-room-now",
    WARNING,
    find_replicas_without_room,
    summary="A workload whose replicas do not all fit",
    why="The surplus replicas stay Pending or preempt other pods. Verified by replay: only some of the replicas get a "
    "node. Not reported if a Cluster Autoscaler or Karpenter seems to run.",
    fix="Lower replicas or requests, or add nodes",
    source=f"{doc.PLUGINS}: noderesources/fit.go",
    needs_cluster=True,
)


def _describe_missing_room(replicas: int, placed_count: int, placed: PlacementResult) -> str:
    """Describe how many replicas do not fit now, and which resources are short on the nodes.

    ``placed_count`` is the number of replicas that fit, including running ones. An example is ``5 replicas, but only 3
    fit now: 2 stay Pending (of 4 usable nodes, 4 lack CPU)``.
    """
    remaining = replicas - placed_count
    consequence = f"{agreeing(remaining, 'stays', 'stay')} Pending"
    if placed.preempts:
        consequence += f" or {agreeing(remaining, 'preempts', 'preempt')} other pods"
    consequence += f" ({placed.shortage})"
    if replicas == 1:
        return f"its only replica does not fit now: it {consequence}"
    if not placed_count:
        return f"none of its {replicas:,} replicas fits now: they {consequence}"
    placed_text = f"only {placed_count:,} {agreeing(placed_count, 'fits', 'fit')} now"
    return f"{replicas:,} replicas, but {placed_text}: {remaining:,} {consequence}"


def find_autoscaler_maximum_without_room(context: LintContext) -> Iterator[Problem]:
    """Find autoscaled workloads whose lowest number of replicas fits but whose highest number does not."""
    for workload, running, placed in _iter_workloads_without_room(context, lambda workload: workload.max_replicas or 0):
        placed_count = running + placed.number
        if workload.lowest_replicas <= placed_count:
            message = (
                f"the autoscaler may create {workload.max_replicas:,} replicas, but only {placed_count:,} "
                f"{agreeing(placed_count, 'fits', 'fit')} now ({placed.shortage})"
            )
            yield context.build_replica_problem(workload, (), message, at_maximum=True)


RQ_HPA_BURST = Rule(
    "rq-hpa-burst",
    NOTE,
    find_autoscaler_maximum_without_room,
    summary="maxReplicas of a HorizontalPodAutoscaler above the number of replicas that fit",
    why="At peak load, the surplus replicas stay Pending unless nodes are added in time. Verified by replay: "
    "at maxReplicas, some replicas get no node.",
    fix="Lower maxReplicas, or make sure that nodes can be added",
    source="https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/",
    needs_cluster=True,
)


def _iter_workloads_without_room(
    context: LintContext, get_replicas: Callable[[Workload], int]
) -> Iterator[tuple[Workload, int, PlacementResult]]:
    """Yield each workload without room for all the replicas that ``get_replicas`` returns.

    A workload comes with its number of running pods and the result of placing the additional pods. Workloads of the
    cluster that a linted autoscaler scales are included. Workloads that lack room for other reasons than their requests
    are left out. Workloads whose pods cannot start because a class does not exist are left out as well, because other
    rules report them.
    """
    facts = context.facts
    additional_counts: dict[Workload, int] = {}
    for workload in (*context.workloads, *context.autoscaler_by_scaled_workload):
        if not _can_count_running_pods(facts, workload):
            continue
        count = get_replicas(workload) - len(facts.list_node_rows_of_pods(workload))
        if count > 0 and not _certainly_fits(facts, workload, count):
            additional_counts[workload] = count
    without_room = {
        workload: placed
        for workload, placed in place_additional_pods(facts, additional_counts).items()
        if placed.shortage and placed.number < additional_counts[workload]
    }
    for workload, placed in without_room.items():
        if not _needs_missing_class(context, workload):
            running_count = len(facts.list_node_rows_of_pods(workload))
            yield workload, running_count, placed


def _needs_missing_class(context: LintContext, workload: Workload) -> bool:
    """Return whether none of the workload's pods can start, since a class of the pods or their volumes does not exist.

    The class is a PriorityClass, RuntimeClass or StorageClass. Classes that were not fully read do not count as
    missing.
    """
    priority_class = workload.spec.priority_class_name
    if priority_class and priority_class not in context.priority_classes and context.are_priority_classes_known():
        return True
    runtime_class = workload.spec.runtime_class_name
    if runtime_class and context.cluster is not None and context.cluster.find_gap("RuntimeClass") is None:
        existing_names = {existing.metadata.name for existing in context.list_all_objects(RuntimeClass)}
        if runtime_class not in existing_names:
            return True

    claims = [TypedObject(workload.subject, claim) for _, claim in context.iter_claims(workload)]
    storage_classes = {name for _, _, name in iter_storage_class_names(claims, [workload]) if name}
    if not storage_classes:
        return False
    existing_classes = context.list_existing_storage_classes()
    return existing_classes is not None and not storage_classes <= existing_classes


def _can_count_running_pods(facts: ClusterFacts, workload: Workload) -> bool:
    """Return whether it is certain which running pods belong to the workload.

    This is the case if the workload has a namespace, or if no running pods have an owner of its kind and name. Returns
    False for workloads that are gated, do not run permanently, or have no eligible node.
    """
    if workload.kind not in SERVING_KINDS or workload.spec.scheduling_gates:
        return False
    if not facts.get_eligible_nodes(workload).any():
        return False
    if workload.subject.namespace:
        return True
    # Without a namespace, running pods of an owner of the same name may or may not be the workload's.
    return not any(owner.kind == workload.kind and owner.name == workload.subject.name for owner in facts.pods_by_owner)


def _certainly_fits(facts: ClusterFacts, workload: Workload, count: int) -> bool:
    """Return whether ``count`` more pods certainly fit, so that no replay is needed.

    The pods certainly fit if only their requests restrict them, enough is free on the eligible nodes, and no room is
    reserved for nominated pods.
    """
    spec = workload.spec
    nominated_rows, _nominated_pods = facts.view.nominations
    if len(nominated_rows):
        return False
    uses_host_ports = spec.host_network or any(iter_host_ports(workload))
    if uses_host_ports or spec.topology_spread_constraints or next(iter_pod_affinity_terms(workload), None):
        return False
    if facts.list_unoffered_resources(workload):
        return False
    requests = facts.get_requests(workload)
    is_requested = requests > 0
    free_amounts = facts.free_amounts[facts.get_eligible_nodes(workload)]
    free = np.maximum(free_amounts[:, is_requested], 0)
    pods_per_node = (free // requests[is_requested]).min(axis=1)
    return bool(pods_per_node.sum() >= count)
