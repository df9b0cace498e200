"""Section "leader": stale leases, frequent elections, instances that serve one name at once, and differing settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kschedctl.api.kinds import LEASE
from kschedctl.api.times import DAY
from kschedctl.cluster import SchedulerInstance
from kschedctl.commands.audit.audited_cluster import NO_TIMES, AuditedCluster
from kschedctl.commands.audit.leader.instances import (
    compute_seconds_until_newest_renewal,
    find_differing_settings,
    find_own_lease,
    get_lease_name,
    report_scheduler_leases,
    summarize_scheduler_names,
)
from kschedctl.commands.audit.leader.report import DifferentSetting, LeaderSection, SchedulerLease, ServedName
from kschedctl.replay.audit_rules import ERROR, NOTE, WARNING, AuditRule, build_verdict
from kschedctl.reports.findings import Finding
from kschedctl.reports.unknown import VERDICT, UnknownKind, describe_unread_kinds
from kschedctl.text.counts import agreeing, counted, spell_age

ELECTION = "staging/src/k8s.io/client-go/tools/leaderelection/leaderelection.go"
STALE = AuditRule(
    "audit-leader-stale",
    ERROR,
    "No leader: the scheduler's lease is not renewed",
    "The leader renews its lease every few seconds. Until an instance acquires the lease, this scheduler places no "
    "pods.",
    "Check kube-scheduler's pods and logs on the control plane, and whether they reach the API server",
    source=ELECTION,
)
LEFT_BEHIND = AuditRule(
    "audit-leader-left-behind",
    NOTE,
    "The lease of another scheduler is not renewed",
    "That scheduler is not running, so pods that name it stay Pending.",
    "Start it, or delete its lease",
    source=ELECTION,
)
NO_LEASE = AuditRule(
    "audit-leader-no-lease",
    NOTE,
    "There is no leader lease",
    "Without leader election, every instance of kube-scheduler schedules pods, so a second instance causes double "
    "booking.",
    "If several instances run, set leaderElection.leaderElect to true",
)
FREQUENT = AuditRule(
    "audit-leader-frequent",
    WARNING,
    "The leader changes often",
    "Each change can stop scheduling for up to one lease duration, and the new leader does not know which pods the "
    "old one had assumed. Leaders lose their lease when they cannot renew it in time, because of a slow API server "
    "or etcd, too little CPU, or crashes.",
    "Check the restarts of kube-scheduler's pods, and the latency of the API server and etcd",
    source=ELECTION,
)
TWO_SERVE = AuditRule(
    "audit-leader-two-serve",
    ERROR,
    "Two instances schedule under the same name at once",
    "Neither knows what the other assumes, so both place pods on the same free resources. "
    "The result is overcommitted nodes and pods "
    "that kubelets reject.",
    "Let all instances take part in one election: leaderElect: true, and the same resourceName and resourceNamespace",
)
NO_ELECTION = AuditRule(
    "audit-leader-no-election",
    ERROR,
    "Several instances run without leader election",
    "They all schedule the same pods at once and assign the same free resources twice.",
    "Start them with --leader-elect=true, or run only one",
)
DIFFERENT = AuditRule(
    "audit-leader-instances-differ",
    WARNING,
    "Instances of kube-scheduler are configured differently",
    "Which settings apply depends on which instance leads.",
    "Give all instances the same manifest; differences during a control plane upgrade disappear when it is done",
)
RULES = (STALE, TWO_SERVE, NO_ELECTION, FREQUENT, DIFFERENT, LEFT_BEHIND, NO_LEASE)


MANY_ELECTIONS = 3
"""The number of elections that are too many for the hour for which events are kept."""
LEADER_ELECT_FLAG = "leader-elect"


def build_leader_section(audited: AuditedCluster) -> LeaderSection:
    """Build the section about leader election and the scheduler names that pods use.

    Its findings are about leases that are stale, missing or often acquired, names that several instances serve, and
    instances that run without election or with different settings.
    """
    leases = report_scheduler_leases(audited)
    names = summarize_scheduler_names(audited)
    provenance = audited.cluster.provenance
    instances = provenance.instances if provenance else ()
    differing_settings = find_differing_settings(instances)
    findings = [
        *_iter_lease_findings(leases, audited),
        *_iter_shared_name_findings(names, leases),
        *(_build_difference_finding(setting) for setting in differing_settings),
    ]
    if disabled_election_finding := _build_disabled_election_finding(instances):
        findings.append(disabled_election_finding)
    return LeaderSection(
        title="Scheduler leader election",
        headline=_build_headline(leases, names, audited),
        leases=tuple(leases),
        nothing_judged=not leases and not instances,
        names=tuple(names),
        instances=tuple(instance.name for instance in instances),
        differences=tuple(differing_settings),
        **build_verdict(RULES, findings, _iter_unknowns(leases, audited)),
    )


def _iter_unknowns(leases: Sequence[SchedulerLease], audited: AuditedCluster) -> Iterator[UnknownKind]:
    """Yield the unread data without which nobody can say that the leader is healthy.

    Without the time of the cluster, it is unknown whether leases are stale, unless the renewals of other leases show
    it.
    """
    own_lease = find_own_lease(audited.cluster)
    lease_gap = audited.cluster.find_gap(LEASE, own_lease.namespace if own_lease else "")
    if lease_gap:
        yield UnknownKind(LEASE, lease_gap.why, VERDICT)
    yield from audited.iter_unread_kinds("Event", "Pod")
    if any(lease.holder and not lease.renewed for lease in leases):
        yield UnknownKind(LEASE, "have a holder but no time of renewal", VERDICT)
    if leases and not audited.now and not any(_is_expired_by_other_leases(lease, audited) for lease in leases):
        yield NO_TIMES


def _is_expired_by_other_leases(lease: SchedulerLease, audited: AuditedCluster) -> bool:
    """Return whether the lease has expired by the time of another lease's renewal.

    This does not depend on this machine's clock.
    """
    seconds_behind = compute_seconds_until_newest_renewal(audited.cluster, lease.renewed)
    return seconds_behind is not None and seconds_behind > lease.seconds


def _iter_lease_findings(leases: Sequence[SchedulerLease], audited: AuditedCluster) -> Iterator[Finding]:
    """Yield findings about stale leases, frequent elections and a missing lease."""
    own_lease = find_own_lease(audited.cluster)
    for lease in leases:
        if lease.lease == str(own_lease):
            if own_lease_finding := _build_own_lease_finding(lease, audited):
                yield own_lease_finding
        elif lease.stale or not lease.holder:
            yield _build_stale_lease_finding(lease, audited)
        if election_finding := _build_election_finding(lease, audited):
            yield election_finding
    lease_names = {lease.lease for lease in leases}
    if own_lease and str(own_lease) not in lease_names and not audited.cluster.find_gap(LEASE, own_lease.namespace):
        yield NO_LEASE.build_finding(f"{LEASE} {own_lease}", "does not exist", namespace=own_lease.namespace)


def _build_own_lease_finding(lease: SchedulerLease, audited: AuditedCluster) -> Finding | None:
    """Build the finding that the replayed scheduler's lease was released or is stale, or return None if it is valid.

    For a stale lease, the finding is only a warning if no other lease was renewed since, because the time of the
    cluster may then be wrong.
    """
    if not lease.holder:
        return _build_lease_finding(STALE, lease, f"released{_format_age_suffix(lease)}, and not acquired since")
    if not lease.stale:
        return None
    renewal = f"last renewed at {lease.renewed}{_format_age_suffix(lease)}"
    message = f"held by {lease.holder}, {renewal}; it lasts {lease.seconds} s"
    if _is_expired_by_other_leases(lease, audited):
        return _build_lease_finding(STALE, lease, message)
    message += ", and no other lease was renewed since, so the time of the cluster may be wrong"
    return _build_lease_finding(STALE, lease, message, severity=WARNING)


def _build_lease_finding(rule: AuditRule, lease: SchedulerLease, message: str, *, severity: str = "") -> Finding:
    """Build a finding about a lease, with the severity of the rule unless another is given."""
    namespace, _, _ = lease.lease.partition("/")
    severity = severity or rule.severity
    return rule.build_finding(f"{LEASE} {lease.lease}", message, namespace=namespace, severity=severity)


def _build_stale_lease_finding(lease: SchedulerLease, audited: AuditedCluster) -> Finding:
    """Build the finding about another scheduler's stale lease. It is a warning for a day and a note after that."""
    seconds_silent = audited.measure_seconds_since(lease.renewed)
    is_recent = seconds_silent is None or seconds_silent < DAY
    renewed = f"last renewed at {lease.renewed or 'an unknown time'}{_format_age_suffix(lease)}"
    message = f"held by {lease.holder or 'nobody'}, {renewed}"
    return _build_lease_finding(LEFT_BEHIND, lease, message, severity=WARNING if is_recent else NOTE)


