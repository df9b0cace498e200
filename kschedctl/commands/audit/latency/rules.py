"""The rules for findings in kube-scheduler's metrics: why they matter and what likely helps."""

from __future__ import annotations

from collections.abc import Mapping

from kschedctl.replay.audit_rules import NOTE, WARNING, AuditRule

ATTEMPTS = AuditRule(
    "audit-latency-attempts",
    WARNING,
    "Attempts to schedule a pod take longer than the target",
    "The scheduler tries one pod at a time, so a slow attempt delays every pod behind it.",
    "Find the extension point that takes the time",
)
PLUGIN = AuditRule(
    "audit-latency-plugin",
    WARNING,
    "More than 1% of a plugin's calls are slower than its histogram can measure",
    "The last bucket of the histogram ends at 22 ms. A call handles one node or one pod.",
    "Find out what the plugin does there",
)
BINDING = AuditRule(
    "audit-latency-binding",
    WARNING,
    "Binding takes longer than the target",
    "Pods stay assumed on their nodes until they are bound, and with many such pods the client's requests queue up.",
    "Check the API server's latency for pods/binding, and its webhooks",
)
BINDING_FIXES: Mapping[str, str] = {
    "PreBind": "Check the CSI and DRA drivers (volumes are provisioned and attached here), then the API server",
    "WaitOnPermit": "A Permit plugin, such as one for gangs, makes pods wait: find out what it waits for",
}
CLIENT = AuditRule(
    "audit-latency-client",
    WARNING,
    "The scheduler's own rate limit delays its requests",
    "Binding and status updates wait for clientConnection.qps, not for the API server.",
    "Raise clientConnection.qps and burst in the KubeSchedulerConfiguration",
)
SLI = AuditRule(
    "audit-latency-sli",
    WARNING,
    "Pods that are scheduled at the first attempt still wait long",
    "They wait in the active queue because pods arrive faster than the scheduler tries them.",
    "Shorten the attempts, create fewer pods at once, or run a second scheduler for some of the pods",
)
ERRORS = AuditRule(
    "audit-latency-errors",
    WARNING,
    "Attempts end with an error",
    "The pod was not rejected: a plugin or the API server failed, and the scheduler retries the pod.",
    "Run explain to see which pods fail in the replay; look for other errors in the scheduler's log",
)
REFUSED = AuditRule(
    "audit-latency-refused",
    NOTE,
    "Most attempts end without a node",
    "An attempt without a node takes as long as one that places a pod.",
    "Run explain to see why, and wakes to see what makes the scheduler retry the pods so often",
)
ACTIVE = AuditRule(
    "audit-latency-active-queue",
    WARNING,
    "More pods are ready than the scheduler can keep up with",
    "They wait in the active queue even if the cluster has room for them.",
    "Shorten the attempts, starting with their slowest part; run sampling to see what evaluating fewer nodes saves",
)
BACKOFF = AuditRule(
    "audit-latency-backoff-queue",
    WARNING,
    "Most pods that were woken are waiting out their back-off",
    "Events wake pods that still do not fit, and each failed attempt lengthens their back-off.",
    "Run wakes to see which events wake them; podMaxBackoffSeconds limits the wait",
)
UNSCHEDULABLE = AuditRule(
    "audit-latency-unschedulable-queue",
    WARNING,
    "Many pods fit on no node",
    "They wait for an event that may help, or for the flush after five minutes.",
    "Run explain to see why, and wakes to see what would wake them",
)
FLUSHED = AuditRule(
    "audit-latency-flushed",
    WARNING,
    "Pods fitted, but no event woke them",
    "A queueing hint was wrong or an event was missed, which delayed the pods by up to five minutes.",
    "Run wakes --between two snapshots to see which pods nothing woke, and report the plugin that rejected them",
    source="pkg/scheduler/metrics/metrics.go (v1.36): pod_scheduled_after_flush_total",
)
VAIN = AuditRule(
    "audit-latency-vain-preemption",
    NOTE,
    "Preemption is often tried but rarely helps",
    "Each time, the scheduler tries evictions on many nodes.",
    "Set preemptionPolicy: Never for pods that cannot win; run priorities to see which tiers outrank which",
)
EVICTING = AuditRule(
    "audit-latency-evicting",
    WARNING,
    "Evictions of preemption victims fail",
    "The preempting pod keeps waiting.",
    "Check the scheduler's log, its permission to delete pods, and webhooks for pod deletions",
)
ASSUMED = AuditRule(
    "audit-latency-assumed",
    WARNING,
    "Many pods are assumed on nodes but not bound yet",
    "Binding is falling behind. The pods' resources stay reserved until binding succeeds or fails.",
    "Check what slows down binding: the API server, CSI drivers or clientConnection.qps",
)
STALE = AuditRule(
    "audit-latency-stale-cache",
    NOTE,
    "The scheduler's cache and the cluster disagree on the number of nodes",
    "The scheduler places pods according to its cache: it may choose nodes that are gone and ignore new ones.",
    "Read the metrics and the cluster at the same time; if they still disagree, look for failing watches in the "
    "scheduler's log",
)
HINTS = AuditRule(
    "audit-latency-hint-errors",
    WARNING,
    "Queueing hints return errors",
    "The scheduler then wakes the pod as if the event could help.",
    "Look for the plugin's errors in the scheduler's log",
)
EVENTS = AuditRule(
    "audit-latency-events",
    NOTE,
    "Very many events are kept for pods in flight",
    "The events take memory, and the scheduler scans them at the end of every attempt.",
    "Shorten the attempts, or find out what changes nodes and pods so often",
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
