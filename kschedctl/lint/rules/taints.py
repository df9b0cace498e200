"""Rules about taints of nodes, and about tolerations."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress

import numpy as np

from kschedctl.api.arrays import Bools
from kschedctl.api.json_values import field_at
from kschedctl.api.objects import Taint, Toleration
from kschedctl.api.priority import SYSTEM_CLASSES
from kschedctl.api.resource_names import is_extended
from kschedctl.api.tolerations import HARD_EFFECTS, is_tolerated, tolerates
from kschedctl.api.validation.placement import validate_toleration_seconds
from kschedctl.lint import documentation as doc
from kschedctl.lint.analysis.near_names import find_similar_name
from kschedctl.lint.context import LintContext
from kschedctl.lint.objects.kinds import WrittenNodePool
from kschedctl.lint.objects.subject import Problem, Subject
from kschedctl.lint.objects.workload import InvalidFieldError, Workload, convert_field
from kschedctl.lint.rule import ERROR, NOTE, WARNING, Rule, for_each_workload
from kschedctl.scheduler.plugins.node_affinity import NodeAffinity
from kschedctl.scheduler.plugins.node_unschedulable import NodeUnschedulable
from kschedctl.scheduler.plugins.taint_toleration import TaintToleration
from kschedctl.text.counts import agreeing, capitalize, counted

NOT_READY = Taint("node.kubernetes.io/not-ready", "", "NoExecute")
UNREACHABLE = Taint("node.kubernetes.io/unreachable", "", "NoExecute")
_SPLIT_ADVICE = (
    "Set effect: NoExecute and tolerationSeconds, which no other effect allows, and tolerate NoSchedule separately"
)
_SYSTEM_CLASSES = {system.metadata.name for system in SYSTEM_CLASSES}


def find_tolerations_of_everything(workload: Workload) -> Iterator[Problem]:
    """Report a workload that tolerates all taints.

    DaemonSets and workloads of the system are left out.
    """
    if workload.kind == "DaemonSet" or _is_system_workload(workload):
        return
    tolerations = workload.spec.tolerations
    indices = [i for i, toleration in enumerate(tolerations) if _tolerates_everything(toleration)]
    if indices:
        effect = tolerations[indices[0]].effect if len(indices) == 1 else ""
        taints = f"every {effect} taint" if effect else "every taint"
        pods = "it" if workload.kind == "Pod" else "its pods"
        message = f"tolerates {taints}, so {pods} may run on broken nodes and on nodes reserved for other workloads"
        yield workload.build_problem(("tolerations", indices[0]), message)


TT_TOLERATE_ALL = Rule(
    "tt-tolerate-all",
    WARNING,
    for_each_workload(find_tolerations_of_everything),
    summary="A toleration without a key, which tolerates every taint",
    why="The pods may run on nodes that are not ready, under pressure, dedicated to other workloads, or part of the "
    "control plane.",
    fix="Name the taint with key, operator and effect",
    source=doc.TAINTS,
)


def _is_system_workload(workload: Workload) -> bool:
    """Return whether the workload may have to run on nodes that are not ready."""
    spec = workload.spec
    return "system" in workload.namespace or spec.host_network or spec.priority_class_name in _SYSTEM_CLASSES


def _tolerates_everything(toleration: Toleration) -> bool:
    """Return whether a toleration without a key tolerates every taint of an effect that keeps pods away."""
    return not toleration.key and toleration.operator == "Exists" and toleration.effect in ("", *HARD_EFFECTS)


def find_unlimited_no_execute_tolerations(workload: Workload) -> Iterator[Problem]:
    """Find tolerations of not-ready or unreachable nodes that have no tolerationSeconds.

    DaemonSets and single pods are left out. Tolerations of everything are reported only for system workloads.
    """
    if workload.kind in ("DaemonSet", "Pod"):
        return
    for i, toleration in enumerate(workload.spec.tolerations):
        if toleration.toleration_seconds is not None:
            continue
        if _tolerates_everything(toleration) and not _is_system_workload(workload):
            continue  # tt-tolerate-all reports it
        if any(tolerates(toleration, taint) for taint in (NOT_READY, UNREACHABLE)):
            message = "its pods stay on a failed node forever and are not replaced"
            fix = "" if toleration.effect else _SPLIT_ADVICE
            yield workload.build_problem(("tolerations", i), message, fix)


TT_NOEXECUTE_FOREVER = Rule(
    "tt-noexecute-forever",
    WARNING,
    for_each_workload(find_unlimited_no_execute_tolerations),
    summary="NoExecute toleration without tolerationSeconds",
    why="Pods that tolerate the not-ready or unreachable taint without a limit stay bound to a failed node and are "
    "not replaced.",
    fix="Set tolerationSeconds; the default for pods is 300",
    source=f"{doc.TAINTS}#taint-based-evictions",
)


def find_tolerations_without_value(workload: Workload) -> Iterator[Problem]:
    """Find tolerations with a key but neither a value nor operator Exists.

    Tolerations of Kubernetes' own taints, which have no values, are left out.
    """
    for i, toleration in enumerate(workload.spec.tolerations):
        key = toleration.key
        if not key or "node-role.kubernetes.io/" in key or key.startswith("node."):
            continue
        if "=" in key:
            continue  # api-refused reports it
        if toleration.operator in (None, "", "Equal") and not toleration.value:
            message = f"tolerates the taint {toleration.key} only if the taint has no value"
            yield workload.build_problem(("tolerations", i), message)


TT_EMPTY_VALUE = Rule(
    "tt-empty-value",
    NOTE,
    for_each_workload(find_tolerations_without_value),
    summary="A toleration without a value and without operator: Exists",
    why="The operator is Equal by default, so the toleration matches only taints without a value.",
    fix="Set operator: Exists, or set value to the taint's value",
    source=doc.TAINTS,
)


def find_invalid_toleration_seconds(workload: Workload) -> Iterator[Problem]:
    """Find tolerations with tolerationSeconds and another effect than NoExecute."""
    for i, toleration in enumerate(workload.spec.tolerations):
        yield from workload.to_problems(validate_toleration_seconds(toleration, workload.get_path("tolerations", i)))


TT_SECONDS_ON_NOSCHEDULE = Rule(
    "tt-seconds-on-noschedule",
    ERROR,
    for_each_workload(find_invalid_toleration_seconds),
    summary="tolerationSeconds without effect NoExecute",
    why="The API server rejects the pods: tolerationSeconds delays an eviction, and only NoExecute taints evict pods.",
    fix="Remove tolerationSeconds, or set effect: NoExecute",
    source=f"{doc.TAINTS}; {doc.VALIDATION}",
)


_KUBERNETES_TAINTS = (
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/network-unavailable",
    "node.kubernetes.io/unschedulable",
    "node.kubernetes.io/out-of-service",
    "node.cloudprovider.kubernetes.io/uninitialized",
    "node.cloudprovider.kubernetes.io/shutdown",
)
_VENDOR_TAINTS = (
    *("CriticalAddonsOnly", "ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler"),
    *("nvidia.com/gpu", "amd.com/gpu", "habana.ai/gaudi", "google.com/tpu", "aws.amazon.com/neuron"),
    *("karpenter.sh/disrupted", "karpenter.sh/unregistered", "node.cilium.io/agent-not-ready"),
    *("kubernetes.azure.com/scalesetpriority", "cloud.google.com/gke-spot", "eks.amazonaws.com/compute-type"),
    *("node-role.kubernetes.io/infra", "node-role.kubernetes.io/etcd", "sandbox.gke.io/runtime"),
)
_SIMILAR_TAINTS = frozenset({"node-role.kubernetes.io/controlplane", "node.alpha.kubernetes.io/ismaster"})
"""Taints of RKE that only look like misspellings of Kubernetes' own."""
KNOWN_TAINTS = (*_KUBERNETES_TAINTS, *_VENDOR_TAINTS)
_TAINT_BY_NAME = {key.rpartition("/")[2]: key for key in _KUBERNETES_TAINTS}
_KUBERNETES_DOMAIN = "kubernetes.io"


