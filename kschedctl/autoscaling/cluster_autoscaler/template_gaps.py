"""Gaps in the template of an empty node group: labels and resources without which the group never grows.

The Cluster Autoscaler knows a new node of such a group only from its cloud provider. What the provider does not report
must be declared by a tag or an annotation. Upstream: aws_manager.go (extractLabelsFromAsg,
extractAllocatableResourcesFromAsg), azure_template.go, clusterapi_utils.go under cluster-autoscaler/cloudprovider
(1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import product
from typing import NamedTuple

from kschedctl.api.copying import replace
from kschedctl.api.objects import Node, Pod, SelectorRequirement
from kschedctl.api.quantity import Quantity, parse_quantity
from kschedctl.autoscaling.cluster_autoscaler.options import AutoscaledGroup, NodeGroupList
from kschedctl.reports.cluster_autoscaler import TemplateGap
from kschedctl.snapshot.nodes import ZONE

MAX_REPLAYS = 10
"""Maximum number of changed templates that are replayed. Each costs a loop of the autoscaler."""
MAX_TRIED_ZONES = 3
"""Maximum number of zones that are tried."""
UNIVERSAL_RESOURCES = frozenset(["cpu", "memory", "pods"])
"""Resources that every template has."""
ANY_VALUE = "true"
"""The value of a label that only has to exist."""
CLUSTER_API_KINDS = ("MachineDeployment/", "MachineSet/", "MachinePool/")


class Provider(Enum):
    """A cloud provider, from which the autoscaler learns what a new node of a group is like."""

    AWS = "AWS"
    AZURE = "Azure"
    CLUSTER_API = "Cluster API"
    UNKNOWN = ""


@dataclass(frozen=True)
class TemplateAdditions:
    """Labels and resources to add to a template so that it matches a pod."""

    labels: Mapping[str, str]
    resources: Mapping[str, int]

    def add_to_template(self, template: Node) -> Node:
        """Return the template with the missing labels and resources added."""
        meta = replace(template.metadata, labels={**template.metadata.labels, **self.labels})
        resources = {name: str(amount) for name, amount in self.resources.items()}
        status = replace(
            template.status,
            allocatable={**template.status.allocatable, **resources},
            capacity={**template.status.capacity, **resources},
        )
        return replace(template, metadata=meta, status=status)

    def describe(self) -> tuple[str, ...]:
        """Describe each missing label and resource, such as ``label grp=windows`` or ``resource nvidia.com/gpu``."""
        return (
            *(f"label {key}={value}" for key, value in self.labels.items()),
            *(f"resource {name}" for name in self.resources),
        )

    def build_provider_settings(self, provider: Provider) -> tuple[str, ...]:
        """Return the tags or annotations that declare the missing labels and resources to the provider.

        An unknown provider gets the tags of AWS.
        """
        if provider is Provider.CLUSTER_API:
            prefix = "capacity.cluster-autoscaler.kubernetes.io"
            settings = []
            if self.labels:
                labels = ",".join(f"{key}={value}" for key, value in self.labels.items())
                settings.append(f"annotation {prefix}/labels={labels}")
            # GPUs are the only extended resources for which Cluster API has annotations.
            for name, amount in self.resources.items():
                settings.append(f"annotation {prefix}/gpu-type={name}")
                settings.append(f"annotation {prefix}/gpu-count={amount}")
            return tuple(settings)
        if provider is Provider.AZURE:
            # The names of Azure's tags have no slash
            prefix, separator = "k8s.io_cluster-autoscaler_node-template_", "_"
            names = {name: name.replace("/", "_") for name in (*self.labels, *self.resources)}
        else:
            prefix, separator = "k8s.io/cluster-autoscaler/node-template/", "/"
            names = {name: name for name in (*self.labels, *self.resources)}
        label_prefix, resource_prefix = f"{prefix}label{separator}", f"{prefix}resources{separator}"
        return (
            *(f"tag {label_prefix}{names[key]}={value}" for key, value in self.labels.items()),
            *(f"tag {resource_prefix}{names[name]}={amount}" for name, amount in self.resources.items()),
        )


class UnhelpedPods(NamedTuple):
    """Similar pods of one controller for which no node group would grow."""

    first: Pod
    keys: tuple[str, ...]
    """Keys of all the pods."""
    requests: Mapping[str, int]
    """Requests of one pod, in millicores, bytes or units."""


Replay = Callable[[NodeGroupList, str, Pod], bool]
"""A function that returns whether a new node of the named group would take a pod, given these groups."""


def iter_template_gaps(
    groups: NodeGroupList,
    nodes: Iterable[Node],
    remaining: Iterable[UnhelpedPods],
    replay: Replay,
) -> Iterator[TemplateGap]:
    """Yield the template gaps of empty node groups that keep the remaining pods from getting a node.

    Each gap is confirmed by a replay in which it is filled. At most MAX_REPLAYS replays are run, and at most one gap is
    yielded for each group and set of similar pods.
    """
    nodes = list(nodes)
    node_names = [node.metadata.name for node in nodes]
    groups_with_nodes = {groups.of_node[name].id for name in node_names if name in groups.of_node}
    empty = [group for group in groups.all if group.template is not None and group.id not in groups_with_nodes]
    replay_count = 0
    for pods, group in product(remaining, empty):
        for additions in iter_possible_template_additions(pods.first, pods.requests, group, nodes):
            if replay_count == MAX_REPLAYS:
                return
            replay_count += 1
            if replay(_fill_template_gap(groups, group, additions), group.id, pods.first):
                provider = detect_cloud_provider(group, nodes)
                yield TemplateGap(
                    group.id,
                    pods.keys,
                    additions.describe(),
                    additions.build_provider_settings(provider),
                    provider.value,
                )
                break


def _fill_template_gap(groups: NodeGroupList, group: AutoscaledGroup, additions: TemplateAdditions) -> NodeGroupList:
    """Return the groups, with the missing labels and resources added to the template of one group."""
    assert group.template is not None
    changed = replace(group, template=additions.add_to_template(group.template))
    all_groups = tuple(changed if other_group.id == group.id else other_group for other_group in groups.all)
    return groups._replace(all=all_groups)


def iter_possible_template_additions(
    pod: Pod, requests: Mapping[str, int], group: AutoscaledGroup, nodes: Sequence[Node]
) -> Iterator[TemplateAdditions]:
    """Yield combinations of missing labels and resources that would complete the group's template for a pod.

    The combinations follow the pod's required label sets. A set is left out if the template has a different value for
    one of its labels, because the group's nodes then really do not match.

    If neither the template nor the set names a zone, new nodes may be in any zone of the cluster, which matters for
    spread constraints, affinity and volumes. The set's combination is then also yielded with each of the first
    MAX_TRIED_ZONES zones.
    """
    assert group.template is not None
    template_labels = group.template.metadata.labels
    missing_resources = _find_missing_resources(requests, group.template)
    cluster_zones = sorted({node.metadata.labels.get(ZONE, "") for node in nodes} - {""})

    for required_labels in _iter_required_label_sets(pod):
        if _has_different_value(template_labels, required_labels):
            continue
        missing_labels = {
            key: next(iter(values), ANY_VALUE) for key, values in required_labels.items() if key not in template_labels
        }
        if missing_labels or missing_resources:
            yield TemplateAdditions(missing_labels, missing_resources)
        is_any_zone_possible = ZONE not in template_labels and ZONE not in required_labels
        if is_any_zone_possible:
            for zone in cluster_zones[:MAX_TRIED_ZONES]:
                yield TemplateAdditions({**missing_labels, ZONE: zone}, missing_resources)


def _find_missing_resources(requests: Mapping[str, int], template: Node) -> dict[str, int]:
    """Return the requests of resources of which the template has none."""
    allocatable = template.status.allocatable
    return {
        name: amount
        for name, amount in requests.items()
        if amount > 0 and name not in UNIVERSAL_RESOURCES and _is_missing_or_zero(allocatable.get(name))
    }


def _has_different_value(labels: Mapping[str, str], required_labels: Mapping[str, Sequence[str]]) -> bool:
    """Return whether a required label exists with none of the required values. Without values, any value suffices."""
    return any(values and key in labels and labels[key] not in values for key, values in required_labels.items())


def _is_missing_or_zero(quantity: str | float | None) -> bool:
    """Return whether the quantity is zero or not given."""
    return quantity is None or parse_quantity(str(quantity)) == Quantity(0)


def _iter_required_label_sets(pod: Pod) -> Iterator[Mapping[str, tuple[str, ...]]]:
    """Yield the sets of labels with which a node matches the pod: one for each required node affinity term.

    Without required node affinity, only the node selector is yielded. Otherwise, each set includes the node selector.
    A set maps each label to its allowed values, and an empty tuple allows any value.
    """
    selected: dict[str, tuple[str, ...]] = {key: (value,) for key, value in pod.spec.node_selector.items()}
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    if required is None:
        yield selected
        return
    for term in required.node_selector_terms:
        yield {**dict(_iter_required_labels(term.match_expressions)), **selected}


def _iter_required_labels(expressions: Iterable[SelectorRequirement]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each label that the expressions require, with the allowed values.

    The values are an empty tuple if any value is allowed. Expressions other than In and Exists are ignored.
    """
    for expression in expressions:
        if expression.operator == "In":
            yield expression.key, expression.values or ()
        elif expression.operator == "Exists":
            yield expression.key, ()


def detect_cloud_provider(group: AutoscaledGroup, nodes: Iterable[Node]) -> Provider:
    """Return a group's cloud provider, based on the group's id or the cluster's nodes.

    Return UNKNOWN if neither shows the provider.
    """
    if group.id.startswith(CLUSTER_API_KINDS):
        return Provider.CLUSTER_API
    for node in nodes:
        if node.spec.provider_id.startswith("aws:") or any(
            key.startswith("eks.amazonaws.com/") for key in node.metadata.labels
        ):
            return Provider.AWS
        if node.spec.provider_id.startswith("azure:"):
            return Provider.AZURE
    return Provider.UNKNOWN
