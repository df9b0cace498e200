"""Section "races": a simulation of double booking with the cluster's own size, load, pod rate and latencies.

`question` has the parameters, `model` the simulation, `compare` the combinations of sizes, rates and expiries.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from kschedctl.api.times import format_age_of_seconds
from kschedctl.commands.audit.audited_cluster import AuditedCluster
from kschedctl.commands.audit.races.compare import compare_expiries, format_percent
from kschedctl.commands.audit.races.question import (
    MIN_ARRIVAL_SECONDS,
    NEVER,
    SLOW_SECONDS,
    Measures,
    RaceFields,
    build_race_question,
    measure_cluster,
    parse_expiry,
)
from kschedctl.commands.audit.races.report import RaceResult, Races, RacesSection
from kschedctl.replay.audit_rules import NOTE, WARNING, AuditRule, build_verdict
from kschedctl.reports.findings import Finding
from kschedctl.snapshot.fork import Fork
from kschedctl.text.counts import agreeing, counted, join_words

MAX_PODS = 10_000
"""The maximum number of simulated pods."""
MAX_RATE = 100.0
"""The maximum number of pods per second, which one scheduler can just place."""
MAX_NAMED_NODES = 3
SIMULATED_EXPIRY = "30s"
"""The expiry of assumed pods in versions up to 1.22."""
RIVALS = AuditRule(
    "audit-races-several-schedulers",
    WARNING,
    "Several schedulers place pods on the same nodes",
    "Each scheduler learns of the other's pods only once they are bound. Until then, both assign the same free "
    "resources, and the kubelet rejects the second pod (OutOfcpu, OutOfmemory, OutOfpods).",
    "Serve all pods with profiles of one scheduler, or give each scheduler its own nodes with a taint and a node "
    "selector",
    source="kubernetes/kubernetes#106884",
)
SLOW = AuditRule(
    "audit-races-slow-bindings",
    WARNING,
    "Kubelets are slow to see pods bound to their nodes",
    "The API server is under pressure, so the scheduler's view is just as outdated. If assumed pods expire (up to "
    "1.24), they are double-booked, and several schedulers collide more often.",
    "Check the API server's latency, and run latency to see what the scheduler measured",
    source="kubernetes/kubernetes#106361",
)


def build_races_section(audited: AuditedCluster) -> RacesSection:
    """Build the section about rival schedulers, including a simulation of the cluster.

    Assumed pods are simulated without expiry, as in current versions, and with an expiry of 30 s, as in earlier
    versions. If there are rivals, the simulation has one instance per scheduler, on the nodes that the schedulers
    share.
    """
    view = audited.scheduler.view
    rivals, shared_rows = find_competing_schedulers(view)
    nodes = len(shared_rows) if rivals else len(view.nodes)
    races = _simulate_races(audited, measure_cluster(view), instances=len(rivals) + 1, nodes=nodes)
    return RacesSection(
        title="Races",
        headline=_build_headline(races, rivals, len(shared_rows), audited.cluster.kube_version),
        rivals=rivals,
        shared_nodes=len(shared_rows),
        races=races,
        nothing_judged=races is None,
        **build_verdict(
            (RIVALS, SLOW), _iter_findings(races, rivals, shared_rows, view), audited.iter_unread_kinds("Node", "Pod")
        ),
    )


def find_competing_schedulers(view: Fork) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Find schedulers that placed pods on nodes that have pods of this scheduler as well.

    Return the sorted names of these schedulers and the rows of the shared nodes.
    """
    names = [info.spec.scheduler_name for info in view.pods.infos]
    is_bound = view.mask_placed()
    is_rival_info = np.array([name not in view.settings.served_profiles for name in names], np.bool_)
    is_of_rival = is_rival_info[view.pods.info]
    rows_of_rivals = view.node[is_bound & is_of_rival]
    own_rows = view.node[is_bound & ~is_of_rival]
    shared_rows = np.intersect1d(rows_of_rivals, own_rows)

    is_on_shared_node = is_bound & np.isin(view.node, shared_rows)
    rival_infos = np.unique(view.pods.info[is_of_rival & is_on_shared_node])
    rivals = {names[info] for info in rival_infos.tolist()}
    return tuple(sorted(rivals)), tuple(shared_rows.tolist())


