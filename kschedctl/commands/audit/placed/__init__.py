"""Section "placed": running pods that would be rejected where they are, and the traces of double booking.

`replayed` replays bound pods on their own nodes, `placement_errors` finds other traces of wrong placements.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec.structs import replace

from kschedctl.api.arrays import Rows
from kschedctl.api.ownership import Owner, find_owner
from kschedctl.api.resource_names import format_amounts_for_sentence
from kschedctl.api.times import format_age
from kschedctl.commands.audit.audited_cluster import AuditedCluster
from kschedctl.commands.audit.placed.placement_errors import (
    MAX_EXAMPLES,
    iter_orphaned_pods,
    iter_overcommitted_nodes,
    iter_rejected_pods_by_reason,
    iter_shared_devices,
)
from kschedctl.commands.audit.placed.replayed import (
    INTER_POD_AFFINITY,
    NO_EXECUTE,
    NO_SCHEDULE,
    NODE_AFFINITY,
    PORTS,
    SPREAD,
    VOLUMES,
    Misplaced,
    replay_bound_pods,
)
from kschedctl.commands.audit.placed.report import (
    MisplacedPods,
    OrphanedPods,
    OvercommittedNode,
    PlacedSection,
    RefusedPods,
    SharedDevice,
)
from kschedctl.replay.audit_rules import ERROR, NOTE, WARNING, AuditRule, build_verdict
from kschedctl.reports.findings import Finding
from kschedctl.reports.unknown import UnknownKind
from kschedctl.snapshot.fork import Fork
from kschedctl.text.counts import agreeing, counted, spell_age

OVERCOMMITTED = AuditRule(
    "audit-placed-overcommitted",
    ERROR,
    "Pods request more than their node has",
    "A scheduler that sees all pods does not do this. Either the node was double-booked (by two schedulers, or by "
    "one that forgot its assumed pods), a pod bypassed the scheduler, or the node offers less than before. A "
    "restarted kubelet rejects the excess pods, and under load pods are throttled or killed.",
    "Evict the pods placed last if they fit elsewhere (drain shows whether they do) and controllers recreate them; "
    "section leader shows whether two schedulers run",
    source="pkg/scheduler/backend/cache/cache.go, pkg/kubelet/lifecycle/predicate.go",
)
DEFERRED_RESIZE = AuditRule(
    "audit-placed-deferred-resize",
    WARNING,
    "The scheduler reserves resources for a resize for which the node has no room",
    "The kubelet has deferred the resize, so the pod runs with less, but kube-scheduler counts the larger requests. "
    "New pods cannot use these resources although they are free. Nothing is double-booked.",
    "Revert the resize, or make room for it on the node",
    source="staging/src/k8s.io/component-helpers/resource/helpers.go",
)
SHARED = AuditRule(
    "audit-placed-shared-device",
    ERROR,
    "A device is allocated to several claims",
    "Each claim assumes that it has the device to itself, but the device was allocated twice.",
    "Once the work of the pods may be interrupted, evict those of all but one of the claims, so that other devices are "
    "allocated; if no other is free, these pods wait",
)
CLASH = AuditRule(
    "audit-placed-ports",
    ERROR,
    "Pods on one node need the same host port",
    "Only one of them can use the port. The other fails, at the latest when its kubelet restarts.",
    "Find out which pod uses the port, and evict the others if they fit elsewhere (drain shows whether they do)",
)
APART = AuditRule(
    "audit-placed-anti-affinity",
    WARNING,
    "Pods violate required anti-affinity",
    "They run in the same topology domain although their required anti-affinity forbids it. Losing the domain takes "
    "down both.",
    "Evict the pods if they fit elsewhere (drain shows whether they do), or use the descheduler "
    "(RemovePodsViolatingInterPodAntiAffinity)",
)
STRANDED = AuditRule(
    "audit-placed-volumes",
    WARNING,
    "A pod's volumes cannot be used where it runs",
    "It may still be running, but would not start there again.",
    "Run explain to see where each volume is bound",
)
NOT_EVICTED = AuditRule(
    "audit-placed-not-evicted",
    WARNING,
    "Pods run on nodes whose taint should have evicted them",
    "They do not tolerate a NoExecute taint. Either the taint eviction controller is not working, or it has only "
    "just started.",
    "Check taint-eviction-controller in kube-controller-manager's log",
    source="pkg/controller/tainteviction/taint_eviction.go",
)
REFUSED = AuditRule(
    "audit-placed-refused",
    WARNING,
    "Kubelets rejected pods that a scheduler had bound to their nodes",
    "The scheduler and the kubelet saw the node differently, because of double booking, a pod that bypassed the "
    "scheduler, or a node that had just changed. A rejected pod stays Failed; its controller creates another.",
    "Check what was bound to the node at the same time, and delete the failed pods",
    source="pkg/kubelet/lifecycle/predicate.go",
)
ORPHANED = AuditRule(
    "audit-placed-node-gone",
    WARNING,
    "Pods are bound to a node that does not exist",
    "The pod garbage collector deletes them within a minute; while they stay, their controllers create no "
    "replacements.",
    "Check pod-garbage-collector-controller in kube-controller-manager's log, and the pods' metadata.finalizers",
    source="pkg/controller/podgc/gc_controller.go",
)
DRIFTED_AFFINITY = AuditRule(
    "audit-placed-node-affinity",
    NOTE,
    "Pods run on nodes that their required node affinity no longer matches",
    "The nodes' labels changed later, and node affinity is ignored during execution. A restarted kubelet rejects the "
    "pods with reason NodeAffinity.",
    "Evict the pods if they fit elsewhere (drain shows whether they do), or use the descheduler "
    "(RemovePodsViolatingNodeAffinity)",
)
DRIFTED_TAINT = AuditRule(
    "audit-placed-taint",
    NOTE,
    "Pods run on nodes with a taint that keeps new pods like them away",
    "NoSchedule does not affect pods that were on the node before the taint.",
    "Drain the node if its pods fit elsewhere, or evict them with the descheduler (RemovePodsViolatingNodeTaints)",
)
DRIFTED_AWAY = AuditRule(
    "audit-placed-affinity",
    NOTE,
    "Pods run apart from the pods that their required affinity names",
    "The other pods have gone or moved, and affinity is ignored during execution.",
    "Evict the pods so that they are rescheduled",
)
DRIFTED_SPREAD = AuditRule(
    "audit-placed-spread",
    NOTE,
    "Pods are spread less evenly than their constraint allows for new pods",
    "Scale-downs and lost nodes cause this, and nothing respreads running pods.",
    "Use the descheduler (RemovePodsViolatingTopologySpreadConstraint); for a Deployment, also set matchLabelKeys: "
    "[pod-template-hash] in the constraint, so that each rollout spreads its pods evenly",
)
RULES = (
    *(OVERCOMMITTED, DEFERRED_RESIZE, SHARED, CLASH, APART, STRANDED, NOT_EVICTED, REFUSED, ORPHANED),
    *(DRIFTED_AFFINITY, DRIFTED_TAINT, DRIFTED_AWAY, DRIFTED_SPREAD),
)
_RULE_BY_REJECTOR = {
    NODE_AFFINITY: DRIFTED_AFFINITY,
    PORTS: CLASH,
    SPREAD: DRIFTED_SPREAD,
    NO_EXECUTE: NOT_EVICTED,
    NO_SCHEDULE: DRIFTED_TAINT,
    **dict.fromkeys(VOLUMES, STRANDED),
}
ADVICE_BY_KUBELET_REASON = {
    "NodeShutdown": ("The node was shutting down: just delete the failed pods", NOTE),
    NODE_AFFINITY: (
        "Labels of the node changed, or were not there yet when its kubelet started: set them with the kubelet's "
        "--node-labels",
        WARNING,
    ),
}
"""Advice and severity for some reasons for which kubelets reject pods."""


def find_broken_rule(rejected_by: str, reason: str) -> AuditRule:
    """Return the rule that a running pod breaks. It depends on the plugin or taint effect that rejects the pod."""
    if rejected_by == INTER_POD_AFFINITY:
        return APART if "anti-affinity" in reason else DRIFTED_AWAY
    return _RULE_BY_REJECTOR[rejected_by]


def build_placed_section(audited: AuditedCluster) -> PlacedSection:
    """Build the section about bound pods that break rules, overcommitted nodes, shared devices and rejected pods."""
    view, cluster = audited.scheduler.view, audited.cluster
    replay = replay_bound_pods(audited.scheduler, audited.progress)
    misplaced = tuple(
        misplaced_pods
        for misplaced_group in replay.misplaced
        for misplaced_pods in _iter_misplaced_by_workload(misplaced_group, view)
    )
    overcommitted = tuple(iter_overcommitted_nodes(view))
    rejected = tuple(iter_rejected_pods_by_reason(cluster))
    orphaned = tuple(iter_orphaned_pods(cluster))
    shared_devices = tuple(iter_shared_devices(cluster))
    findings = [
        *(_build_overcommitted_finding(node) for node in overcommitted),
        *(_build_shared_device_finding(device) for device in shared_devices),
        *(_build_orphaned_finding(orphaned_pods) for orphaned_pods in orphaned),
        *(_build_rejected_finding(rejected_pods, audited) for rejected_pods in rejected),
        *(_build_misplaced_finding(misplaced_pods) for misplaced_pods in misplaced),
    ]
    section = PlacedSection(
        title="Placement",
        headline="",
        judged=replay.judged,
        nothing_judged=not replay.judged,
        others=replay.not_served,
        left_out=int(view.mask_placed().sum()) - replay.judged - replay.not_served,
        overcommitted=overcommitted,
        misplaced=misplaced,
        refused=rejected,
        orphaned=orphaned,
        shared_devices=shared_devices,
        **build_verdict(RULES, findings, [*_iter_unread_kinds(audited), *replay.unknown]),
    )
    return replace(section, headline=_build_headline(section))


def _iter_unread_kinds(audited: AuditedCluster) -> Iterator[UnknownKind]:
    """Yield the unread kinds that the findings depend on. ResourceClaim is among them if pods have claims."""
    yield from audited.iter_unread_kinds("Node", "Pod")
    if any(info.spec.resource_claims for info in audited.scheduler.view.pods.infos):
        yield from audited.iter_unread_kinds("ResourceClaim")


def _iter_misplaced_by_workload(misplaced: Misplaced, view: Fork) -> Iterator[MisplacedPods]:
    """Yield the pods that a plugin rejects for one reason, grouped by workload, most pods first."""
    pods = view.pods.objects
    positions_by_workload = _group_positions_by_workload(misplaced.positions, view)
    for workload in sorted(positions_by_workload, key=lambda workload: -len(positions_by_workload[workload])):
        positions = positions_by_workload[workload]
        example_pods = [pods[position] for position in positions[:MAX_EXAMPLES].tolist()]
        yield MisplacedPods(
            refuses=misplaced.rejected_by,
            reason=misplaced.reason,
            workload=workload,
            pods=len(positions),
            examples=tuple(f"{pod.metadata.name} on {pod.spec.node_name}" for pod in example_pods),
            example_nodes=tuple(pod.spec.node_name for pod in example_pods),
        )


def _group_positions_by_workload(positions: Rows, view: Fork) -> dict[str, Rows]:
    """Return the positions of pods by workload. A pod without a controller is its own workload."""
    pods = view.pods.objects
    templates = pods.table.template[pods.rows[positions]]
    groups_by_workload: dict[str, list[Rows]] = {}
    for number in np.unique(templates).tolist():
        template_positions = positions[templates == number]
        owner_references = pods.table.templates[number].metadata.owner_references
        if any(reference.controller for reference in owner_references):
            groups = [template_positions]  # pods with the same template have the same controller
        else:
            groups = np.split(template_positions, len(template_positions))  # one by one
        for group in groups:
            workload = str(find_owner(pods[int(group[0])]))
            groups_by_workload.setdefault(workload, []).append(group)
    return {workload: np.concatenate(groups) for workload, groups in groups_by_workload.items()}


def _build_misplaced_finding(misplaced: MisplacedPods) -> Finding:
    """Build the finding about a workload's misplaced pods. Its rule depends on the rejecting plugin and the reason."""
    rejecting_plugin = misplaced.refuses
    rule = find_broken_rule(rejecting_plugin, misplaced.reason)
    further_count = misplaced.pods - len(misplaced.examples)
    suffix = f" and {further_count:,} more" if further_count else ""
    message = f"{counted(misplaced.pods, 'pod')}: {', '.join(misplaced.examples)}{suffix}: {misplaced.reason}"
    namespace = Owner.parse(misplaced.workload).namespace
    # No field of the workload is at fault, so there is no path. The reason serves as the path instead, because findings
    # of the same workload and rule are told apart by their paths.
    return rule.build_finding(misplaced.workload, message, namespace=namespace, path=misplaced.reason)


