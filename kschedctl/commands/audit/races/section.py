"""Would pods be double-booked here? Simulated with the cluster's own size, fullness, pod rate and latencies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from kschedctl.commands.audit.audited_cluster import AuditedCluster
from kschedctl.commands.audit.races.compare import percent, races
from kschedctl.commands.audit.races.measured import Measures, measures_of
from kschedctl.commands.audit.races.question import LEAST_SECONDS, NEVER, GivenFields, expiry_of, question_of
from kschedctl.commands.audit.races.report import RaceResult, Races, RacesSection
from kschedctl.replay.audit_rules import NOTE, WARNING, AuditRule, build_verdict
from kschedctl.reports.findings import Finding
from kschedctl.snapshot.fork import Fork
from kschedctl.text.counts import agreeing, counted

MOST_PODS, BUSIEST = 10_000, 100.0
"""Pods that are simulated at most, and pods a second: what one scheduler places."""
SLOW_SECONDS = 5.0
"""In which 99 of 100 pods should have started: the pod start-up SLO of Kubernetes' sig-scalability."""
RIVALS = AuditRule(
    "audit-races-several-schedulers",
    WARNING,
    "Several schedulers place pods on the same nodes",
    "Each learns of the other's pods only once they are bound: until then both give the same room away, and the "
    "kubelet refuses the second (OutOfcpu, OutOfmemory, OutOfpods).",
    "Serve all pods with profiles of one scheduler, or give each its own nodes: a taint, and a node selector",
    "kubernetes/kubernetes#106884",
)
SLOW = AuditRule(
    "audit-races-slow-bindings",
    WARNING,
    "Kubelets hear late of pods bound to their nodes",
    "The API server is under pressure: what the scheduler sees is just as old. Assumed pods that expired (up to 1.24) "
    "would be double-booked, and several schedulers collide more often.",
    "Look at the API server's latencies and at what the scheduler measured: latency",
    "kubernetes/kubernetes#106361",
)


def races_section(audited: AuditedCluster) -> RacesSection:
    """With assumed pods that never expire, as this scheduler has it, and after 30 s, as it once was."""
    view = audited.scheduler.view
    rivals, shared = rivals_of(view)
    measures = measures_of(view)
    races = _simulated(audited, measures, len(rivals) + 1, len(shared) if rivals else len(view.nodes))
    return RacesSection(
        title="Races",
        headline=_headline(races, rivals, len(shared), audited.cluster.kube_version),
        rivals=rivals,
        shared_nodes=len(shared),
        races=races,
        **build_verdict(
            (RIVALS, SLOW), _findings(races, rivals, shared, view), audited.iter_unread_kinds("Node", "Pod")
        ),
    )


def rivals_of(view: Fork) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Other schedulers that placed pods on nodes on which this one did too, and the rows of these nodes."""
    names = [info.spec.scheduler_name for info in view.pods.infos]
    bound = view.node >= 0
    others = np.array([name not in view.settings.served for name in names], np.bool_)[view.pods.info]
    rows = np.intersect1d(view.node[bound & others], view.node[bound & ~others])
    there = np.unique(view.pods.info[bound & others & np.isin(view.node, rows)])
    return tuple(sorted({names[info] for info in there.tolist()})), tuple(rows.tolist())


def _simulated(audited: AuditedCluster, measures: Measures, instances: int, nodes: int) -> Races | None:
    """In a moment: one size and rate, and no more than some thousand pods."""
    if not nodes or measures.rate is None or measures.room is None:
        return None
    rate = min(measures.rate, BUSIEST)
    given = GivenFields(
        expiries=(expiry_of("30s"), expiry_of(NEVER)),
        instances=instances,
        seconds=min(LEAST_SECONDS, MOST_PODS / rate),
    )
    return races(question_of(given, replace(measures, nodes=nodes, rate=rate)), audited.progress)


def _of(races: Races, expiry: str) -> RaceResult:
    return next(result for result in races.results if result.expiry == expiry)


def _headline(races: Races | None, rivals: tuple[str, ...], shared: int, version: str) -> str:
    if races is None:
        return "no pods run that could race for room"
    now, once = _of(races, NEVER), _of(races, "30s")
    at = f"{counted(now.nodes, 'node')} and {now.pods_per_second:.3g} pods/s"
    at += "" if races.assumptions.measured else " (latencies assumed)"
    if rivals:
        return (
            f"{len(rivals) + 1} schedulers share {counted(shared, 'node')}: {percent(now.share)} of pods "
            f"double-booked at {at}"
        )
    return f"kube-scheduler {version} never expires assumed pods; with 30s, {percent(once.share)} double-booked at {at}"


def _findings(races: Races | None, rivals: tuple[str, ...], shared: tuple[int, ...], view: Fork) -> Iterator[Finding]:
    if races is None:
        return
    now = _of(races, NEVER)
    if rivals:
        find_their = agreeing(now.double_booked, "finds its", "find their")
        names = ", ".join(view.nodes.names[row] for row in shared[:3]) + (", …" if len(shared) > 3 else "")
        yield RIVALS.build_finding(
            f"Scheduler {rivals[0]}",
            f"{', '.join(rivals)} and {', '.join(sorted(view.settings.served))} both have pods on {len(shared):,} "
            f"{agreeing(len(shared), 'node', 'nodes')} ({names}); "
            f"simulated{'' if races.assumptions.measured else ' with assumed latencies'}, "
            f"{now.double_booked:,} of {counted(now.pods, 'pod')} {find_their} room taken",
            severity=WARNING if now.double_booked else NOTE,
        )
    lags = races.assumptions.measured
    if lags and lags.p99 > SLOW_SECONDS:
        yield SLOW.build_finding(
            "Cluster",
            f"of {counted(lags.pods, 'pod')} one in a hundred was taken in by its kubelet {lags.p99:g}s or more "
            "after it was "
            f"bound ({lags.median:g}s at the median)",
        )
