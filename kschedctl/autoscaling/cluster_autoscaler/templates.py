"""Templates of new nodes, made from a node of the group or from the cloud provider's template.

Upstream: processors/nodeinfosprovider/mixed_nodeinfos_processor.go, simulator/node_info_utils.go (1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kschedctl.api.copying import replace
from kschedctl.api.defaults import apply_node_defaults
from kschedctl.api.node_selector import compile_required_node_affinity
from kschedctl.api.objects import Node, OwnerReference, Pod, PodMeta, PodStatus, StoredWorkload
from kschedctl.api.tolerations import HARD_EFFECTS, find_untolerated_taint
from kschedctl.api.workloads import add_daemon_tolerations
from kschedctl.autoscaling.cluster_autoscaler import nodes as node_facts
from kschedctl.autoscaling.cluster_autoscaler.options import AutoscaledGroup, AutoscalerOptions, NodeGroupList
from kschedctl.autoscaling.cluster_autoscaler.pods import get_controller, is_daemon_set_pod, is_mirror_pod
from kschedctl.snapshot.nodes import BETA_REGION, BETA_ZONE, HOSTNAME, REGION, ZONE

NODE_CRITICAL = "system-node-critical"
TEMPLATE_LABEL = "cluster-autoscaler.kubernetes.io/template-node"
_DEPRECATED = {
    "node.kubernetes.io/instance-type": "beta.kubernetes.io/instance-type",
    ZONE: BETA_ZONE,
    REGION: BETA_REGION,
}


class NodeTemplate(NamedTuple):
    """A new node of a group, and the pods that run on it from the start."""

    node: Node
    pods: tuple[Pod, ...]


class TemplateSources(NamedTuple):
    """The data from which templates are built."""

    list_pods_on_node: Callable[[str], Sequence[Pod]]
    """Returns the counted pods of a node."""
    daemon_sets: Sequence[StoredWorkload]
    options: AutoscalerOptions
    now: int
    """Microseconds since 1970."""


def build_templates(groups: NodeGroupList, nodes: Sequence[Node], sources: TemplateSources) -> dict[str, NodeTemplate]:
    """Build the template of each group and return them by group.

    The first good example among the group's nodes is preferred. Next come the cloud provider's template and any other
    node of the group. Groups with none of these are left out. ``nodes`` are in the order in which the API server listed
    them.
    """
    is_good = {node.metadata.name: _is_good_template_example(node, sources.now) for node in nodes}
    examples = _find_first_node_of_groups(groups, (node for node in nodes if is_good[node.metadata.name]))
    poor_examples = _find_first_node_of_groups(groups, (node for node in nodes if not is_good[node.metadata.name]))
    templates: dict[str, NodeTemplate] = {}
    for group in groups.all:
        if group.id in examples:
            templates[group.id] = _build_template_from_node(group, examples[group.id], sources)
        elif group.template is not None:
            templates[group.id] = _build_template_from_cloud(group, group.template, sources)
        elif group.id in poor_examples:
            templates[group.id] = _build_template_from_node(group, poor_examples[group.id], sources)
    return templates


def _is_good_template_example(node: Node, now: int) -> bool:
    """Return whether the node resembles a new one: ready for some time, neither cordoned nor being deleted."""
    readiness = node_facts.get_readiness(node)
    is_stable = readiness.since + node_facts.STABLE_AFTER < now
    is_being_deleted = any(taint.key == node_facts.TO_BE_DELETED for taint in node.spec.taints)
    return readiness.ready and is_stable and not node.spec.unschedulable and not is_being_deleted


def _find_first_node_of_groups(groups: NodeGroupList, nodes: Iterable[Node]) -> dict[str, Node]:
    """Return, by group, the first of these nodes that belongs to the group. Groups without such a node are left out."""
    first: dict[str, Node] = {}
    for node in nodes:
        if group := groups.of_node.get(node.metadata.name):
            first.setdefault(group.id, node)
    return first


def _build_template_from_node(group: AutoscaledGroup, node: Node, sources: TemplateSources) -> NodeTemplate:
    """Build a template from a node with its mirror and DaemonSet pods.

    For each DaemonSet without a pod on the node, a pod is added if ``--force-ds`` is set or if the pod is node-critical
    and can preempt other pods.
    """
    template_node = _build_template_node(group, node, sources.options)
    pods_on_node = [pod for pod in sources.list_pods_on_node(node.metadata.name) if not pod.metadata.deletion_timestamp]
    kept_pods = [pod for pod in pods_on_node if is_mirror_pod(pod) or is_daemon_set_pod(pod)]

    controllers = [get_controller(pod) for pod in pods_on_node]
    running_uids = {owner.uid for owner in controllers if owner and owner.kind == "DaemonSet"}
    missing_daemon_sets = [workload for workload in sources.daemon_sets if workload.metadata.uid not in running_uids]
    added_pods = [
        pod
        for pod in iter_daemon_pods(template_node, missing_daemon_sets)
        if sources.options.force_daemon_sets or _preempts_as_node_critical(pod)
    ]
    return NodeTemplate(template_node, tuple(_iter_running_pod_copies(template_node, [*kept_pods, *added_pods])))


def _build_template_from_cloud(group: AutoscaledGroup, node: Node, sources: TemplateSources) -> NodeTemplate:
    """Build a template from the cloud provider's node, with the provider's pods and the pods of DaemonSets.

    The deprecated labels for the zone, region and instance type are added.
    """
    fresh = _build_template_node(group, node, sources.options)
    pods = tuple(_iter_running_pod_copies(fresh, (*group.template_pods, *iter_daemon_pods(fresh, sources.daemon_sets))))
    labels = fresh.metadata.labels
    deprecated = {old: labels[new] for new, old in _DEPRECATED.items() if new in labels}
    return NodeTemplate(_replace_labels(fresh, {**labels, **deprecated}), pods)


def _build_template_node(group: AutoscaledGroup, node: Node, options: AutoscalerOptions) -> Node:
    """Return a copy of the node under the name of the group's template, with only the taints of new nodes.

    A label marks the copy as a template, and the API's defaults are filled in.
    """
    name = f"template-node-for-{group.id}"
    labels = {**node.metadata.labels, HOSTNAME: name, TEMPLATE_LABEL: "true"}
    taints = tuple(taint for taint in node.spec.taints if not _is_temporary_taint(taint.key, options))
    meta = replace(node.metadata, name=name, uid="", labels=labels)
    return apply_node_defaults(replace(node, metadata=meta, spec=replace(node.spec, taints=taints)))


def _is_temporary_taint(key: str, options: AutoscalerOptions) -> bool:
    """Return whether the taint with this key is temporary, so that templates leave it out.

    Temporary taints are those for node conditions, the startup and status taints that the options define, and the
    taints that the autoscaler puts on nodes to be deleted.
    """
    return (
        key in (node_facts.TO_BE_DELETED, node_facts.DELETION_CANDIDATE)
        or key in node_facts.CONDITION_TAINTS
        or node_facts.is_startup_taint(key, options)
        or node_facts.is_status_taint(key, options)
    )


def iter_daemon_pods(node: Node, daemon_sets: Iterable[StoredWorkload]) -> Iterator[Pod]:
    """Yield a pod of each DaemonSet that would run on the node.

    The node's name, labels and taints decide, but not its resources.
    """
    for workload in daemon_sets:
        template = workload.spec.template
        spec = add_daemon_tolerations(template.spec)
        name, labels = node.metadata.name, node.metadata.labels
        if template.spec.node_name not in ("", name):
            continue
        if not compile_required_node_affinity(spec).allows(labels, name):
            continue
        if find_untolerated_taint(node.spec.taints, spec.tolerations, HARD_EFFECTS) is not None:
            continue
        meta = workload.metadata
        owner = OwnerReference("DaemonSet", meta.name, "apps/v1", meta.uid, controller=True)
        pod_meta = PodMeta(
            f"{meta.name}-pod",
            meta.namespace,
            labels=template.metadata.labels,
            owner_references=(owner,),
            annotations=template.metadata.annotations,
        )
        yield Pod(pod_meta, spec, PodStatus("Pending"))


def _preempts_as_node_critical(pod: Pod) -> bool:
    """Return whether the pod is node-critical and may preempt other pods.

    Such a pod also runs on a full node.
    """
    return pod.spec.priority_class_name == NODE_CRITICAL and pod.spec.preemption_policy in (
        None,
        "PreemptLowerPriority",
    )


def _iter_running_pod_copies(node: Node, pods: Iterable[Pod]) -> Iterator[Pod]:
    """Yield running copies of the pods, with new names and bound to the template node."""
    for number, pod in enumerate(pods):
        name = f"{pod.metadata.name}-{node.metadata.name}-{number}"
        spec = replace(pod.spec, node_name=node.metadata.name)
        yield Pod(replace(pod.metadata, name=name, uid=""), spec, PodStatus("Running"))


def copy_node_with_suffix(template: Node, suffix: str) -> Node:
    """Return a copy of a template node with a suffix added to its name and hostname label."""
    return copy_node_with_name(template, build_suffixed_name(template, suffix))


def build_suffixed_name(template: Node, suffix: str) -> str:
    """Return the template's name with a suffix added."""
    return f"{template.metadata.name}-{suffix}"


def copy_node_with_name(template: Node, name: str) -> Node:
    """Return a copy of a template node with another name and hostname label."""
    named = replace(template, metadata=replace(template.metadata, name=name))
    return _replace_labels(named, {**template.metadata.labels, HOSTNAME: name})


def _replace_labels(node: Node, labels: Mapping[str, str]) -> Node:
    """Return a copy of the node with exactly these labels."""
    return replace(node, metadata=replace(node.metadata, labels=dict(labels)))