def find_misspelled_tolerations(context: LintContext) -> Iterator[Problem]:
    """Find tolerations whose key or value looks misspelled.

    Keys are compared with the taint keys of Kubernetes. Without a cluster, the manifests may define the nodes as well,
    so that keys and values are also compared with the taints in the manifests.
    """
    declared_taints = list(_iter_declared_taints(context)) if context.cluster is None else []
    known_keys = [*KNOWN_TAINTS, *(taint.key for taint in declared_taints)]
    for workload in context.workloads:
        for i, toleration in enumerate(workload.spec.tolerations):
            similar_key = _find_similar_taint_key(toleration.key, known_keys)
            if similar_key:
                message = f"no node has a taint {toleration.key}"
                yield workload.build_problem(("tolerations", i, "key"), message, f"Write {similar_key}")
                continue
            similar_value = _find_similar_taint_value(toleration, declared_taints)
            if similar_value:
                message = f"no node has the taint {toleration.key}={toleration.value}"
                yield workload.build_problem(("tolerations", i, "value"), message, f"Write {similar_value}")


TT_MISSPELT = Rule(
    "tt-misspelt",
    WARNING,
    find_misspelled_tolerations,
    summary="A toleration for a taint that looks misspelled",
    why="No node has the taint: the toleration has no effect, and the nodes for which it was meant reject the pods.",
    fix="Correct the key or the value",
    source=doc.TAINTS,
)