def _simulate_races(audited: AuditedCluster, measures: Measures, *, instances: int, nodes: int) -> Races | None:
    """Simulate double booking on `nodes` nodes, with and without an expiry of assumed pods.

    `instances` is the number of schedulers. Pods arrive at the measured rate, limited by `MAX_RATE` and `MAX_PODS`.
    Return None if there are no nodes, or too few pods to measure the rate and the number of pods that fit on a node.
    """
    if not nodes or measures.rate is None or measures.room is None:
        return None
    rate = min(measures.rate, MAX_RATE)
    seconds_until_max_pods = MAX_PODS / rate
    fields = RaceFields(
        expiries=(parse_expiry(SIMULATED_EXPIRY), parse_expiry(NEVER)),
        instances=instances,
        # pods arrive for the shortest default time, or for less time if there would be too many pods
        seconds=min(MIN_ARRIVAL_SECONDS, seconds_until_max_pods),
    )
    limited_measures = replace(measures, nodes=nodes, rate=rate)
    return compare_expiries(build_race_question(fields, limited_measures), audited.progress)


def _find_result_with_expiry(races: Races, expiry: str) -> RaceResult:
    """Return the result with this expiry."""
    return next(result for result in races.results if result.expiry == expiry)


def _build_headline(races: Races | None, rivals: tuple[str, ...], shared: int, version: str) -> str:
    """Describe the simulated share of double-booked pods, or say that there are too few nodes or pods to simulate.

    With rival schedulers, the share is that without expiry of assumed pods, otherwise that with an expiry of 30 s.
    `shared` is the number of nodes that the schedulers share.
    """
    if races is None:
        return "too few nodes or pods to simulate races"
    without_expiry = _find_result_with_expiry(races, NEVER)
    setting = [counted(without_expiry.nodes, "node"), f"{without_expiry.pods_per_second:.3g} pods/s"]
    if not races.assumptions.measured:
        setting.append("assumed latencies")
    setting_text = join_words(setting)
    if rivals:
        schedulers_text = f"{len(rivals) + 1} schedulers share {counted(shared, 'node')}"
        share = format_percent(without_expiry.share)
        return f"{schedulers_text}: {share} of pods are double-booked (simulated with {setting_text})"
    share = format_percent(_find_result_with_expiry(races, SIMULATED_EXPIRY).share)
    return (
        f"no pod can be double-booked, since kube-scheduler {version} never expires assumed pods (if it expired them "
        f"after {SIMULATED_EXPIRY}, {share} of pods would be double-booked: simulated with {setting_text})"
    )


def _iter_findings(
    races: Races | None, rivals: tuple[str, ...], shared_rows: tuple[int, ...], view: Fork
) -> Iterator[Finding]:
    """Yield findings about rival schedulers, and about kubelets that are slow to notice new bindings.

    If nothing was simulated (`races` is None), yield nothing.
    """
    if races is None:
        return
    if rivals:
        yield _build_rivals_finding(races, rivals, shared_rows, view)
    lags = races.assumptions.measured
    if lags and lags.p99 > SLOW_SECONDS:
        seen_text = agreeing(lags.slow, "was seen by its kubelet", "were seen by their kubelets")
        late_text = f"{lags.slow:,} of {counted(lags.pods, 'pod')} {seen_text} over {SLOW_SECONDS:g}s after binding"
        longest = f"at most {format_age_of_seconds(int(lags.longest))}, {lags.median:g}s at the median"
        yield SLOW.build_finding("Cluster", f"{late_text} ({longest}): {', '.join(lags.slowest_pods)}")


def _build_rivals_finding(races: Races, rivals: tuple[str, ...], shared_rows: tuple[int, ...], view: Fork) -> Finding:
    """Build the finding about several schedulers on the same nodes.

    The finding is only a note if the simulation double-booked no pod.
    """
    sharing = _describe_sharing(rivals, shared_rows, view)
    result = _find_result_with_expiry(races, NEVER)
    simulated = "in a simulation" if races.assumptions.measured else "in a simulation with assumed latencies"
    verb = agreeing(result.double_booked, "finds its", "find their")
    taken_text = f"{simulated}, {result.double_booked:,} of {counted(result.pods, 'pod')} {verb} room taken"
    return RIVALS.build_finding(
        f"Scheduler {rivals[0]}",
        f"{sharing}; {taken_text}",
        severity=WARNING if result.double_booked else NOTE,
    )


def _describe_sharing(rivals: tuple[str, ...], shared_rows: tuple[int, ...], view: Fork) -> str:
    """Say which schedulers have pods on the same nodes, with the names of the first nodes."""
    profiles = sorted(view.settings.served_profiles)
    schedulers = f"{', '.join(rivals)} and {', '.join(profiles)}"
    all_of_them = "both" if len(rivals) + len(profiles) == 2 else "all"
    node_names = [view.nodes.names[row] for row in shared_rows[:MAX_NAMED_NODES]]
    if len(shared_rows) > MAX_NAMED_NODES:
        node_names.append("…")
    return f"{schedulers} {all_of_them} have pods on {counted(len(shared_rows), 'node')} ({', '.join(node_names)})"
