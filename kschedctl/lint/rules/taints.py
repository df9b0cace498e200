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
from kschedctl.text.counts import agreeing, counted

NOT_READY = Taint("node.kubernetes.io/not-ready", "", "NoExecute")
_SPLIT_ADVICE = (
    "Set effect: NoExecute and tolerationSeconds, which is allowed with no other effect; tolerate NoSchedule in another"
)
_SYSTEM_CLASSES = {system.metadata.name for system in SYSTEM_CLASSES}
UNREACHABLE = Taint("node.kubernetes.io/unreachable", "", "NoExecute")


def find_tolerations_of_everything(workload: Workload) -> Iterator[Problem]:
    """Find workloads that tolerate all taints, apart from DaemonSets and the system."""
    if workload.kind == "DaemonSet" or _is_system_workload(workload):
        return
    tolerations = workload.spec.tolerations
    indices = [i for i, toleration in enumerate(tolerations) if _tolerates_everything(toleration)]
    if indices:
        effect = tolerations[indices[0]].effect if len(indices) == 1 else ""
        taints = f"every {effect} taint" if effect else "every taint"
        message = f"tolerates {taints}: it also goes to nodes that are broken or not its own"
        yield workload.build_problem(("tolerations", indices[0]), message)


TT_TOLERATE_ALL = Rule(
    "tt-tolerate-all",
    WARNING,
    for_each_workload(find_tolerations_of_everything),
    summary="A toleration without key tolerates everything",
    why="The pods go to nodes that are not ready, under pressure, dedicated to others or control planes.",
    fix="Name the taint: key, operator and effect",
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
    """Find tolerations of not-ready or unreachable nodes without tolerationSeconds."""
    if workload.kind in ("DaemonSet", "Pod"):
        return
    for i, toleration in enumerate(workload.spec.tolerations):
        if toleration.toleration_seconds is not None:
            continue
        if _tolerates_everything(toleration) and not _is_system_workload(workload):
            continue  # tt-tolerate-all reports it
        if any(tolerates(toleration, taint) for taint in (NOT_READY, UNREACHABLE)):
            message = "its pods stay on a dead node forever and are not replaced"
            yield workload.build_problem(("tolerations", i), message, "" if toleration.effect else _SPLIT_ADVICE)


TT_NOEXECUTE_FOREVER = Rule(
    "tt-noexecute-forever",
    WARNING,
    for_each_workload(find_unlimited_no_execute_tolerations),
    summary="NoExecute toleration without tolerationSeconds",
    why="Pods that tolerate not-ready or unreachable without limit stay bound to a dead node and are not replaced.",
    fix="Set tolerationSeconds, 300 is what pods get by default",
    source=f"{doc.TAINTS}#taint-based-evictions",
)


def find_tolerations_without_value(workload: Workload) -> Iterator[Problem]:
    """Find tolerations with a key and neither a value nor operator Exists."""
    for i, toleration in enumerate(workload.spec.tolerations):
        key = toleration.key
        if not key or "node-role.kubernetes.io/" in key or key.startswith("node."):
            continue
        if toleration.operator in (None, "", "Equal") and not toleration.value:
            message = f"tolerates {toleration.key} where the taint has no value, and with no other"
            yield workload.build_problem(("tolerations", i), message)


TT_EMPTY_VALUE = Rule(
    "tt-empty-value",
    NOTE,
    for_each_workload(find_tolerations_without_value),
    summary="A toleration without a value, and without operator: Exists",
    why="The operator is Equal by default: such a toleration matches taints with the empty value alone.",
    fix="Set operator: Exists, or the value of the taint",
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
    why="The API server refuses the pods: only evictions can be delayed.",
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


def find_misspelt_tolerations(context: LintContext) -> Iterator[Problem]:
    """Find tolerations whose key, or whose value for a declared taint, looks misspelt."""
    declared = list(_iter_declared_taints(context)) if context.cluster is None else []
    keys = [*KNOWN_TAINTS, *(taint.key for taint in declared)]
    for workload in context.workloads:
        for i, toleration in enumerate(workload.spec.tolerations):
            if meant := _find_meant_key(toleration.key, keys):
                message = f"no node has a taint {toleration.key}"
                yield workload.build_problem(("tolerations", i, "key"), message, f"Write {meant}")
            elif meant := _find_meant_value(toleration, declared):
                message = f"no node has the taint {toleration.key}={toleration.value}"
                yield workload.build_problem(("tolerations", i, "value"), message, f"Write {meant}")


TT_MISSPELT = Rule(
    "tt-misspelt",
    WARNING,
    find_misspelt_tolerations,
    summary="A toleration of a taint that looks misspelt",
    why="No node has such a taint: the toleration does nothing, and the nodes that were meant stay closed.",
    fix="Correct the key or the value",
    source=doc.TAINTS,
)


def _find_meant_key(key: str, known_keys: Collection[str]) -> str:
    """Return the taint key that a key is a misspelling of, or "" if the key is known or may be custom."""
    if not key or key in known_keys or key in _SIMILAR_TAINTS:
        return ""
    domain, _, name = key.rpartition("/")
    is_kubernetes_domain = domain == _KUBERNETES_DOMAIN or domain.endswith("." + _KUBERNETES_DOMAIN)
    if is_kubernetes_domain and name in _TAINT_BY_NAME:
        return _TAINT_BY_NAME[name]
    return find_similar_name(key, known_keys)


def _find_meant_value(toleration: Toleration, declared: Iterable[Taint]) -> str:
    """Return the value of a declared taint that a toleration's value is a misspelling of, or ""."""
    values = {taint.value for taint in declared if taint.key == toleration.key}
    if toleration.operator not in (None, "", "Equal") or not toleration.value or toleration.value in values:
        return ""
    return find_similar_name(toleration.value, values)


def _iter_declared_taints(context: LintContext) -> Iterator[Taint]:
    """Yield the taints of NodePools and Nodes among the manifests."""
    for _, pool in context.list_linted(WrittenNodePool):
        yield from pool.spec.template.spec.taints
    for subject in context.subjects:
        with suppress(InvalidFieldError):
            if subject.kind == "Node":
                yield from convert_field((), field_at(subject.document, "spec", "taints") or [], tuple[Taint, ...])


ADDON_TAINT = "CriticalAddonsOnly"
"""A taint that add-ons tolerate on every cluster, whether nodes have it or not."""
CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")


def _is_custom_taint(key: str) -> bool:
    """Return whether a taint is neither one that Kubernetes sets itself nor one of control planes."""
    return not key.startswith(("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")) and key not in CONTROL_PLANE


def find_untolerated_taints(context: LintContext) -> Iterator[Problem]:
    """Find taints that no pod and no linted workload tolerates by name."""
    nodes = context.facts.view.nodes
    toleration_sets = {info.spec.tolerations for info in context.facts.view.pods.infos}
    toleration_sets |= {workload.spec.tolerations for workload in context.workloads}
    with_key = [tuple(t for t in tolerations if t.key) for tolerations in toleration_sets]
    rows_by_taint: dict[Taint, list[int]] = {}
    for row, node in enumerate(nodes.objects):
        for taint in node.spec.taints:
            if taint.effect in HARD_EFFECTS and _is_custom_taint(taint.key):
                rows_by_taint.setdefault(taint, []).append(row)
    for taint, rows in rows_by_taint.items() if context.are_all_read("Pod") else ():
        if not any(is_tolerated(tolerations, taint) for tolerations in with_key):
            have, stay = agreeing(len(rows), "has", "have"), agreeing(len(rows), "it stays", "they stay")
            message = f"no pod tolerates {taint}, which {counted(len(rows), 'node')} {have}: {stay} empty"
            yield Subject("Node", nodes.names[rows[0]]).build_problem(("spec", "taints"), message)


TT_TAINT_NOBODY_TOLERATES = Rule(
    "tt-taint-nobody-tolerates",
    NOTE,
    find_untolerated_taints,
    summary="A taint that no workload tolerates by name",
    why="The nodes only take DaemonSets that tolerate everything: paid for and unused.",
    fix="Remove the taint, or add the toleration to the pods that belong there",
    source=doc.TAINTS,
    needs_cluster=True,
)


def find_tolerations_without_selector(context: LintContext) -> Iterator[Problem]:
    """Find workloads that tolerate the taint of dedicated nodes and may also go to other nodes."""
    facts = context.facts
    taint_sets, set_of_node = facts.view.nodes.taint_sets
    for workload in context.workloads:
        if workload.kind == "DaemonSet" or any(not t.key for t in workload.spec.tolerations):
            continue
        for i, toleration in enumerate(workload.spec.tolerations):
            tolerates_custom_taint = [
                any(_is_custom_taint(t.key) and t.effect in HARD_EFFECTS and tolerates(toleration, t) for t in taints)
                for taints in taint_sets
            ]
            tainted = np.array(tolerates_custom_taint, np.bool_)[set_of_node]
            usable = facts.get_eligible_nodes(workload) & _find_nodes_with_requested_devices(context, workload)
            untainted = usable & ~tainted
            if (usable & tainted).any() and untainted.any():
                others = counted(untainted.sum(), "other")
                message = f"tolerates the taint of {counted(tainted.sum(), 'node')}, but may also go to {others}"
                yield workload.build_problem(("tolerations", i), message)


TT_TOLERATE_WITHOUT_ATTRACT = Rule(
    "tt-tolerate-without-attract",
    NOTE,
    find_tolerations_without_selector,
    summary="A toleration for dedicated nodes without a node selector for them",
    why="A toleration only permits: the pods may just as well land on ordinary nodes.",
    fix="Add a nodeSelector or node affinity for the label of the dedicated nodes",
    source=f"{doc.TAINTS}#example-use-cases",
    needs_cluster=True,
)


def find_untainted_special_hardware(context: LintContext) -> Iterator[Problem]:
    """Find nodes that offer an extended resource, which others do not offer, and have no taint."""
    view = context.facts.view
    taint_sets, set_of_node = view.nodes.taint_sets
    has_hard_taint = [any(taint.effect in HARD_EFFECTS for taint in taints) for taints in taint_sets]
    tainted = np.array(has_hard_taint, np.bool_)[set_of_node]
    for name, column in view.resources.items():
        offering = view.allocatable[:, column] > 0
        untainted = offering & ~tainted
        if is_extended(name) and untainted.any() and not offering.all():
            first = view.nodes.names[int(np.flatnonzero(untainted)[0])]
            have = agreeing(untainted.sum(), "has", "have")
            message = f"{counted(untainted.sum(), 'node')} with {name} {have} no taint: pods that need none fill them"
            yield Subject("Node", first).build_problem(("spec", "taints"), message)


TT_SPECIAL_HW_UNTAINTED = Rule(
    "tt-special-hw-untainted",
    NOTE,
    find_untainted_special_hardware,
    summary="Nodes with special hardware and no taint",
    why="Ordinary pods take their cpu and memory, and those that need the hardware stay Pending.",
    fix="Taint the nodes; the ExtendedResourceToleration admission plugin adds the tolerations",
    source=f"{doc.TAINTS}#example-use-cases",
    needs_cluster=True,
)


def find_dead_tolerations(context: LintContext) -> Iterator[Problem]:
    """Find tolerations of custom taints that no node has."""
    taints = {taint for taints in context.facts.view.nodes.taint_sets[0] for taint in taints}
    for workload in context.workloads:
        if workload.kind == "DaemonSet":
            continue
        for i, toleration in enumerate(workload.spec.tolerations):
            if toleration.key in ("", ADDON_TAINT) or not _is_custom_taint(toleration.key):
                continue
            if not any(tolerates(toleration, taint) for taint in taints):
                same_key = next((taint for taint in taints if taint.key == toleration.key), None)
                hint = f"; there is {same_key}" if same_key else ""
                yield workload.build_problem(("tolerations", i), f"no node has a taint that it tolerates{hint}")


TT_DEAD_TOLERATION = Rule(
    "tt-dead-toleration",
    NOTE,
    find_dead_tolerations,
    summary="A toleration that matches no taint",
    why="Key, value or effect is misspelt, or the taint is gone.",
    fix="Correct the toleration, or remove it",
    source=doc.TAINTS,
    needs_cluster=True,
)


def find_workloads_with_closed_nodes(context: LintContext) -> Iterator[Problem]:
    """Find workloads all of whose selected nodes are cordoned or tainted, proved by a replay."""
    facts = context.facts
    for workload in context.workloads:
        selected = facts.get_selected_nodes(workload)
        if workload.kind == "DaemonSet" or not selected.any() or facts.get_eligible_nodes(workload).any():
            continue
        if facts.can_never_schedule(workload, (NodeAffinity, TaintToleration, NodeUnschedulable)):
            cordoned = int((selected & facts.view.nodes.unschedulable).sum())
            nodes = "the only node that it may use is"
            if selected.sum() > 1:
                nodes = f"all {selected.sum():,} nodes that it may use are"
            message = f"{nodes} closed to it: {cordoned:,} cordoned, {selected.sum() - cordoned:,} tainted"
            yield workload.build_problem((), message)


TT_ALL_ELIGIBLE_CORDONED = Rule(
    "tt-all-eligible-cordoned",
    ERROR,
    find_workloads_with_closed_nodes,
    summary="Every node that the pods may use is cordoned or tainted",
    why="New pods stay Pending. Proved by replay.",
    fix="Uncordon a node, tolerate the taint, or allow other nodes",
    source=doc.TAINTS,
    needs_cluster=True,
)


def _find_nodes_with_requested_devices(context: LintContext, workload: Workload) -> Bools:
    """Return (N,) which nodes offer all extended resources that the workload requests."""
    view = context.facts.view
    resources = [container.resources for container in workload.spec.containers]
    requested = {name for r in resources for name in (*r.requests, *r.limits) if is_extended(name)}
    offering = np.ones(len(view.nodes), np.bool_)
    for name in requested:
        offering &= view.allocatable[:, view.resources[name]] > 0 if name in view.resources else False
    return offering
