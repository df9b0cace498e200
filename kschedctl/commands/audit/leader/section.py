"""Leader: who schedules since when, leases that nobody renews, two that serve one name, and pods that name nobody."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kschedctl.api.ages import DAY
from kschedctl.api.kinds import LEASE
from kschedctl.commands.audit.audited_cluster import AuditedCluster
from kschedctl.commands.audit.leader.leases import own_lease, renewed_later, scheduler_leases
from kschedctl.commands.audit.leader.report import DifferentSetting, LeaderSection, SchedulerLease, ServedName
from kschedctl.commands.audit.leader.served_names import differences, served_names
from kschedctl.replay.audit_rules import ERROR, NOTE, WARNING, AuditRule, build_verdict
from kschedctl.reports.findings import Finding
from kschedctl.reports.unknown import VERDICT, UnknownKind
from kschedctl.text.counts import counted

ELECTION = "staging/src/k8s.io/client-go/tools/leaderelection/leaderelection.go"
STALE = AuditRule(
    "audit-leader-stale",
    ERROR,
    "No leader: the scheduler's lease is not renewed",
    "The leader renews it every few seconds. Until an instance takes it, no pod of this scheduler is placed.",
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
    "The leader changes often",
    "Each change costs up to one lease duration, and a new leader knows nothing of pods assumed before. Leaders lose "
    "their lease when they cannot renew it in time: a slow API server or etcd, too little cpu, or crashes.",
    "Look at the restarts of kube-scheduler's pods, and at the latency of the API server and etcd",
    ELECTION,
)
TWO_SERVE = AuditRule(
    "audit-leader-two-serve",
    ERROR,
    "Two instances schedule under one name at once",
    "Neither knows what the other assumes: both give away the same room. The result is overcommitted nodes and pods "
    "that kubelets refuse.",
    "Make all instances take part in the same election: leaderElect, resourceName and resourceNamespace",
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
    "Instances of kube-scheduler are configured differently",
    "Which rules apply depends on which one leads.",
    "Give them all the same manifest; during a control plane upgrade this passes by itself",
)
RULES = (STALE, TWO_SERVE, NO_ELECTION, FREQUENT, DIFFERENT, LEFT_BEHIND, NO_LEASE)


NO_TIMES = UnknownKind("Age", "are not known without the time of the reading: --now TIME", VERDICT)
OFTEN = 3
"""Elections within the hour for which events are kept."""
NO_ELECT = "leader-elect"


def leader_section(audited: AuditedCluster) -> LeaderSection:
    """The section about all leases of schedulers, and all names that pods choose."""
    leases, names = scheduler_leases(audited), served_names(audited)
    provenance = audited.cluster.provenance
    instances = provenance.instances if provenance else ()
    unlike = differences(instances)
    findings = [
        *_of_leases(leases, audited),
        *_of_names(names, leases),
        *(_of_setting(setting) for setting in unlike),
        *_of_election(
            [instance.name for instance in instances if instance.flags.get(NO_ELECT) == "false"], len(instances)
        ),
    ]
    return LeaderSection(
        title="Leader",
        headline=_headline(leases, names, audited),
        leases=tuple(leases),
        names=tuple(names),
        instances=tuple(instance.name for instance in instances),
        differences=tuple(unlike),
        **build_verdict(RULES, findings, _unknown(leases, audited)),
    )


def _unknown(leases: Sequence[SchedulerLease], audited: AuditedCluster) -> Iterator[UnknownKind]:
    """What a claim that all is well leans on."""
    own = own_lease(audited.cluster)
    for kind, gap in (
        (LEASE, audited.cluster.gap(LEASE, own.namespace if own else "")),
        *((kind, audited.cluster.gap(kind)) for kind in ("Event", "Pod")),
    ):
        if gap:
            yield UnknownKind(kind, gap.why, VERDICT)
    if any(lease.holder and not lease.renewed for lease in leases):
        yield UnknownKind(LEASE, "that are held say nothing of when they were renewed", VERDICT)
    if leases and not audited.now and not any(_others_later(lease, audited) for lease in leases):
        yield NO_TIMES


def _others_later(lease: SchedulerLease, audited: AuditedCluster) -> bool:
    """Whether another lease was renewed long after this one was, so that no clock has to be asked."""
    behind = renewed_later(audited.cluster, lease.renewed)
    return behind is not None and behind > lease.seconds


def _of_leases(leases: Sequence[SchedulerLease], audited: AuditedCluster) -> Iterator[Finding]:
    own = own_lease(audited.cluster)
    for lease in leases:
        if lease.lease == str(own):
            yield from _of_own(lease, audited)
        elif lease.stale or not lease.holder:
            yield _of_other(lease, audited)
        yield from _of_changes(lease, audited)
    known = {lease.lease for lease in leases}
    if own and str(own) not in known and not audited.cluster.gap(LEASE, own.namespace):
        yield NO_LEASE.build_finding(f"{LEASE} {own}", "there is none of that name", namespace=own.namespace)


def _of_own(lease: SchedulerLease, audited: AuditedCluster) -> Iterator[Finding]:
    namespace = lease.lease.partition("/")[0]
    if not lease.holder:
        message = f"given up{_ago(lease)}, and nobody took it"
        yield STALE.build_finding(f"{LEASE} {lease.lease}", message, namespace=namespace)
    elif lease.stale:
        certain = _others_later(lease, audited)
        message = f"held by {lease.holder}, renewed last at {lease.renewed}{_ago(lease)}; it lasts {lease.seconds} s"
        doubt = "" if certain else ", and no other lease was renewed since: the time of the reading may be another"
        yield STALE.build_finding(
            f"{LEASE} {lease.lease}", message + doubt, namespace=namespace, severity=ERROR if certain else WARNING
        )


def _of_other(lease: SchedulerLease, audited: AuditedCluster) -> Finding:
    """For a day somebody may still miss that scheduler."""
    silent = audited.seconds_since(lease.renewed)
    recent = silent is None or silent < DAY
    message = f"held by {lease.holder or 'nobody'}, renewed last at {lease.renewed or 'an unknown time'}{_ago(lease)}"
    namespace = lease.lease.partition("/")[0]
    return LEFT_BEHIND.build_finding(
        f"{LEASE} {lease.lease}", message, namespace=namespace, severity=WARNING if recent else NOTE
    )


def _ago(lease: SchedulerLease) -> str:
    return f", {lease.silent_for} ago" if lease.silent_for else ""


def _of_changes(lease: SchedulerLease, audited: AuditedCluster) -> Iterator[Finding]:
    """Counted by the events that are left, or since the earlier snapshot."""
    namespace = lease.lease.partition("/")[0]
    if lease.elections >= OFTEN:
        message = (
            f"{counted(lease.elections, 'time')} somebody began to lead, within the hour for which events are kept"
        )
        yield FREQUENT.build_finding(f"{LEASE} {lease.lease}", message, namespace=namespace)
        return
    before = _transitions_before(lease, audited)
    if before is not None and lease.transitions - before >= OFTEN:
        message = f"it changed hands {counted(lease.transitions - before, 'time')} since the earlier snapshot"
        yield FREQUENT.build_finding(f"{LEASE} {lease.lease}", message, namespace=namespace)


def _transitions_before(lease: SchedulerLease, audited: AuditedCluster) -> int | None:
    if audited.earlier is None:
        return None
    keys = {f"{lease.metadata.namespace}/{lease.metadata.name}": lease for lease in audited.earlier.cluster.leases}
    return (keys[lease.lease].spec.lease_transitions or 0) if lease.lease in keys else None


def _of_names(names: Sequence[ServedName], leases: Sequence[SchedulerLease]) -> Iterator[Finding]:
    """``turns``: with one leader at a time another instance takes over only where there was an election."""
    elections = max((lease.elections for lease in leases), default=0)
    for name in names:
        if name.turns > max(1, elections):
            shown = "; ".join(
                f"{one.instance}: {one.placed:,} from {one.first} to {one.last}" for one in name.instances
            )
            message = (
                f"instances took turns {counted(name.turns, 'time')} in placing pods, with "
                f"{counted(elections, 'election')}: {shown}"
            )
            yield TWO_SERVE.build_finding(f"Scheduler {name.name}", message)


def _of_setting(setting: DifferentSetting) -> Finding:
    shown = "; ".join(f"{value or '(not set)'}: {', '.join(names)}" for value, names in setting.values.items())
    return DIFFERENT.build_finding("Scheduler kube-scheduler", f"{setting.setting}: {shown}", path=setting.setting)


def _of_election(without: Sequence[str], instances: int) -> Iterator[Finding]:
    if without and instances > 1:
        yield NO_ELECTION.build_finding("Scheduler kube-scheduler", f"--leader-elect=false: {', '.join(without)}")


def _headline(leases: Sequence[SchedulerLease], names: Sequence[ServedName], audited: AuditedCluster) -> str:
    """Who leads, of the scheduler that is replayed."""
    own = own_lease(audited.cluster)
    lease = next((scheduler_lease for scheduler_lease in leases if scheduler_lease.lease == str(own)), None)
    unserved = sum(served_name.waiting for served_name in names if not served_name.served)
    name = "pods name" if unserved > 1 else "pod names"
    waiting = f"; {unserved:,} {name} a scheduler that is not known" if unserved else ""
    if own is None:
        return f"leader election is off in the configuration{waiting}"
    if lease is None:
        return f"no lease says who leads{waiting}"
    since = f" for {lease.leads_for}" if lease.leads_for else f" since {lease.since}" if lease.since else ""
    if lease.stale or not lease.holder:
        silent = f" for {lease.silent_for}" if lease.silent_for else f" since {lease.renewed or 'an unknown time'}"
        return f"no leader: {lease.lease} was not renewed{silent}{waiting}"
    changes = f"{counted(lease.transitions, 'change')} of leader in all"
    return f"{lease.holder} leads{since}, {changes}{waiting}"