def _find_similar_taint_key(key: str, known_keys: Collection[str]) -> str:
    """Return the taint key that `key` probably means, or "" if the key is known or may be custom."""
    if not key or key in known_keys or key in _SIMILAR_TAINTS:
        return ""
    domain, _, name = key.rpartition("/")
    is_kubernetes_domain = domain == _KUBERNETES_DOMAIN or domain.endswith("." + _KUBERNETES_DOMAIN)
    if is_kubernetes_domain and name in _TAINT_BY_NAME:
        return _TAINT_BY_NAME[name]
    return find_similar_name(key, known_keys)


def _find_similar_taint_value(toleration: Toleration, declared_taints: Iterable[Taint]) -> str:
    """Return the value of a declared taint that a toleration's value is probably meant to be, or ""."""
    values = {taint.value for taint in declared_taints if taint.key == toleration.key}
    if toleration.operator not in (None, "", "Equal") or not toleration.value or toleration.value in values:
        return ""
    return find_similar_name(toleration.value, values)


def _iter_declared_taints(context: LintContext) -> Iterator[Taint]:
    """Yield the taints of the NodePools and Nodes in the manifests. Invalid taints are left out."""
    for _, pool in context.list_linted_objects(WrittenNodePool):
        yield from pool.spec.template.spec.taints
    for subject in context.subjects:
        if subject.kind == "Node":
            taints = field_at(subject.document, "spec", "taints") or []
            with suppress(InvalidFieldError):
                yield from convert_field((), taints, tuple[Taint, ...])


ADDON_TAINT = "CriticalAddonsOnly"
"""A taint that add-ons tolerate in every cluster, even if no node has it."""
CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")


def _is_custom_taint(key: str) -> bool:
    """Return whether a taint is neither set by Kubernetes itself nor for control planes."""
    return not key.startswith(("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")) and key not in CONTROL_PLANE


def find_untolerated_taints(context: LintContext) -> Iterator[Problem]:
    """Find custom NoSchedule and NoExecute taints that no pod and no linted workload tolerates by key.

    Each taint is reported once, at its first node. Finds nothing unless all pods are known.
    """
    if not context.are_all_read("Pod"):
        return
    nodes = context.facts.view.nodes
    toleration_sets = {info.spec.tolerations for info in context.facts.view.pods.infos}
    toleration_sets |= {workload.spec.tolerations for workload in context.workloads}
    # Tolerations without a key tolerate every taint and say nothing about this one.
    keyed_toleration_sets = [
        tuple(toleration for toleration in tolerations if toleration.key) for tolerations in toleration_sets
    ]
    names_by_taint: dict[Taint, list[str]] = {}
    for name, node in zip(nodes.names, nodes.objects, strict=True):
        for taint in node.spec.taints:
            if taint.effect in HARD_EFFECTS and _is_custom_taint(taint.key):
                names_by_taint.setdefault(taint, []).append(name)
    for taint, names in names_by_taint.items():
        if not any(is_tolerated(tolerations, taint) for tolerations in keyed_toleration_sets):
            nodes_have = f"{counted(len(names), 'node')} {agreeing(len(names), 'has', 'have')}"
            message = f"{nodes_have} the taint {taint}, whose key no pod tolerates"
            yield Subject("Node", names[0]).build_problem(("spec", "taints"), message)