def _format_age_suffix(lease: SchedulerLease) -> str:
    """Return how long ago the lease was renewed, as the end of a phrase, empty if unknown."""
    return f", {spell_age(lease.silent_for)} ago" if lease.silent_for else ""


def _build_election_finding(lease: SchedulerLease, audited: AuditedCluster) -> Finding | None:
    """Return a finding if events or the earlier snapshot show that the leader changes often, otherwise None."""
    if lease.elections >= MANY_ELECTIONS:
        message = f"{counted(lease.elections, 'election')} in the events, which are kept for an hour"
        return _build_lease_finding(FREQUENT, lease, message)
    earlier_transitions = _count_earlier_transitions(lease, audited)
    if earlier_transitions is None or lease.transitions - earlier_transitions < MANY_ELECTIONS:
        return None
    changes = counted(lease.transitions - earlier_transitions, "time")
    return _build_lease_finding(FREQUENT, lease, f"changed hands {changes} since the earlier snapshot")


def _count_earlier_transitions(lease: SchedulerLease, audited: AuditedCluster) -> int | None:
    """Return how often the lease had changed hands at the earlier time.

    Return None if there is no earlier time, or if the lease did not exist then or was not read.
    """
    if audited.earlier is None:
        return None
    for earlier_lease in audited.earlier.cluster.leases:
        if str(get_lease_name(earlier_lease)) == lease.lease:
            return earlier_lease.spec.lease_transitions or 0
    return None


