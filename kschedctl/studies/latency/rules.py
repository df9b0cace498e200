"""What may be found in kube-scheduler's metrics, why it matters and what likely helps."""

from __future__ import annotations

from collections.abc import Mapping

from kschedctl.studies.basics.findings import NOTE, WARNING, AuditRule

ATTEMPTS = AuditRule(
    "audit-latency-attempts",
    WARNING,
    "Attempts to schedule a pod take longer than the target",
    "The scheduler tries one pod after the other: what an attempt takes, all that wait behind it wait too.",
    "See which extension point takes the time",
)
PLUGIN = AuditRule(
    "audit-latency-plugin",
    WARNING,
    "Single calls of a plugin take longer than its histogram reaches",
    "More than one call in a hundred is above 22 ms, of one node or one pod.",
    "See what the plugin does there",
)
BINDING = AuditRule(
    "audit-latency-binding",
    WARNING,
    "Binding takes longer than the target",
    "Pods are assumed on their nodes for as long, and with many of them the client's requests queue up.",
    "Look at the API server's latency for pods/binding, and at its webhooks",
)
BINDING_LEVERS: Mapping[str, str] = {
    "PreBind": "Look at the CSI and DRA drivers (volumes are provisioned and attached here), then at the API server",
    "WaitOnPermit": "A Permit plugin makes pods wait, as one for gangs does: see what it waits for",
}
CLIENT = AuditRule(
    "audit-latency-client",
    WARNING,
    "The scheduler's own rate limit holds its requests back",
    "Binding and status updates wait for clientConnection.qps, not for the API server.",
    "Raise clientConnection.qps and burst in the KubeSchedulerConfiguration",
)
SLI = AuditRule(
    "audit-latency-sli",
    WARNING,
    "Pods that fit at once wait long all the same",
    "They stood in the active queue: more pods come than attempts are made.",
    "Shorten the attempts; fewer pods at once, or a second scheduler for pods of its own",
)
ERRORS = AuditRule(
    "audit-latency-errors",
    WARNING,
    "Attempts end with an error",
    "It is no refusal: a plugin or the API server failed, and the pod is tried again and again.",
    "See which pods' replay errs, by explain; the scheduler's log has the rest",
)
REFUSED = AuditRule(
    "audit-latency-refused",
    NOTE,
    "Most attempts end without a node",
    "Each costs as much as one that places a pod.",
    "See by explain why, and by wakes what makes the scheduler try them so often",
)
ACTIVE = AuditRule(
    "audit-latency-active-queue",
    WARNING,
    "More pods are ready to be tried than attempts are made",
    "They wait for their turn, whatever room there is.",
    "Shorten the attempts: the largest part of their time first; sampling tells what looking at fewer nodes saves",
)
BACKOFF = AuditRule(
    "audit-latency-backoff-queue",
    WARNING,
    "Most pods that are woken wait out their back-off",
    "Events wake pods that do not fit then either: each vain attempt makes their back-off longer.",
    "See by wakes which events wake them; podMaxBackoffSeconds bounds what they wait",
)
UNSCHEDULABLE = AuditRule(
    "audit-latency-unschedulable-queue",
    WARNING,
    "Many pods fit on no node",
    "They wait for an event that may help, and for the flush after five minutes.",
    "See by explain why, and by wakes what would wake them",
)
FLUSHED = AuditRule(
    "audit-latency-flushed",
    WARNING,
    "Pods fitted, and no event woke them",
    "A queueing hint was wrong or an event was missed: they lost up to five minutes.",
    "See by wakes --between two snapshots which pods nothing woke; report it, with the plugin that refused them",
    "pkg/scheduler/metrics/metrics.go (v1.36): pod_scheduled_after_flush_total",
)
VAIN = AuditRule(
    "audit-latency-vain-preemption",
    NOTE,
    "Preemption is tried, and nearly always in vain",
    "Each time evictions are tried on many nodes.",
    "preemptionPolicy: Never for pods that cannot win; priorities tells who is above whom",
)
EVICTING = AuditRule(
    "audit-latency-evicting",
    WARNING,
    "Evicting the victims of preemption fails",
    "The pod for which they should go keeps waiting.",
    "See the scheduler's log, its right to delete pods, and webhooks for that",
)
ASSUMED = AuditRule(
    "audit-latency-assumed",
    WARNING,
    "Many pods are assumed on nodes and not bound yet",
    "Binding does not keep up; should it fail, what they hold is free again only then.",
    "Look at binding: the API server, CSI drivers, clientConnection.qps",
)
STALE = AuditRule(
    "audit-latency-stale-cache",
    NOTE,
    "The scheduler knows of another number of nodes than the cluster has",
    "It places pods by what it knows: on nodes that are gone, or not on new ones.",
    "Read both at one time; if it stays so see the scheduler's log for watches that fail",
)
HINTS = AuditRule(
    "audit-latency-hint-errors",
    WARNING,
    "Queueing hints fail",
    "Pods are then woken at each such event.",
    "See the scheduler's log for the plugin",
)
EVENTS = AuditRule(
    "audit-latency-events",
    NOTE,
    "Very many events are kept for pods that are being tried",
    "They take memory, and are looked through when an attempt ends.",
    "Shorten the attempts, or what changes nodes and pods so often",
)
RULES = (
    ATTEMPTS,
    PLUGIN,
    BINDING,
    CLIENT,
    SLI,
    ERRORS,
    REFUSED,
    ACTIVE,
    BACKOFF,
    UNSCHEDULABLE,
    FLUSHED,
    VAIN,
    EVICTING,
    ASSUMED,
    STALE,
    HINTS,
    EVENTS,
)