def _build_overcommitted_finding(node: OvercommittedNode) -> Finding:
    """Build the finding about an overcommitted node. It names the first pod for which there was no room, if known.

    If only deferred resizes exceed the node, the finding is about them. Otherwise it is only a warning if all excess
    pods are static, since no scheduler placed them. If the node no longer offers the resource at all, the fix is to
    check the device plugin.
    """
    if node.is_resize_only:
        return _build_deferred_resize_finding(node)

    (requested, allocatable), unit = format_amounts_for_sentence(node.resource, node.requested, node.allocatable)
    verb = agreeing(node.pods, "requests", "request")
    message = f"{counted(node.pods, 'pod')} {verb} {requested} of {allocatable} {unit}"
    excess_pods = [arrival for arrival in node.arrivals if arrival.beyond]
    if excess_pods and excess_pods[0].at:
        gap = f", {node.gap:,.3g} s after the pod before it" if node.gap is not None else ""
        message += f"; {excess_pods[0].pod} was the first that did not fit, started at {excess_pods[0].at}{gap}"

    is_all_static = bool(excess_pods) and all(arrival.static for arrival in excess_pods)
    if not node.allocatable:
        fix = f"Check why the node no longer offers {node.resource}: its device plugin may be gone"
    elif is_all_static:
        fix = "Lower the requests in the static pods' manifests on the node, or move other pods away from it"
    else:
        fix = OVERCOMMITTED.fix
    severity = WARNING if is_all_static else OVERCOMMITTED.severity
    return OVERCOMMITTED.build_finding(f"Node {node.node}", message, fix, path=node.resource, severity=severity)


