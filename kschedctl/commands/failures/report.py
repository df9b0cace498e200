"""What the loss of nodes would do, as a document: apiVersion kschedctl.dev/v1, kind Failures."""

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
    """The loss of some ``nodes`` at once. ``displaced`` pods are made anew, of which ``unplaced`` fit nowhere else.

    ``evicted``: pods of other nodes that have to make room; ``lost``: pods that nobody makes anew. ``reasons``: the
    pods that do not fit, by workload and kube-scheduler's words; those that had to make room and come back are among
    them. Of several runs, in which pods come back in different orders, this is the worst, and ``over_runs`` the least
    and the most unplaced and evicted; ``unplaced_over_runs``: workload -> the least and the most of its pods without a
    node in these orders; ``in_no_order``: workload -> how many of them no order at all allows one, as they fit nowhere
    even where nobody else came back. ``zones``: the pods of each; ``nodes_changed``: of the nodes where their
    number is another one after it, the lost ones among them; both of the worst loss alone. ``not_created``: of the
    displaced pods those that the API server refuses, by quotas and LimitRanges, once the lost ones are gone.
    """

    name: str
    nodes: tuple[str, ...]
    displaced: int
    unplaced: int
    evicted: int
    lost: int
    reasons: tuple[UnplacedPods, ...] = ()
    unknown: tuple[UnknownKind, ...] = ()
    over_runs: dict[str, Spread] = msgspec.field(default_factory=dict)
    unplaced_over_runs: dict[str, Spread] = msgspec.field(default_factory=dict)
    in_no_order: dict[str, int] = msgspec.field(default_factory=dict)
    zones: tuple[PodCount, ...] = ()
    nodes_changed: tuple[PodCount, ...] = ()
    not_created: tuple[NotCreated, ...] = ()

    @property
    def safe(self) -> bool:
        return not (self.unplaced or self.evicted or self.not_created)


class Failures(Report, frozen=True):
    """The losses of every ``unit`` (node, zone, pool, or pair of them), the worst first.

    ``safe``: after each of them every pod that is made anew gets a node, and nobody is evicted for it. ``scenarios``:
    how many there are; fewer than that are known when the user ``interrupted``. ``outside``: nodes that belong to no
    such unit, so that none of the losses takes them. ``remedy``: a scenario of whatif in which no pod is left
    without a node, if one was found.
    """

    unit: str
    scenarios: int
    safe: bool
    seed: int
    failures: tuple[Failure, ...] = ()
    outside: tuple[str, ...] = ()
    not_replayed: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    extended: tuple[str, ...] = ()
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    interrupted: bool = False
    remedy: Mapping[str, Any] | None = None
    search_start: SearchStart | None = None
    runs: int = 1
    api_version: str = "kschedctl.dev/v1"
    kind: str = "Failures"

    def first_line(self) -> tuple[str, ...]:
        """Whether one loss, or two at once, can be borne, and how many were tried."""
        unsafe, all_of_them = (
            sum(not failure.safe for failure in self.failures),
            counted(self.scenarios, "loss", "losses"),
        )
        answer = "no" if unsafe else "unknown" if self.interrupted else "yes"
        tried = (
            f"interrupted after {len(self.failures):,} of {all_of_them}" if self.interrupted else f"{all_of_them} tried"
        )
        lost = 2 if self.unit.startswith("pair") else 1
        counts = f"({tried}, {unsafe:,} with consequences){describe_doubt(self.unknown)}"
        return (f"N-{lost} safe per {self.unit}:", answer, counts)

    def summarized(self, summary: Summary) -> Summary:
        """With what the worst loss comes to."""
        worst = self.failures[0] if self.failures else None
        figures = {"tried": len(self.failures), "withConsequences": sum(not loss.safe for loss in self.failures)}
        if worst is not None:
            figures |= {"displaced": worst.displaced, "unplaced": worst.unplaced, "evicted": worst.evicted}
        return replace(
            summary,
            subject=f"worst: {worst.name}" if worst is not None else self.unit,
            headline=f"{summary.headline}{_named(worst)}" if worst is not None else summary.headline,
            verdict="Safe" if self.safe else "Unsafe",
            pods=tuple(_shortened(worst)) if worst is not None else (),
            figures=figures,
        )

    def csv_table(self) -> CsvTable:
        """Return a row for each simulated failure, the worst first."""
        rows = [
            (rank, loss.name, len(loss.nodes), loss.displaced, loss.unplaced, loss.evicted, loss.lost)
            for rank, loss in enumerate(self.failures, 1)
        ]
        return CsvTable(("rank", "failure", "nodes", "displaced", "unplaced", "evicted", "lost"), rows)

    def pod_names(self) -> tuple[str, ...]:
        """Return the pods that some failure leaves without a node."""
        return tuple(pod for failure in self.failures for group in failure.reasons for pod in group.pods)

    def gate_problems(self) -> list[GateProblem]:
        """Return the failures that leave pods without a node or evict some."""
        return [
            GateProblem(
                "loss-not-borne",
                f"{self.unit.capitalize()} {failure.name}",
                f"{counted(failure.unplaced, 'pod')} without a node, {counted(failure.evicted, 'pod')} evicted",
            )
            for failure in self.failures
            if not failure.safe
        ]


def _named(worst: Failure) -> str:
    """Return the name of the worst loss with its consequences, to follow the headline."""
    if worst.safe:
        return ""
    return f"; worst: {worst.name}, {worst.unplaced:,} of {counted(worst.displaced, 'pod')} not scheduled"


def _shortened(worst: Failure) -> Iterator[ShortPods]:
    yield from (refused.shortened for refused in worst.not_created)
    yield from (pods.shortened for pods in worst.reasons)