TT_TAINT_NOBODY_TOLERATES = Rule(
    "tt-taint-nobody-tolerates",
    NOTE,
    find_untolerated_taints,
    summary="A taint whose key no workload tolerates",
    why="Only pods that tolerate every taint, such as those of some DaemonSets, can use the nodes with this taint.",
    fix="Remove the taint, or add the toleration to the pods that should run on these nodes",
    source=doc.TAINTS,
    needs_cluster=True,
)


def find_tolerations_without_selector(context: LintContext) -> Iterator[Problem]:
    """Find workloads that tolerate the custom taint of dedicated nodes but may also use other nodes.

    Only nodes with the devices that the workload requests count. DaemonSets and workloads that tolerate every taint are
    left out.
    """
    facts = context.facts
    for workload in context.workloads:
        if workload.kind == "DaemonSet" or any(not existing.key for existing in workload.spec.tolerations):
            continue
        usable = facts.get_eligible_nodes(workload) & _find_nodes_with_requested_devices(context, workload)
        for i, toleration in enumerate(workload.spec.tolerations):
            dedicated = _find_nodes_with_tolerated_custom_taint(context, toleration)
            other_nodes = usable & ~dedicated
            if (usable & dedicated).any() and other_nodes.any():
                message = (
                    f"tolerates the taint of {counted(dedicated.sum(), 'node')}, but may also run on "
                    f"{counted(other_nodes.sum(), 'other node')}"
                )
                yield workload.build_problem(("tolerations", i), message)


TT_TOLERATE_WITHOUT_ATTRACT = Rule(
    "tt-tolerate-without-attract",
    NOTE,
    find_tolerations_without_selector,
    summary="A toleration for dedicated nodes without nodeSelector or node affinity for them",
    why="A toleration only permits the dedicated nodes: the pods may also be placed on ordinary nodes.",
    fix="Add a nodeSelector or node affinity for the label of the dedicated nodes",
    source=f"{doc.TAINTS}#example-use-cases",
    needs_cluster=True,
)


def find_untainted_special_hardware(context: LintContext) -> Iterator[Problem]:
    """Find nodes without a hard taint that offer an extended resource which some other nodes do not offer.

    A PreferNoSchedule taint is not hard. Each resource is reported once, at the first such node.
    """
    view = context.facts.view
    taint_sets, taint_set_of_node = view.nodes.taint_sets
    is_set_hard = [any(taint.effect in HARD_EFFECTS for taint in taints) for taints in taint_sets]
    has_hard_taint = np.array(is_set_hard, np.bool_)[taint_set_of_node]
    for name, column in view.resources.items():
        offers_resource = view.allocatable[:, column] > 0
        unprotected = offers_resource & ~has_hard_taint
        if is_extended(name) and unprotected.any() and not offers_resource.all():
            first_name = view.nodes.names[int(np.flatnonzero(unprotected)[0])]
            count = int(unprotected.sum())
            message = (
                f"{counted(count, 'node')} with {name} {agreeing(count, 'has', 'have')} no taint, so pods that do not "
                f"need it may fill {agreeing(count, 'the node', 'the nodes')}"
            )
            yield Subject("Node", first_name).build_problem(("spec", "taints"), message)


TT_SPECIAL_HW_UNTAINTED = Rule(
    "tt-special-hw-untainted",
    NOTE,
    find_untainted_special_hardware,
    summary="Nodes with special hardware, such as GPUs, and no taint",
    why="Ordinary pods use the CPU and memory of these nodes, and pods that need the hardware stay Pending.",
    fix="Taint the nodes; the ExtendedResourceToleration admission plugin adds the tolerations",
    source=f"{doc.TAINTS}#example-use-cases",
    needs_cluster=True,
)


def find_tolerations_without_taint(context: LintContext) -> Iterator[Problem]:
    """Find tolerations of custom taints that no node has.

    DaemonSets are left out, and so are tolerations of the taint for add-ons. The message names another taint with the
    same key, if there is one.
    """
    taint_sets, _ = context.facts.view.nodes.taint_sets
    taints = {taint for taint_set in taint_sets for taint in taint_set}
    for workload in context.workloads:
        if workload.kind == "DaemonSet":
            continue
        for i, toleration in enumerate(workload.spec.tolerations):
            if toleration.key in ("", ADDON_TAINT) or not _is_custom_taint(toleration.key):
                continue
            if not any(tolerates(toleration, taint) for taint in taints):
                message = "no node has a taint that this toleration matches"
                other_taint = next((taint for taint in taints if taint.key == toleration.key), None)
                if other_taint is not None:
                    message += f", but there is the taint {other_taint}"
                yield workload.build_problem(("tolerations", i), message)


