"""Section "races": a simulation of double booking with the cluster's own size, load, pod rate and latencies.

`question` has the parameters, `model` the simulation, `compare` the combinations of sizes, rates and expiries.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from kschedctl.commands.audit.audited_cluster import AuditedCluster
from kschedctl.commands.audit.races.compare import compare_expiries, format_percent
from kschedctl.commands.audit.races.question import (
    MIN_ARRIVAL_SECONDS,
    NEVER,
    Measures,
    RaceFields,
    build_question,
    measure_cluster,
    parse_expiry,
)
from kschedctl.commands.audit.races.report import RaceResult, Races, RacesSection
from kschedctl.replay.audit_rules import NOTE, WARNING, AuditRule, build_verdict
from kschedctl.reports.findings import Finding
from kschedctl.snapshot.fork import Fork
from kschedctl.text.counts import agreeing, counted

MAX_PODS, MAX_RATE = 10_000, 100.0
"""The most pods that are simulated, and the most pods per second, which is what one scheduler can place."""
SLOW_SECONDS = 5.0
"""The pod start-up SLO of Kubernetes' SIG Scalability: 99 of 100 pods start within this time."""
RIVALS = AuditRule(
    "audit-races-several-schedulers",
    WARNING,
    "Several schedulers place pods on the same nodes",
    "Each learns of the other's pods only once they are bound: until then both give the same room away, and the "
    "kubelet refuses the second (OutOfcpu, OutOfmemory, OutOfpods).",
    "Serve all pods with profiles of one scheduler, or give each its own nodes: a taint, and a node selector",
    source="kubernetes/kubernetes#106884",
)
SLOW = AuditRule(
    "audit-races-slow-bindings",
    WARNING,
    "Kubelets hear late of pods bound to their nodes",
    "The API server is under pressure: what the scheduler sees is just as old. Assumed pods that expired (up to 1.24) "
    "would be double-booked, and several schedulers collide more often.",
    "Look at the API server's latencies and at what the scheduler measured: latency",
    source="kubernetes/kubernetes#106361",
)


def build_races_section(audited: AuditedCluster) -> RacesSection:
    """Build the section. Assumed pods never expire, as now, or expire after 30 s, as in earlier versions."""
    view = audited.scheduler.view
    rivals, shared_rows = find_rivals(view)
    measures = measure_cluster(view)
    races = _simulate_cluster(audited, measures, len(rivals) + 1, len(shared_rows) if rivals else len(view.nodes))
    return RacesSection(
        title="Races",
        headline=_build_headline(races, rivals, len(shared_rows), audited.cluster.kube_version),
        rivals=rivals,
        shared_nodes=len(shared_rows),
        races=races,
        **build_verdict(
            (RIVALS, SLOW), _iter_findings(races, rivals, shared_rows, view), audited.iter_unread_kinds("Node", "Pod")
        ),
    )


def find_rivals(view: Fork) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return other schedulers that placed pods on the same nodes as this one, and the rows of these nodes."""
    names = [info.spec.scheduler_name for info in view.pods.infos]
    bound = view.node >= 0
    is_rivals = np.array([name not in view.settings.served for name in names], np.bool_)[view.pods.info]
    rows = np.intersect1d(view.node[bound & is_rivals], view.node[bound & ~is_rivals])
    rival_infos = np.unique(view.pods.info[bound & is_rivals & np.isin(view.node, rows)])
    return tuple(sorted({names[info] for info in rival_infos.tolist()})), tuple(rows.tolist())


def _simulate_cluster(audited: AuditedCluster, measures: Measures, instances: int, nodes: int) -> Races | None:
    """Simulate the cluster with one size and rate and at most some thousand pods, or return None if it has no pods."""
    if not nodes or measures.rate is None or measures.room is None:
        return None
    rate = min(measures.rate, MAX_RATE)
    fields = RaceFields(
        expiries=(parse_expiry("30s"), parse_expiry(NEVER)),
        instances=instances,
        seconds=min(MIN_ARRIVAL_SECONDS, MAX_PODS / rate),
    )
    return compare_expiries(build_question(fields, replace(measures, nodes=nodes, rate=rate)), audited.progress)


def _find_result(races: Races, expiry: str) -> RaceResult:
    """Return the result with this expiry."""
    return next(result for result in races.results if result.expiry == expiry)


def _build_headline(races: Races | None, rivals: tuple[str, ...], shared: int, version: str) -> str:
    """Return the share of double-booked pods, now and with an expiry of 30 s, as text."""
    if races is None:
        return "no pods run that could race for room"
    now, with_expiry = _find_result(races, NEVER), _find_result(races, "30s")
    setting_text = f"{counted(now.nodes, 'node')} and {now.pods_per_second:.3g} pods/s"
    setting_text += "" if races.assumptions.measured else " (latencies assumed)"
    if rivals:
        return (
            f"{len(rivals) + 1} schedulers share {counted(shared, 'node')}: {format_percent(now.share)} of pods "
            f"double-booked at {setting_text}"
        )
    double_booked = f"{format_percent(with_expiry.share)} double-booked at {setting_text}"
    return f"kube-scheduler {version} never expires assumed pods; with 30s, {double_booked}"


def _iter_findings(
    races: Races | None, rivals: tuple[str, ...], shared_rows: tuple[int, ...], view: Fork
) -> Iterator[Finding]:
    """Yield findings about rival schedulers and about kubelets that learn late of bindings."""
    if races is None:
        return
    now = _find_result(races, NEVER)
    if rivals:
        find_their = agreeing(now.double_booked, "finds its", "find their")
        names = ", ".join(view.nodes.names[row] for row in shared_rows[:3]) + (", …" if len(shared_rows) > 3 else "")
        yield RIVALS.build_finding(
            f"Scheduler {rivals[0]}",
            f"{', '.join(rivals)} and {', '.join(sorted(view.settings.served))} both have pods on {len(shared_rows):,} "
            f"{agreeing(len(shared_rows), 'node', 'nodes')} ({names}); "
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
