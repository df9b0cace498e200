"""Labels and resources that the template of a node group without nodes lacks, so that the group never grows.

The Cluster Autoscaler knows a new node of such a group only by what its cloud says. What the cloud does not say has to
be told by a tag or an annotation. Upstream: aws_manager.go (extractLabelsFromAsg, extractAllocatableResourcesFromAsg),
azure_template.go, clusterapi_utils.go under cluster-autoscaler/cloudprovider (1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from kschedctl.api.copying import replace
from kschedctl.api.objects import Node, Pod, SelectorRequirement
from kschedctl.api.quantity import Quantity, parse
from kschedctl.autoscaling.cluster_autoscaler.options import AutoscaledGroup, NodeGroupList
from kschedctl.reports.scale_up import TemplateGap
from kschedctl.snapshot.node_order import ZONE

MOST_REPLAYED = 10
"""How many changed templates are replayed; each costs a loop of the autoscaler."""
MOST_DOMAINS = 3
"""How many values of a topology label are tried."""
MACHINES = frozenset(["cpu", "memory", "pods"])
"""Resources that every template has."""
ANY_VALUE = "true"
"""The value for a label of which only the existence is asked for."""
CLUSTER_API_KINDS = ("MachineDeployment/", "MachineSet/", "MachinePool/")


class Provider(Enum):
    """Who tells the autoscaler what a new node is."""

    AWS = "AWS"
    AZURE = "Azure"
    CLUSTER_API = "Cluster API"
    UNKNOWN = ""


@dataclass(frozen=True)
class Lack:
    """What a template lacks for a pod."""

    labels: Mapping[str, str]
    resources: Mapping[str, int]

    def added_to(self, template: Node) -> Node:
        """Return the template with what it lacks."""
        meta = replace(template.metadata, labels={**template.metadata.labels, **self.labels})
        resources = {name: str(amount) for name, amount in self.resources.items()}
        status = replace(
            template.status,
            allocatable={**template.status.allocatable, **resources},
            capacity={**template.status.capacity, **resources},
        )
        return replace(template, metadata=meta, status=status)

    def describe(self) -> tuple[str, ...]:
        """Return ``label grp=windows``, ``resource nvidia.com/gpu``."""
        return (
            *(f"label {key}={value}" for key, value in self.labels.items()),
            *(f"resource {name}" for name in self.resources),
        )

    def settings(self, provider: Provider) -> tuple[str, ...]:
        """Return the tags or annotations by which the provider learns of what the template lacks."""
        if provider is Provider.CLUSTER_API:
            prefix = "capacity.cluster-autoscaler.kubernetes.io"
            labels = ",".join(f"{key}={value}" for key, value in self.labels.items())
            gpus = [(f"gpu-type={name}", f"gpu-count={amount}") for name, amount in self.resources.items()]
            return (
                *((f"annotation {prefix}/labels={labels}",) if labels else ()),
                *(f"annotation {prefix}/{setting}" for pair in gpus for setting in pair),
            )
        if provider is Provider.AZURE:
            prefix, separator = "k8s.io_cluster-autoscaler_node-template_", "_"
            names = {name: name.replace("/", "_") for name in (*self.labels, *self.resources)}
        else:
            prefix, separator = "k8s.io/cluster-autoscaler/node-template/", "/"
            names = {name: name for name in (*self.labels, *self.resources)}
        labels_and_resources = [("label", self.labels), ("resources", {k: str(v) for k, v in self.resources.items()})]
        return tuple(
            f"tag {prefix}{kind}{separator}{names[name]}={value}"
            for kind, values in labels_and_resources
            for name, value in values.items()
        )


Replay = Callable[[NodeGroupList, str, Pod], bool]
"""Whether a new node of the named group would take a pod, if the groups were these."""


def find_template_gaps(
    groups: NodeGroupList,
    nodes: Iterable[Node],
    remaining: Iterable[tuple[Pod, tuple[str, ...], Mapping[str, int]]],
    replay: Replay,
) -> Iterator[TemplateGap]:
    """Yield what the templates of groups without nodes lack for the pods that remain, each replayed.

    ``remaining`` has, for pods that are alike, the first pod, the keys of all, and what each requests.
    """
    nodes = list(nodes)
    with_nodes = {groups.of_node[name].id for node in nodes if (name := node.metadata.name) in groups.of_node}
    empty = [group for group in groups.all if group.template is not None and group.id not in with_nodes]
    replayed = 0
    for pod, keys, requests in remaining:
        for group in empty:
            for lack in find_lacks(pod, requests, group, nodes):
                if replayed == MOST_REPLAYED:
                    return
                replayed += 1
                assert group.template is not None
                changed = replace(group, template=lack.added_to(group.template))
                all_groups = tuple(changed if each.id == group.id else each for each in groups.all)
                if replay(groups._replace(all=all_groups), group.id, pod):
                    provider = provider_of(group, nodes)
                    yield TemplateGap(group.id, keys, lack.describe(), lack.settings(provider), provider.value)
                    break


def find_lacks(pod: Pod, requests: Mapping[str, int], group: AutoscaledGroup, nodes: Sequence[Node]) -> Iterator[Lack]:
    """Yield what the group's template may lack for a pod: labels and resources, then a zone besides.

    A label with another value is no gap: the group is of another kind then. A template without a zone may be in any
    zone of the cluster; spread constraints, affinity and volumes want to know which.
    """
    assert group.template is not None
    labels, has = group.template.metadata.labels, group.template.status.allocatable
    resources = {name: n for name, n in requests.items() if n > 0 and name not in MACHINES and _is_zero(has.get(name))}
    for wanted in _alternatives(pod):
        if any(values and key in labels and labels[key] not in values for key, values in wanted.items()):
            continue
        missing = {key: next(iter(values), ANY_VALUE) for key, values in wanted.items() if key not in labels}
        if missing or resources:
            yield Lack(missing, resources)
        if ZONE not in labels and ZONE not in wanted:
            zones = sorted({zone for node in nodes if (zone := node.metadata.labels.get(ZONE))})
            yield from (Lack({**missing, ZONE: zone}, resources) for zone in zones[:MOST_DOMAINS])


def _is_zero(quantity: str | float | None) -> bool:
    return quantity is None or parse(str(quantity)) == Quantity(0)


def _alternatives(pod: Pod) -> Iterator[Mapping[str, tuple[str, ...]]]:
    """Yield the labels that each required node affinity term asks for, with those of the node selector.

    Each label has the values that are allowed; no value stands for any.
    """
    selected: dict[str, tuple[str, ...]] = {key: (value,) for key, value in pod.spec.node_selector.items()}
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    for term in required.node_selector_terms if required else ():
        yield {**dict(_iter_required_labels(term.match_expressions)), **selected}
    if required is None:
        yield selected


def _iter_required_labels(expressions: Iterable[SelectorRequirement]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the label keys and allowed values of the expressions."""
    for expression in expressions:
        if expression.operator == "In":
            yield expression.key, expression.values or ()
        elif expression.operator == "Exists":
            yield expression.key, ()


def provider_of(group: AutoscaledGroup, nodes: Iterable[Node]) -> Provider:
    """Return who tells the autoscaler about the group: Cluster API by its name, a cloud by the nodes of the cluster."""
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