TT_DEAD_TOLERATION = Rule(
    "tt-dead-toleration",
    NOTE,
    find_tolerations_without_taint,
    summary="A toleration that matches no taint",
    why="The toleration has no effect: its key, value or effect is misspelled, or the taint no longer exists.",
    fix="Correct the toleration, or remove it",
    source=doc.TAINTS,
    needs_cluster=True,
)


def find_workloads_without_usable_node(context: LintContext) -> Iterator[Problem]:
    """Find workloads whose selectable nodes are all cordoned or have taints that the pods do not tolerate.

    A replay confirms each result. DaemonSets are left out.
    """
    facts = context.facts
    for workload in context.workloads:
        selected = facts.get_selected_nodes(workload)
        if workload.kind == "DaemonSet" or not selected.any() or facts.get_eligible_nodes(workload).any():
            continue
        if facts.is_always_rejected_by(workload, (NodeAffinity, TaintToleration, NodeUnschedulable)):
            count = int(selected.sum())
            cordoned_count = int((selected & facts.view.nodes.unschedulable).sum())
            tainted_count = count - cordoned_count
            message = _describe_unusable_nodes(cordoned_count, tainted_count)
            fixes = []
            if cordoned_count:
                fixes.append("uncordon a node")
            if tainted_count:
                fixes.append("tolerate the taints of one node" if tainted_count > 1 else "tolerate the node's taints")
            fix = f"{', '.join(fixes)}, or allow other nodes"
            yield workload.build_problem((), message, capitalize(fix))


def _describe_unusable_nodes(cordoned_count: int, tainted_count: int) -> str:
    """Return the message that all nodes that a workload selects are cordoned or tainted.

    A node that is both counts as cordoned.
    """
    count = cordoned_count + tainted_count
    if cordoned_count and tainted_count:
        return (
            f"none of the {count:,} nodes that it selects is usable: {counted(cordoned_count, 'is', 'are')} cordoned, "
            f"and {counted(tainted_count, 'has', 'have')} taints that it does not tolerate"
        )
    if count == 1:
        state = "is cordoned" if cordoned_count else "has a taint that it does not tolerate"
        return f"the only node that it selects {state}"
    all_nodes = "both" if count == 2 else f"all {count:,}"
    state = "are cordoned" if cordoned_count else "have taints that it does not tolerate"
    return f"{all_nodes} nodes that it selects {state}"


TT_ALL_ELIGIBLE_CORDONED = Rule(
    "tt-all-eligible-cordoned",
    ERROR,
    find_workloads_without_usable_node,
    summary="Every node that the pods select is cordoned or has a taint that they do not tolerate",
    why="New pods stay Pending. Verified by replay: the pods fit on no node.",
    fix="Uncordon a node, tolerate the taint, or allow other nodes",
    source=doc.TAINTS,
    needs_cluster=True,
)


def _find_nodes_with_tolerated_custom_taint(context: LintContext, toleration: Toleration) -> Bools:
    """Return a mask (N,) of the nodes with a custom NoSchedule or NoExecute taint that the toleration tolerates."""
    # Nodes share sets of taints, so each set is checked once
    taint_sets, taint_set_of_node = context.facts.view.nodes.taint_sets
    is_set_tolerated = [
        any(
            _is_custom_taint(taint.key) and taint.effect in HARD_EFFECTS and tolerates(toleration, taint)
            for taint in taints
        )
        for taints in taint_sets
    ]
    return np.asarray(np.array(is_set_tolerated, np.bool_)[taint_set_of_node], np.bool_)


def _find_nodes_with_requested_devices(context: LintContext, workload: Workload) -> Bools:
    """Return a mask (N,) of the nodes that offer all extended resources requested by the workload."""
    view = context.facts.view
    resources = [container.resources for container in workload.spec.containers]
    requested = {name for resource in resources for name in (*resource.requests, *resource.limits) if is_extended(name)}
    if not requested <= view.resources.keys():
        return np.zeros(len(view.nodes), np.bool_)
    columns = [view.resources[name] for name in requested]
    return np.asarray((view.allocatable[:, columns] > 0).all(axis=1), np.bool_)
