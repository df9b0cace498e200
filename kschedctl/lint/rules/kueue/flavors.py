"""Rules about ResourceFlavors of Kueue and the nodes that they select."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from kschedctl.api.objects import Node
from kschedctl.api.quantity import QuantityError
from kschedctl.api.queueing import AdmissionCheck, ClusterQueue, Cohort, ResourceFlavor
from kschedctl.autoscaling.node_groups.discovery import has_node_groups
from kschedctl.kueue.amounts import (
    UNLIMITED,
    FlavorResource,
    Usage,
    add_amounts,
    format_amount,
    parse_requests,
)
from kschedctl.kueue.cluster_queues import read_queue_settings
from kschedctl.kueue.quota_tree import parse_quotas
from kschedctl.lint.analysis.near_names import find_similar_name
from kschedctl.lint.context import LintContext
from kschedctl.lint.objects.kinds import WrittenNodePool
from kschedctl.lint.objects.subject import Path, Problem, Subject, join_names
from kschedctl.lint.rule import NOTE, WARNING, Rule
from kschedctl.lint.rules.kueue.references import MIN_LETTERS, list_cluster_queues, list_cohorts
from kschedctl.text.counts import agreeing, counted

FLAVORS = "https://kueue.sigs.k8s.io/docs/concepts/resource_flavor/"
_NODE_PROVIDERS = ("kueue.x-k8s.io/multikueue", "kueue.x-k8s.io/provisioning-request")
"""Controllers of admission checks that provide nodes after quota is reserved, or run the pods in other clusters."""


def find_flavors_without_nodes(context: LintContext) -> Iterator[Problem]:
    """Find ResourceFlavors whose node labels no node of the cluster has.

    Finds nothing if an autoscaler may add nodes. Flavors whose nodes an admission check provides are left out.
    """
    assert context.cluster is not None
    nodes = context.cluster.nodes
    flavors = [item for item in context.list_linted_objects(ResourceFlavor) if item.value.spec.node_labels]
    if not flavors or not nodes or _may_add_nodes(context):
        return
    flavors_with_provided_nodes = _list_flavors_with_provided_nodes(context)
    for subject, flavor in flavors:
        if subject.name not in flavors_with_provided_nodes and not _select_flavor_nodes(flavor, nodes):
            yield _build_unmatched_labels_problem(subject, flavor.spec.node_labels, nodes)


KQ_FLAVOR_NO_NODE = Rule(
    "kq-flavor-no-node",
    WARNING,
    find_flavors_without_nodes,
    summary="A ResourceFlavor with nodeLabels that no node has",
    why="Kueue admits Workloads in this flavor, but their pods stay Pending. Not checked if an autoscaler or an "
    "admission check may provide nodes.",
    fix="Label the nodes, or correct spec.nodeLabels",
    source=FLAVORS,
    needs_cluster=True,
)


def _build_unmatched_labels_problem(subject: Subject, labels: Mapping[str, str], nodes: Sequence[Node]) -> Problem:
    """Build the problem of a ResourceFlavor whose node labels match no node.

    The problem points at the first label that no node has. If each label is on some node, the problem says that no node
    has all of the labels.
    """
    for key, value in labels.items():
        existing_values = {node.metadata.labels[key] for node in nodes if key in node.metadata.labels}
        if value not in existing_values:
            similar_value = find_similar_name(value, existing_values, MIN_LETTERS)
            message = f"no node has the label {key}={value}"
            if existing_values:
                message += f"; nodes have {key}={join_names(sorted(existing_values))}"
            fix = f"Write {similar_value}" if similar_value else ""
            return subject.build_problem(("spec", "nodeLabels", key), message, fix)
    listed_labels = " and ".join(f"{key}={value}" for key, value in labels.items())
    return subject.build_problem(("spec", "nodeLabels"), f"no node has all of {listed_labels}")


def find_quota_over_nodes(context: LintContext) -> Iterator[Problem]:
    """Find ResourceFlavors whose total nominal quota exceeds the allocatable resources of their nodes.

    The quota of all known ClusterQueues and Cohorts is added up, and each excess is reported once, at the largest
    linted quota. Finds nothing if nodes may be added. Flavors without nodes, with unlimited quota or with nodes that an
    admission check provides are left out.
    """
    assert context.cluster is not None
    quotas = list(_iter_linted_quotas(context))
    if not quotas or _may_add_nodes(context):
        return
    largest_quotas: dict[FlavorResource, _LintedQuota] = {}
    for quota in quotas:
        if quota.key not in largest_quotas or quota.amount > largest_quotas[quota.key].amount:
            largest_quotas[quota.key] = quota

    capacity = _measure_flavor_capacity(context, {quota.key.flavor for quota in quotas})
    totals = _sum_nominal_quota(context)
    flavors_with_provided_nodes = _list_flavors_with_provided_nodes(context)
    offered_resources = {key.resource for key, amount in capacity.amounts.items() if amount}
    for key, quota in largest_quotas.items():
        total, allocatable = totals[key], capacity.amounts.get(key, 0)
        node_count = capacity.node_counts.get(key.flavor, 0)
        if UNLIMITED in (total, quota.amount) or key.flavor in flavors_with_provided_nodes or not node_count:
            continue
        if key.resource not in offered_resources and not _is_extended_resource(context, key.resource):
            continue  # a resource that quota counts but nodes do not offer, such as pods of a DeviceClass
        if total > allocatable:
            nodes_have = f"{counted(node_count, 'node')} {_describe_allocatable_amount(node_count, key, allocatable)}"
            message = (
                f"the nominal quota in flavor {key.flavor} is {format_amount(key.resource, total)} {key.resource} in "
                f"total, but its {nodes_have}"
            )
            yield quota.subject.build_problem(quota.path, message)


KQ_QUOTA_OVER_NODES = Rule(
    "kq-quota-over-nodes",
    WARNING,
    find_quota_over_nodes,
    summary="Total nominalQuota in a ResourceFlavor above the allocatable resources of its nodes",
    why="Kueue admits Workloads for which no node has room: their pods stay Pending and occupy the quota. Not "
    "checked if an autoscaler or an admission check may provide nodes.",
    fix="Lower nominalQuota, or add nodes with the labels of the flavor",
    source="https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/#resources",
    needs_cluster=True,
)


def find_flavors_without_quota(context: LintContext) -> Iterator[Problem]:
    """Find ResourceFlavors without quota that have nodes which belong to no flavor with quota.

    Finds nothing unless all ClusterQueues and Cohorts are known.
    """
    assert context.cluster is not None
    flavors = context.list_linted_objects(ResourceFlavor)
    queues = context.list_all_objects(ClusterQueue)
    if not flavors or not queues or not context.are_all_read("ClusterQueue", "Cohort"):
        return
    nodes = context.cluster.nodes
    flavors_with_quota = _find_flavors_with_quota([*queues, *context.list_all_objects(Cohort)])
    nodes_with_quota: set[str] = set()
    for flavor in context.list_all_objects(ResourceFlavor):
        if flavor.metadata.name in flavors_with_quota:
            nodes_with_quota.update(_select_names_of_flavor_nodes(flavor, nodes))

    for subject, flavor in flavors:
        if subject.name in flavors_with_quota:
            continue
        idle_names = [name for name in _select_names_of_flavor_nodes(flavor, nodes) if name not in nodes_with_quota]
        if idle_names:
            message = (
                f"no ClusterQueue or Cohort has quota in this flavor, so Kueue admits nothing for "
                f"{counted(len(idle_names), 'node')} ({join_names(idle_names)})"
            )
            yield subject.build_problem(("metadata", "name"), message)


def _find_flavors_with_quota(quota_objects: Iterable[ClusterQueue | Cohort]) -> set[str]:
    """Return the names of the flavors in which a ClusterQueue or Cohort has quota, even if the quota is 0."""
    groups = chain.from_iterable(quota_object.spec.resource_groups for quota_object in quota_objects)
    return {flavor.name for group in groups for flavor in group.flavors}


KQ_NODES_WITHOUT_QUOTA = Rule(
    "kq-nodes-without-quota",
    NOTE,
    find_flavors_without_quota,
    summary="A ResourceFlavor for which no ClusterQueue or Cohort has quota",
    why="The flavor's nodes get no Workloads: they are idle while Workloads wait for quota.",
    fix="Add the flavor to a ClusterQueue, or delete it",
    source=FLAVORS,
    needs_cluster=True,
)


def _may_add_nodes(context: LintContext) -> bool:
    """Return whether Karpenter or another autoscaler may add nodes to the cluster."""
    assert context.cluster is not None
    has_pools = bool(context.list_linted_objects(WrittenNodePool) or context.cluster.karpenter_node_pools)
    return has_pools or has_node_groups(context.cluster)


def _list_flavors_with_provided_nodes(context: LintContext) -> set[str]:
    """Return the names of the flavors to which a ClusterQueue applies a check that provides nodes.

    Such admission checks create nodes for a Workload, or run its pods in another cluster.
    """
    provider_checks = {
        check.metadata.name
        for check in context.list_all_objects(AdmissionCheck)
        if check.spec.controller_name in _NODE_PROVIDERS
    }
    flavors_with_provided_nodes: set[str] = set()
    if not provider_checks:
        return flavors_with_provided_nodes
    for queue in list_cluster_queues(context):
        for check, flavors in read_queue_settings(queue).checks.items():
            if check in provider_checks:
                flavors_with_provided_nodes.update(flavors)
    return flavors_with_provided_nodes


def _select_flavor_nodes(flavor: ResourceFlavor, nodes: Iterable[Node]) -> list[Node]:
    """Return the nodes that have all labels of a flavor."""
    labels = flavor.spec.node_labels.items()
    return [node for node in nodes if labels <= node.metadata.labels.items()]


def _select_names_of_flavor_nodes(flavor: ResourceFlavor, nodes: Iterable[Node]) -> list[str]:
    """Return the names of the nodes that have all labels of a flavor."""
    return [node.metadata.name for node in _select_flavor_nodes(flavor, nodes)]


class _FlavorCapacity(NamedTuple):
    """The allocatable resources and the number of nodes of each flavor."""

    amounts: Usage
    node_counts: dict[str, int]


def _measure_flavor_capacity(context: LintContext, flavor_names: set[str]) -> _FlavorCapacity:
    """Count the cluster's nodes of each named flavor, and add up their allocatable resources.

    A node with a malformed quantity is counted, but adds no resources.
    """
    assert context.cluster is not None
    nodes = context.cluster.nodes
    allocatable_by_node = {node.metadata.name: _parse_allocatable_resources(node) for node in nodes}
    capacity = _FlavorCapacity(amounts={}, node_counts={})
    for flavor in context.list_all_objects(ResourceFlavor):
        flavor_name = flavor.metadata.name
        if flavor_name not in flavor_names:
            continue
        flavor_nodes = _select_flavor_nodes(flavor, nodes)
        capacity.node_counts[flavor_name] = len(flavor_nodes)
        for node in flavor_nodes:
            for resource, amount in allocatable_by_node[node.metadata.name].items():
                key = FlavorResource(flavor_name, resource)
                capacity.amounts[key] = add_amounts(capacity.amounts.get(key, 0), amount)
    return capacity


def _parse_allocatable_resources(node: Node) -> dict[str, int]:
    """Parse the allocatable resources of a node, or return {} if a quantity is malformed."""
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
    """Yield the nominal quotas of the linted ClusterQueues and Cohorts.

    Objects with invalid quantities are left out.
    """
    linted_groups = [
        (subject, queue.spec.resource_groups) for subject, queue in context.list_linted_objects(ClusterQueue)
    ]
    linted_groups += [(subject, cohort.spec.resource_groups) for subject, cohort in context.list_linted_objects(Cohort)]
    for subject, groups in linted_groups:
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
            totals[key] = add_amounts(totals.get(key, 0), quota.nominal)
    return totals


def _is_extended_resource(context: LintContext, resource: str) -> bool:
    """Return whether only nodes can offer a resource, since no DeviceClass of the cluster can provide it."""
    assert context.cluster is not None
    return "/" in resource and not context.cluster.device_classes and context.cluster.find_gap("DeviceClass") is None


def _describe_allocatable_amount(node_count: int, key: FlavorResource, amount: int) -> str:
    """Describe how much of a resource a flavor's nodes have, as in ``have 8 allocatable`` or ``has none``."""
    verb = agreeing(node_count, "has", "have")
    if not amount:
        return f"{verb} none"
    return f"{verb} {format_amount(key.resource, amount)} allocatable"
