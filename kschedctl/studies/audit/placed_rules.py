"""What the section about places may find, and how grave it is: drift is noted, what breaks something is not."""

from __future__ import annotations

from kschedctl.studies.audit.rule import ERROR, NOTE, WARNING, AuditRule
from kschedctl.studies.running_pods.replayed import AFFINITY, NOT_WELCOME, PODS, PORTS, SPREAD, UNLESS_EVICTED, VOLUMES

OVERCOMMITTED = AuditRule(
    "audit-placed-overcommitted",
    ERROR,
    "Pods request more than their node has",
    "No scheduler does so that sees all pods: it was double booking (two schedulers, or one that forgot what it had "
    "assumed), a pod bound past the scheduler, or the node offers less than before. A kubelet that starts anew refuses "
    "what is too much, and under load the pods are throttled or killed.",
    "Delete the pods that came last, for them to be placed anew; see by the section leader whether two schedulers run",
    "pkg/scheduler/backend/cache/cache.go, pkg/kubelet/lifecycle/predicate.go",
)
SHARED = AuditRule(
    "audit-placed-shared-device",
    ERROR,
    "A device is allocated to several claims",
    "Each of them believes to have it alone: it was given out twice.",
    "Delete the pods of all but one of the claims, for the claims to be allocated anew",
)
CLASH = AuditRule(
    "audit-placed-ports",
    ERROR,
    "Pods of one node want the same host port",
    "Only one of them can have it; the other one fails, or does when its kubelet starts anew.",
    "Delete one of the pods, for it to be placed anew",
)
APART = AuditRule(
    "audit-placed-anti-affinity",
    WARNING,
    "Pods are together that must not be",
    "Their required anti-affinity does not hold: what it was to protect from takes both of them.",
    "Delete one of the pods, for it to be placed anew; a descheduler does so (RemovePodsViolatingInterPodAntiAffinity)",
)
STRANDED = AuditRule(
    "audit-placed-volumes",
    WARNING,
    "A pod's volumes are not to be used where it runs",
    "Where it is still running it would not start again there.",
    "See which volume is bound to where, as explain tells it",
)
NOT_EVICTED = AuditRule(
    "audit-placed-not-evicted",
    WARNING,
    "Pods run on nodes whose taint should have evicted them",
    "They do not tolerate a NoExecute taint: the taint eviction controller does not do its work, or just begins to.",
    "Look at kube-controller-manager's log, taint-eviction-controller",
    "pkg/controller/tainteviction/taint_eviction.go",
)
REFUSED = AuditRule(
    "audit-placed-refused",
    WARNING,
    "Kubelets refused pods that a scheduler had given them",
    "Scheduler and kubelet saw the node differently: double booking, a pod bound past the scheduler, or a node that "
    "had just changed. Such a pod stays Failed; its controller makes another one.",
    "Look at what was bound to the node at the same time; delete the failed pods",
    "pkg/kubelet/lifecycle/predicate.go",
)
ORPHANED = AuditRule(
    "audit-placed-node-gone",
    WARNING,
    "Pods are bound to a node that is not there",
    "The pod garbage collector takes them away within a minute; where they stay their controllers make no others.",
    "Look at kube-controller-manager's log, pod-garbage-collector-controller, and at the pods' metadata.finalizers",
    "pkg/controller/podgc/gc_controller.go",
)
DRIFTED_AFFINITY = AuditRule(
    "audit-placed-node-affinity",
    NOTE,
    "Pods run where their required node affinity does not lead any more",
    "It is ignored during execution: labels changed later. A kubelet that starts anew refuses them, with reason "
    "NodeAffinity.",
    "Delete them to have them placed anew; a descheduler does so (RemovePodsViolatingNodeAffinity)",
)
DRIFTED_TAINT = AuditRule(
    "audit-placed-taint",
    NOTE,
    "Pods run on nodes with a taint that keeps others like them away",
    "NoSchedule leaves pods alone that were there before it.",
    "Delete them to have them placed anew; a descheduler does so (RemovePodsViolatingNodeTaints)",
)
DRIFTED_AWAY = AuditRule(
    "audit-placed-affinity",
    NOTE,
    "Pods are not with the pods that their required affinity wants them with",
    "It is ignored during execution: those pods have gone, or moved.",
    "Delete them to have them placed anew",
)
DRIFTED_SPREAD = AuditRule(
    "audit-placed-spread",
    NOTE,
    "Pods are spread less evenly than their constraint allows for new ones",
    "Scaling down, and nodes that go, leave what they leave: nothing spreads running pods anew.",
    "kubectl rollout restart spreads them anew; a descheduler does so (RemovePodsViolatingTopologySpreadConstraint)",
)
RULES = (
    *(OVERCOMMITTED, SHARED, CLASH, APART, STRANDED, NOT_EVICTED, REFUSED, ORPHANED),
    *(DRIFTED_AFFINITY, DRIFTED_TAINT, DRIFTED_AWAY, DRIFTED_SPREAD),
)
_BY_REFUSAL = {
    AFFINITY: DRIFTED_AFFINITY,
    PORTS: CLASH,
    SPREAD: DRIFTED_SPREAD,
    UNLESS_EVICTED: NOT_EVICTED,
    NOT_WELCOME: DRIFTED_TAINT,
    **dict.fromkeys(VOLUMES, STRANDED),
}
OF_REFUSALS = {
    "NodeShutdown": ("The node was shutting down: nothing is to be done but to delete the failed pods", NOTE),
    "NodeAffinity": (
        "Labels of the node changed, or were not there yet when its kubelet started: set them by the kubelet's "
        "--node-labels",
        WARNING,
    ),
}
"""A kubelet's reason -> what to do about it in particular, and how grave it is."""


def rule_of(refuses: str, reason: str) -> AuditRule:
    """What is broken where a plugin refuses a running pod, or a taint of that effect, with a reason."""
    if refuses == PODS:
        return APART if "anti-affinity" in reason else DRIFTED_AWAY
    return _BY_REFUSAL[refuses]