def _iter_shared_name_findings(
    served_names: Sequence[ServedName], leases: Sequence[SchedulerLease]
) -> Iterator[Finding]:
    """Yield a finding for each scheduler name under which two instances seem to place pods at the same time.

    Such instances alternate more often than the number of elections explains.
    """
    elections = max((lease.elections for lease in leases), default=0)
    for served in served_names:
        if served.turns > max(1, elections):
            placements = "; ".join(
                f"{instance.instance}: {instance.placed:,} from {instance.first} to {instance.last}"
                for instance in served.instances
            )
            turns = counted(served.turns, "time")
            message = (
                f"instances alternated {turns} in placing pods, with {counted(elections, 'election')}: {placements}"
            )
            yield TWO_SERVE.build_finding(f"Scheduler {served.name}", message)


def _build_difference_finding(setting: DifferentSetting) -> Finding:
    """Build the finding that instances differ in a setting."""
    values = "; ".join(f"{value or '(not set)'}: {', '.join(names)}" for value, names in setting.values.items())
    return DIFFERENT.build_finding("Scheduler kube-scheduler", f"{setting.setting}: {values}", path=setting.setting)


def _build_disabled_election_finding(instances: Sequence[SchedulerInstance]) -> Finding | None:
    """Build the finding that several instances run although leader election is off for some of them.

    Return None if at most one instance runs, or if leader election is on for all instances.
    """
    without_election = [instance.name for instance in instances if instance.flags.get(LEADER_ELECT_FLAG) == "false"]
    if not without_election or len(instances) < 2:
        return None
    message = f"--leader-elect=false: {', '.join(without_election)}"
    return NO_ELECTION.build_finding("Scheduler kube-scheduler", message)


def _build_headline(leases: Sequence[SchedulerLease], names: Sequence[ServedName], audited: AuditedCluster) -> str:
    """Describe which instance leads, and how many waiting pods name an unknown scheduler."""
    headline = _describe_leader(leases, audited)
    unserved = sum(scheduler_name.waiting for scheduler_name in names if not scheduler_name.served)
    if unserved:
        headline += f"; {counted(unserved, 'pod')} {agreeing(unserved, 'names', 'name')} an unknown scheduler"
    return headline


def _describe_leader(leases: Sequence[SchedulerLease], audited: AuditedCluster) -> str:
    """Describe which instance of the replayed scheduler leads and for how long, or why none does."""
    own_lease = find_own_lease(audited.cluster)
    if own_lease is None:
        return "leader election is off in the configuration"
    lease = next((scheduler_lease for scheduler_lease in leases if scheduler_lease.lease == str(own_lease)), None)
    if lease is None:
        gap = audited.cluster.find_gap(LEASE, own_lease.namespace)
        if gap:
            return f"{describe_unread_kinds([UnknownKind(LEASE, gap.why, VERDICT)])}, so the leader is unknown"
        return "there is no leader lease"
    if lease.stale or not lease.holder:
        silent_text = f" for {lease.silent_for}" if lease.silent_for else f" since {lease.renewed or 'an unknown time'}"
        return f"no leader: {lease.lease} has not been renewed{silent_text}"
    duration = ""
    if lease.leads_for:
        duration = f" for {lease.leads_for}"
    elif lease.since:
        duration = f" since {lease.since}"
    verb = "has led" if duration else "leads"
    return f"{lease.holder} {verb}{duration}; {counted(lease.transitions, 'leader change')} in total"
