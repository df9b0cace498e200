"""What the section about who schedules may find."""

from __future__ import annotations

from kschedctl.studies.audit.rule import ERROR, NOTE, WARNING, AuditRule

ELECTION = "staging/src/k8s.io/client-go/tools/leaderelection/leaderelection.go"
STALE = AuditRule(
    "audit-leader-stale",
    ERROR,
    "Nobody leads: the scheduler's lease is not renewed",
    "Whoever leads renews it every few seconds. Until somebody takes it no pod of this scheduler is placed.",
    "Look at kube-scheduler's pods and logs on the control plane, and whether they reach the API server",
    ELECTION,
)
LEFT_BEHIND = AuditRule(
    "audit-leader-left-behind",
    NOTE,
    "The lease of another scheduler is not renewed",
    "That scheduler is gone, or does not run: pods that name it wait.",
    "Start it, or delete its lease",
    ELECTION,
)
NO_LEASE = AuditRule(
    "audit-leader-no-lease",
    NOTE,
    "No lease says who leads",
    "Without leader election every instance of kube-scheduler schedules: a second one means double booking.",
    "Where several instances run, set leaderElection.leaderElect to true",
)
FREQUENT = AuditRule(
    "audit-leader-frequent",
    WARNING,
    "The lead changes often",
    "Each change costs as long as the lease lasts, and a new leader knows nothing of pods assumed before. Leaders lose "
    "their lease where they cannot renew it in time: a slow API server or etcd, too little cpu, or crashes.",
    "Look at the restarts of kube-scheduler's pods, and at the latency of the API server and etcd",
    ELECTION,
)
TWO_SERVE = AuditRule(
    "audit-leader-two-serve",
    ERROR,
    "Two instances schedule under one name at once",
    "Neither knows what the other one assumes: both give away the same room. It shows as overcommitted nodes, and as "
    "pods that kubelets refuse.",
    "See that all instances take part in the same election: leaderElect, resourceName and resourceNamespace",
)
NO_ELECTION = AuditRule(
    "audit-leader-no-election",
    ERROR,
    "Several instances run without leader election",
    "All of them schedule the same pods at once, and give away the same room.",
    "Start them with --leader-elect=true, or run one",
)
DIFFERENT = AuditRule(
    "audit-leader-instances-differ",
    WARNING,
    "Instances of kube-scheduler do not run alike",
    "Which rules hold then depends on who leads.",
    "Give all of them the same manifest; while the control plane is upgraded it passes by itself",
)
RULES = (STALE, TWO_SERVE, NO_ELECTION, FREQUENT, DIFFERENT, LEFT_BEHIND, NO_LEASE)
