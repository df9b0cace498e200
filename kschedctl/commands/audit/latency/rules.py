"""The rules for findings in kube-scheduler's metrics: why they matter and what likely helps."""

from __future__ import annotations

from collections.abc import Mapping

from kschedctl.replay.audit_rules import NOTE, WARNING, AuditRule

ATTEMPTS = AuditRule(
    "audit-latency-attempts",
    WARNING,
    "Attempts to schedule a pod take longer than the target",
    "The scheduler tries one pod at a time: whatever an attempt takes, every pod behind it waits as well.",
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
BINDING_FIXES: Mapping[str, str] = {
    "PreBind": "Look at the CSI and DRA drivers (volumes are provisioned and attached here), then at the API server",
    "WaitOnPermit": "A Permit plugin makes pods wait, such as one for gangs: see what it waits for",
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
    "Pods that fit at once still wait long",
    "They waited in the active queue: pods arrive faster than they are tried.",
    "Shorten the attempts; fewer pods at once, or a second scheduler for pods of its own",
)
ERRORS = AuditRule(
    "audit-latency-errors",
    WARNING,
    "Attempts end with an error",
    "Not a refusal: a plugin or the API server failed, and the pod is retried.",
    "Run explain to see which pods fail in replay; the scheduler's log has the rest",
)
REFUSED = AuditRule(
    "audit-latency-refused",
    NOTE,
    "Most attempts end without a node",
    "Each costs as much as one that places a pod.",
    "Run explain for the reason, and wakes for what makes the scheduler retry them so often",
)
ACTIVE = AuditRule(
    "audit-latency-active-queue",
    WARNING,
    "More pods are ready than the scheduler gets through",
    "They wait for their turn, however much room there is.",
    "Shorten the attempts: the largest part of their time first; sampling tells what looking at fewer nodes saves",
)
BACKOFF = AuditRule(
    "audit-latency-backoff-queue",
    WARNING,
    "Most pods that are woken wait out their back-off",
    "Events wake pods that still do not fit: each failed attempt lengthens their back-off.",
    "Run wakes to see which events wake them; podMaxBackoffSeconds limits the wait",
)
UNSCHEDULABLE = AuditRule(
    "audit-latency-unschedulable-queue",
    WARNING,
    "Many pods fit on no node",
    "They wait for an event that may help, and for the flush after five minutes.",
    "Run explain for the reason, and wakes for what would wake them",
)
FLUSHED = AuditRule(
    "audit-latency-flushed",
    WARNING,
    "Pods would have fitted, but no event woke them",
    "A queueing hint was wrong or an event was missed: they lost up to five minutes.",
    "Run wakes --between two snapshots to see which pods nothing woke; report it, with the plugin that rejected them",
    source="pkg/scheduler/metrics/metrics.go (v1.36): pod_scheduled_after_flush_total",
)
VAIN = AuditRule(
    "audit-latency-vain-preemption",
    NOTE,
    "Preemption is tried, and hardly ever helps",
    "Each time evictions are tried on many nodes.",
    "preemptionPolicy: Never for pods that cannot win; priorities tells who is above whom",
)
EVICTING = AuditRule(
    "audit-latency-evicting",
    WARNING,
    "Evicting the victims of preemption fails",
    "The pod that preempts them keeps waiting.",
    "See the scheduler's log, its right to delete pods, and webhooks for that",
)
ASSUMED = AuditRule(
    "audit-latency-assumed",
    WARNING,
    "Many pods are assumed on nodes and not bound yet",
    "Binding does not keep up; their room stays taken until it succeeds or fails.",
    "Look at binding: the API server, CSI drivers, clientConnection.qps",
)
STALE = AuditRule(
    "audit-latency-stale-cache",
    NOTE,
    "The scheduler's cache and the cluster disagree on the number of nodes",
    "It places pods by what it knows: on nodes that are gone, or not on new ones.",
    "Read both at the same time; if they still disagree, look for failing watches in the scheduler's log",
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
    "Very many events are kept for pods in flight",
    "Such pods take memory, and the scheduler goes through them at the end of every attempt.",
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
