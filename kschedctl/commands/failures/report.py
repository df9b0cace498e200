"""The report of ``failures``: apiVersion kschedctl.dev/v1, kind Failures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from kschedctl.reports.columns import CsvTable
from kschedctl.reports.document import Document
from kschedctl.reports.not_created import NotCreated
from kschedctl.reports.placements import PodCount, Spread, UnplacedPods
from kschedctl.reports.plugin_answers import SearchStart
from kschedctl.reports.report import GateProblem, Report
from kschedctl.reports.summary import ShortPods, Summary
from kschedctl.reports.unknown import UnknownKind, describe_doubt
from kschedctl.text.counts import counted


class Failure(Document, frozen=True):
    """The failure of some nodes at once. With several runs, it is the worst run."""

    name: str
    nodes: tuple[str, ...]
    displaced: int
    """The number of pods that are recreated."""
    unplaced: int
    """The number of recreated pods that fit nowhere else."""
    evicted: int
    """The number of pods on other nodes that are preempted."""
    lost: int
    """The number of pods that no controller recreates."""
    reasons: tuple[UnplacedPods, ...] = ()
    """The unplaced pods by workload and kube-scheduler's message, including preempted ones."""
    unknown: tuple[UnknownKind, ...] = ()
    over_runs: dict[str, Spread] = msgspec.field(default_factory=dict)
    """The minimum and maximum of unplaced and evicted pods over the runs."""
    unplaced_over_runs: dict[str, Spread] = msgspec.field(default_factory=dict)
    """The minimum and maximum of unplaced pods, by workload."""
    in_no_order: dict[str, int] = msgspec.field(default_factory=dict)
    """The number of pods that fit nowhere even if no other pod comes back, by workload."""
    zones: tuple[PodCount, ...] = ()
    """The number of pods in each zone before and after, for the worst failure only."""
    nodes_changed: tuple[PodCount, ...] = ()
    """The number of pods on each node on which it changes, for the worst failure only."""
    not_created: tuple[NotCreated, ...] = ()
    """The displaced pods that the API server denies because of quotas or LimitRanges."""

    @property
    def safe(self) -> bool:
        """Whether every recreated pod gets a node and no other pod is preempted."""
        return not (self.unplaced or self.evicted or self.not_created)


class Failures(Report, frozen=True):
    """The failures of every unit, worst first."""

    unit: str
    """The kind of unit: node, zone, pool, or a pair of one kind."""
    scenarios: int
    """The number of failures to simulate."""
    safe: bool
    """Whether after each failure every recreated pod gets a node without preempting others."""
    seed: int
    failures: tuple[Failure, ...] = ()
    outside: tuple[str, ...] = ()
    """The nodes that belong to no unit, so that no failure includes them."""
    not_replayed: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    extended: tuple[str, ...] = ()
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    interrupted: bool = False
    remedy: Mapping[str, Any] | None = None
    """A scenario for ``whatif`` that leaves no pod without a node, if one was found."""
    search_start: SearchStart | None = None
    runs: int = 1
    kind: str = "Failures"

    def build_first_line(self) -> tuple[str, ...]:
        """Return the question whether the cluster is safe, the answer, and how many failures were simulated."""
        unsafe = sum(not failure.safe for failure in self.failures)
        if unsafe:
            answer = "no"
        elif self.interrupted:
            answer = "unknown"
        elif describe_doubt(self.unknown):
            answer = "probably"
        else:
            answer = "yes"
        failures = counted(self.scenarios, "failure")
        tried = f"{failures} simulated"
        if self.interrupted:
            tried = f"interrupted after {len(self.failures):,} of {failures}"
        lost = 2 if self.unit.startswith("pair") else 1
        counts = f"({tried}, {unsafe:,} disruptive){describe_doubt(self.unknown)}"
        return (f"N-{lost} safe per {self.unit}:", answer, counts)

    def extend_summary(self, summary: Summary) -> Summary:
        """Return the summary with the numbers of failures and, if there are any, the consequences of the worst one."""
        figures = {"tried": len(self.failures), "withConsequences": sum(not loss.safe for loss in self.failures)}
        summary = replace(summary, subject=self.unit, verdict="Safe" if self.safe else "Unsafe", figures=figures)
        if not self.failures:
            return summary
        worst = self.failures[0]
        return replace(
            summary,
            subject=f"worst: {worst.name}",
            headline=f"{summary.headline}{_describe_worst(worst)}",
            pods=tuple(_iter_short_pods(worst)),
            figures=figures | {"displaced": worst.displaced, "unplaced": worst.unplaced, "evicted": worst.evicted},
        )

    def build_csv_table(self) -> CsvTable:
        """Return a table with a row for each simulated failure, the worst first."""
        rows = [
            (rank, loss.name, len(loss.nodes), loss.displaced, loss.unplaced, loss.evicted, loss.lost)
            for rank, loss in enumerate(self.failures, 1)
        ]
        return CsvTable(("rank", "failure", "nodes", "displaced", "unplaced", "evicted", "lost"), rows)

    def list_pod_names(self) -> tuple[str, ...]:
        """Return the pods that some failure leaves without a node."""
        return tuple(pod for failure in self.failures for group in failure.reasons for pod in group.pods)

    def find_ci_gate_problems(self) -> list[GateProblem]:
        """Return a problem for a CI gate for each failure that leaves pods without a node or preempts pods."""
        return [
            GateProblem(
                "loss-not-borne",
                f"{self.unit.capitalize()} {failure.name}",
                f"{counted(failure.unplaced, 'pod')} without a node, {counted(failure.evicted, 'pod')} evicted",
            )
            for failure in self.failures
            if not failure.safe
        ]


def _describe_worst(worst: Failure) -> str:
    """Describe the worst failure as the end of the headline, or return an empty string if it has no consequences."""
    if worst.safe and not worst.lost:
        return ""
    evicted = f", {counted(worst.evicted, 'pod')} evicted" if worst.evicted else ""
    lost = f", {counted(worst.lost, 'pod')} lost" if worst.lost else ""
    unplaced = f"{worst.unplaced:,} of {counted(worst.displaced, 'pod')} not scheduled"
    return f"; worst: {worst.name}, {unplaced}{evicted}{lost}"


def _iter_short_pods(worst: Failure) -> Iterator[ShortPods]:
    """Yield, for the summary, the pods that the worst failure leaves uncreated or without a node."""
    yield from (denied.short_form for denied in worst.not_created)
    yield from (pods.short_form for pods in worst.reasons)