def _build_deferred_resize_finding(node: OvercommittedNode) -> Finding:
    """Build the finding about a node whose requests exceed it only because of deferred resizes."""
    first, *other_resizes = node.deferred_resizes
    not_in_use = sum(resize.reserved - resize.running for resize in node.deferred_resizes)
    amount_in_use = node.requested - not_in_use
    formatted = format_amounts_for_sentence(
        node.resource, first.reserved, first.running, node.requested, amount_in_use, node.allocatable
    )
    (reserved, running, requested, in_use, allocatable), unit = formatted
    suffix = formatted.unit_suffix
    others_text = (
        f" (as {agreeing(len(other_resizes), 'does', 'do')} {counted(len(other_resizes), 'more pod')})"
        if other_resizes
        else ""
    )
    message = (
        f"{first.pod} reserves {reserved} {unit} for a deferred resize but runs with {running}{suffix}{others_text}: "
        f"the scheduler counts {requested} of {allocatable}{suffix} as requested, but the kubelet has allocated "
        f"{in_use}{suffix}"
    )
    fix = f"Revert the resize of {first.pod}, or make room for it on the node"
    return DEFERRED_RESIZE.build_finding(f"Node {node.node}", message, fix, path=node.resource)


def _build_shared_device_finding(shared_device: SharedDevice) -> Finding:
    """Build the finding about a device that is allocated to several claims."""
    message = f"allocated to {len(shared_device.claims):,} claims: {', '.join(shared_device.claims)}"
    return SHARED.build_finding(f"Device {shared_device.device}", message)


