"""Rules about ResourceFlavors of Kueue and the nodes that they stand for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kschedctl.api.objects import Node
from kschedctl.api.quantity import QuantityError
from kschedctl.api.queueing import AdmissionCheck, ClusterQueue, Cohort, ResourceFlavor
from kschedctl.autoscaling.node_groups.discovery import has_node_groups
from kschedctl.lint.analysis.near_names import find_similar_name
from kschedctl.lint.context import LintContext
from kschedctl.lint.objects.kinds import WrittenNodePool
from kschedctl.lint.objects.subject import Path, Problem, Subject, join_names
from kschedctl.lint.rule import NOTE, WARNING, Rule
from kschedctl.lint.rules.kueue.known_objects import MIN_LETTERS, list_cluster_queues, list_cohorts
from kschedctl.queueing.kueue.amounts import UNLIMITED, FlavorResource, Usage, add, format_units, parse_requests
from kschedctl.queueing.kueue.cluster_queues import read_settings
from kschedctl.queueing.kueue.quota_tree import parse_quotas
from kschedctl.text.counts import counted

FLAVORS = "https://kueue.sigs.k8s.io/docs/concepts/resource_flavor/"
_NODE_PROVIDERS = ("kueue.x-k8s.io/multikueue", "kueue.x-k8s.io/provisioning-request")
"""The controllers of admission checks that bring nodes only after quota is reserved, or run pods in other clusters."""


def find_flavors_without_nodes(context: LintContext) -> Iterator[Problem]:
    """Find ResourceFlavors whose node labels no node has, unless nodes may be added."""
    assert context.cluster is not None
    nodes = context.cluster.nodes
    flavors = [item for item in context.list_linted(ResourceFlavor) if item.value.spec.node_labels]
    if not flavors or not nodes or _may_add_nodes(context):
        return
    external = _list_external_flavors(context)
    for subject, flavor in flavors:
        if subject.name not in external and not _select_nodes(flavor, nodes):
            yield _describe_unmatched_labels(subject, flavor.spec.node_labels, nodes)


KQ_FLAVOR_NO_NODE = Rule(
    "kq-flavor-no-node",
    WARNING,
    find_flavors_without_nodes,
    summary="A ResourceFlavor whose nodeLabels no node has",
    why="Kueue admits Workloads in this flavor, and their pods stay Pending. Not checked if an autoscaler may add "
    "nodes, or if an admission check provides them.",
    fix="Label the nodes, or correct spec.nodeLabels",
    source=FLAVORS,
    needs_cluster=True,
)


def _describe_unmatched_labels(subject: Subject, labels: Mapping[str, str], nodes: Iterable[Node]) -> Problem:
    """Build the problem of a flavor whose labels no node has, at the first label that no node has."""
    for key, value in labels.items():
        values = {node.metadata.labels[key] for node in nodes if key in node.metadata.labels}
        if value not in values:
            similar = find_similar_name(value, values, MIN_LETTERS)
            message = f"no node has the label {key}={value}"
            if values:
                message += f", but {key} is {join_names(sorted(values))}"
            return subject.build_problem(("spec", "nodeLabels", key), message, f"Write {similar}" if similar else "")
    listed = " and ".join(f"{key}={value}" for key, value in labels.items())
    return subject.build_problem(("spec", "nodeLabels"), f"no node has all of {listed}")


def find_quota_over_nodes(context: LintContext) -> Iterator[Problem]:
    """Find flavors with more nominal quota than their nodes have allocatable, unless nodes may be added.

    The sum counts all known ClusterQueues and Cohorts. Each excess is reported once, at the largest linted quota.
    """
    assert context.cluster is not None
    quotas = [*_iter_linted_quotas(context)]
    if not quotas or _may_add_nodes(context):
        return
    allocatable = _sum_allocatable(context, {quota.key.flavor for quota in quotas})
    totals = _sum_nominal_quota(context)
    external = _list_external_flavors(context)
    largest: dict[FlavorResource, _LintedQuota] = {}
    for quota in quotas:
        if quota.key not in largest or quota.amount > largest[quota.key].amount:
            largest[quota.key] = quota
    offered = {key.resource for key, amount in allocatable.amounts.items() if amount}
    for key, quota in largest.items():
        total, available = totals[key], allocatable.amounts.get(key, 0)
        node_count = allocatable.node_counts.get(key.flavor, 0)
        is_comparable = key.resource in offered or _is_extended_resource(context, key.resource)
        if UNLIMITED in (total, quota.amount) or key.flavor in external or not node_count or not is_comparable:
            continue
        if total > available:
            message = (
                f"flavor {key.flavor} has a nominal quota of {format_units(key.resource, total)} {key.resource} in "
                f"all, but its {counted(node_count, 'node')} {_describe_allocatable(node_count, key, available)}"
            )
            yield quota.subject.build_problem(quota.path, message)


KQ_QUOTA_OVER_NODES = Rule(
    "kq-quota-over-nodes",
    WARNING,
    find_quota_over_nodes,
    summary="More nominal quota in a flavor than its nodes have allocatable",
    why="Kueue admits Workloads for which no node has room: their pods stay Pending and hold the quota. Not checked "
    "if an autoscaler may add nodes, or if an admission check provides them.",
    fix="Lower nominalQuota, or add nodes with the labels of the flavor",
    source="https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/#resources",
    needs_cluster=True,
)


def find_nodes_without_quota(context: LintContext) -> Iterator[Problem]:
    """Find flavors without any quota whose nodes belong to no flavor with quota."""
    assert context.cluster is not None
    flavors = context.list_linted(ResourceFlavor)
    if not flavors or not context.list_all(ClusterQueue) or not context.are_all_read("ClusterQueue", "Cohort"):
        return
    groups = [group for queue in context.list_all(ClusterQueue) for group in queue.spec.resource_groups]
    groups += [group for cohort in context.list_all(Cohort) for group in cohort.spec.resource_groups]
    used = {flavor.name for group in groups for flavor in group.flavors}
    covered = {
        node.metadata.name
        for flavor in context.list_all(ResourceFlavor)
        if flavor.metadata.name in used
        for node in _select_nodes(flavor, context.cluster.nodes)
    }
    for subject, flavor in flavors:
        if subject.name in used:
            continue
        names = [node.metadata.name for node in _select_nodes(flavor, context.cluster.nodes)]
        names = [name for name in names if name not in covered]
        if names:
            message = (
                f"no ClusterQueue or Cohort has quota in it: Kueue admits nothing for {counted(len(names), 'node')} "
                f"({join_names(names)})"
            )
            yield subject.build_problem(("metadata", "name"), message)


KQ_NODES_WITHOUT_QUOTA = Rule(
    "kq-nodes-without-quota",
    NOTE,
    find_nodes_without_quota,
    summary="A ResourceFlavor in which nothing has quota, so that its nodes get no Workloads",
    why="Workloads wait for quota while these nodes are idle.",
    fix="Add the flavor to a ClusterQueue, or delete it",
    source=FLAVORS,
    needs_cluster=True,
)


def _may_add_nodes(context: LintContext) -> bool:
    """Return whether an autoscaler may add nodes that are not there yet."""
    assert context.cluster is not None
    has_pools = bool(context.list_linted(WrittenNodePool) or context.cluster.karpenter_node_pools)
    return has_pools or has_node_groups(context.cluster)


def _list_external_flavors(context: LintContext) -> set[str]:
    """Return the flavors for which an admission check provides nodes, or runs the pods in another cluster."""
    providers = {
        check.metadata.name
        for check in context.list_all(AdmissionCheck)
        if check.spec.controller_name in _NODE_PROVIDERS
    }
    return {
        flavor
        for queue in (list_cluster_queues(context) if providers else ())
        for name, flavors in read_settings(queue).checks.items()
        if name in providers
        for flavor in flavors
    }


def _select_nodes(flavor: ResourceFlavor, nodes: Iterable[Node]) -> list[Node]:
    """Return the nodes that have all labels of a flavor."""
    labels = flavor.spec.node_labels.items()
    return [node for node in nodes if labels <= node.metadata.labels.items()]


class _FlavorCapacity(NamedTuple):
    """What the nodes of flavors have allocatable."""

    amounts: Usage
    node_counts: dict[str, int]
    """The number of nodes of each flavor."""


def _sum_allocatable(context: LintContext, flavor_names: set[str]) -> _FlavorCapacity:
    """Add up what the nodes of each flavor have allocatable. Malformed quantities count as nothing."""
    assert context.cluster is not None
    nodes = context.cluster.nodes
    requests = {node.metadata.name: _parse_allocatable(node) for node in nodes}
    capacity = _FlavorCapacity({}, {})
    for flavor in context.list_all(ResourceFlavor):
        name = flavor.metadata.name
        if name not in flavor_names:
            continue
        selected = _select_nodes(flavor, nodes)
        capacity.node_counts[name] = len(selected)
        for node in selected:
            for resource, amount in requests[node.metadata.name].items():
                key = FlavorResource(name, resource)
                capacity.amounts[key] = add(capacity.amounts.get(key, 0), amount)
    return capacity


def _parse_allocatable(node: Node) -> dict[str, int]:
    """Return what a node has allocatable, or nothing if a quantity is malformed."""
    try:
        return parse_requests(node.status.allocatable)
    except QuantityError:
        return {}


class _LintedQuota(NamedTuple):
    """A nominal quota of a linted ClusterQueue or Cohort."""

    subject: Subject
    path: Path
    key: FlavorResource
    amount: int


def _iter_linted_quotas(context: LintContext) -> Iterator[_LintedQuota]:
    """Yield the nominal quotas of the linted ClusterQueues and Cohorts whose quantities are valid."""
    linted = [(subject, queue.spec.resource_groups) for subject, queue in context.list_linted(ClusterQueue)]
    linted += [(subject, cohort.spec.resource_groups) for subject, cohort in context.list_linted(Cohort)]
    for subject, groups in linted:
        try:
            quotas = parse_quotas(groups)
        except QuantityError:
            continue
        for i, group in enumerate(groups):
            for j, flavor in enumerate(group.flavors):
                for k, resource in enumerate(flavor.resources):
                    key = FlavorResource(flavor.name, resource.name)
                    path = ("spec", "resourceGroups", i, "flavors", j, "resources", k, "nominalQuota")
                    yield _LintedQuota(subject, path, key, quotas[key].nominal)


def _sum_nominal_quota(context: LintContext) -> Usage:
    """Add up the nominal quota of all known ClusterQueues and Cohorts."""
    totals: Usage = {}
    all_groups = [queue.spec.resource_groups for queue in list_cluster_queues(context)]
    all_groups += [cohort.spec.resource_groups for cohort in list_cohorts(context)]
    for groups in all_groups:
        for key, quota in parse_quotas(groups).items():
            totals[key] = add(totals.get(key, 0), quota.nominal)
    return totals


def _is_extended_resource(context: LintContext, resource: str) -> bool:
    """Return whether only nodes can offer a resource: a device that no DeviceClass of the cluster may stand for."""
    assert context.cluster is not None
    return "/" in resource and not context.cluster.device_classes and context.cluster.gap("DeviceClass") is None


def _describe_allocatable(node_count: int, key: FlavorResource, amount: int) -> str:
    """Say how much of a resource the nodes of a flavor have."""
    verb = "has" if node_count == 1 else "have"
    return f"{verb} {format_units(key.resource, amount)} allocatable" if amount else f"{verb} none"