def _build_orphaned_finding(orphaned: OrphanedPods) -> Finding:
    """Build the finding about pods on a node that does not exist.

    The finding is only a note if all of these pods are being deleted.
    """
    leaving = f", {orphaned.leaving:,} of them being deleted" if orphaned.leaving else ""
    examples = ", ".join(orphaned.examples)
    suffix = " and others" if orphaned.pods > len(orphaned.examples) else ""
    message = f"does not exist, with {counted(orphaned.pods, 'pod')} bound to it{leaving}: {examples}{suffix}"
    severity = NOTE if orphaned.leaving == orphaned.pods else ORPHANED.severity
    return ORPHANED.build_finding(f"Node {orphaned.node}", message, severity=severity)


def _build_rejected_finding(rejected_pods: RefusedPods, audited: AuditedCluster) -> Finding:
    """Build the finding about pods that kubelets rejected for one reason, including pods known only from events.

    Some reasons have a fix and a severity of their own.
    """
    parts = []
    if rejected_pods.pods:
        age = format_age(rejected_pods.last, audited.ages_end)
        last_text = f", the last {spell_age(age)} ago{audited.ages_note}" if age else ""
        parts.append(f"{counted(rejected_pods.pods, 'pod')} failed{last_text}, on {', '.join(rejected_pods.nodes)}")
    if rejected_pods.gone:
        more = " more" if rejected_pods.pods else ""
        parts.append(f"{counted(rejected_pods.gone, 'pod')}{more} known only from events")
    if rejected_pods.message:
        parts.append(rejected_pods.message)
    fix, severity = ADVICE_BY_KUBELET_REASON.get(rejected_pods.reason, ("", REFUSED.severity))
    return REFUSED.build_finding(f"Reason {rejected_pods.reason}", "; ".join(parts), fix, severity=severity)


def _build_headline(section: PlacedSection) -> str:
    """Summarize how many nodes, devices and pods have problems.

    If there are no problems, the headline says how many pods were judged, or why none were.
    """
    counts = ", ".join(f"{number:,} {words}" for number, words in _iter_headline_counts(section) if number)
    if counts:
        return counts
    if section.judged:
        pods = counted(section.judged, "placed pod complies", "placed pods comply")
        left_out = f" ({section.left_out:,} DaemonSet, static or terminating not checked)" if section.left_out else ""
        return f"{'' if section.judged == 1 else 'all '}{pods} with the scheduling rules{left_out}"
    return "no pods of this scheduler are on nodes" if section.others else "no pods are on nodes"


def _iter_headline_counts(section: PlacedSection) -> Iterator[tuple[int, str]]:
    """Yield the counts for the headline, most serious first, each with the words that follow it. A count may be 0.

    Misplaced pods whose finding is only a note are counted separately.
    """
    drifted = sum(
        misplaced.pods
        for misplaced in section.misplaced
        if find_broken_rule(misplaced.refuses, misplaced.reason).severity == NOTE
    )
    broken = sum(misplaced.pods for misplaced in section.misplaced) - drifted
    nodes = len({node.node for node in section.overcommitted if not node.is_resize_only})
    resized = len({node.node for node in section.overcommitted if node.is_resize_only})
    devices = len(section.shared_devices)
    yield nodes, agreeing(nodes, "node overcommitted", "nodes overcommitted")
    yield resized, f"{agreeing(resized, 'node', 'nodes')} with a deferred resize that counts as requested"
    yield devices, agreeing(devices, "device allocated twice", "devices allocated twice")
    yield broken, "placed against a rule"
    yield sum(rejected_pods.pods + rejected_pods.gone for rejected_pods in section.refused), "rejected by kubelets"
    yield sum(orphaned_pods.pods for orphaned_pods in section.orphaned), "on nodes that do not exist"
    their_nodes = agreeing(drifted, "its node", "their nodes")
    yield drifted, f"{agreeing(drifted, 'pod', 'pods')} may stay, but would not be placed on {their_nodes} now"
