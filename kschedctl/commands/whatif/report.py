"""What changes of a cluster do to its pods, as a document: apiVersion kschedctl.dev/v1, kind WhatIf."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

import msgspec
from msgspec.structs import replace

from kschedctl.commands.explain.pending_report import ExplainedPods
from kschedctl.reports.columns import Column, CsvTable, to_csv_table
from kschedctl.reports.document import Document
from kschedctl.reports.not_created import NotCreated, describe_not_created
from kschedctl.reports.placements import Spread
from kschedctl.reports.plugin_answers import SearchStart
from kschedctl.reports.report import GateProblem, Report
from kschedctl.reports.summary import ShortPods, Summary
from kschedctl.reports.unknown import UnknownKind, describe_doubt

CHANGES = {
    "NewlyPending": "newly pending",
    "Gone": "gone",
    "NewlyScheduled": "newly scheduled",
    "Created": "created",
    "Moved": "moved",
}
"""A change of a pod -> how it is told; those first that matter most."""


class StepReport(Document, frozen=True):
    """One step: how many pods lost their node by it, got one after it, and wait when the queue came to rest."""

    step: Annotated[str, Column("what", keep=True)]
    displaced: Annotated[int, Column(above=0)]
    placed: Annotated[int, Column(above=0)]
    pending: Annotated[int, Column(above=0, place=1)]
    evicted: Annotated[int, Column(above=0)]
    notes: Annotated[tuple[str, ...], Column("note", lines=True, place=1)] = ()


class PodChange(Document, frozen=True):
    """A pod that ends up elsewhere. ``change``: Moved, NewlyPending, NewlyScheduled, Created, Gone.

    ``before`` and ``after`` are nodes, empty for none; ``message`` is why it waits. ``because``: as for WhatIf.
    """

    pod: Annotated[str, Column(keep=True)]
    workload: str
    change: Annotated[str, Column()]
    before: Annotated[str, Column(keep=True)] = ""
    after: Annotated[str, Column(keep=True, beneath="→")] = ""
    message: Annotated[str, Column(csv_only=True)] = ""
    because: Annotated[tuple[str, ...], Column("because of", every=True)] = ()


class DomainBalance(Document, frozen=True):
    """A zone before and after: nodes, pods, and the share in percent of what is offered that is requested."""

    domain: str
    nodes: tuple[int, int]
    pods: tuple[int, int]
    requested: dict[str, tuple[float, float]] = msgspec.field(default_factory=dict)


class MessageChange(Document, frozen=True):
    """What kube-scheduler says of pods that wait before and after, where it is not the same."""

    before: Annotated[str, Column()]
    after: Annotated[str, Column(beneath="→")]
    pods: Annotated[tuple[str, ...], Column(counted=True, place=-1)]
    because: tuple[str, ...] = ()


class PodsElsewhere(Document, frozen=True):
    """Running pods of a workload that would go elsewhere: the equally good nodes before and after, none: it waits."""

    workload: Annotated[str, Column()]
    pods: Annotated[tuple[str, ...], Column(counted=True, place=-1)]
    before: Annotated[tuple[str, ...], Column("best before")]
    after: Annotated[tuple[str, ...], Column("best after", beneath="→")]
    because: Annotated[tuple[str, ...], Column("because of", every=True)] = ()


class PodsRescored(Document, frozen=True):
    """Running pods of a workload for which nodes score otherwise against each other, the same ones being the best."""

    workload: Annotated[str, Column()]
    pods: Annotated[tuple[str, ...], Column(counted=True, place=-1)]
    because: Annotated[tuple[str, ...], Column("because of", every=True)] = ()


class Replacement(Document, frozen=True):
    """Running pods that somebody would make anew, each as if it alone were.

    ``running``: how many there are; ``asked``: of how many the answer is known; of many some of each workload.
    ``failed``: of how many a plugin fails under one of the two, so that nothing is known of them.
    """

    running: int
    asked: int
    elsewhere: tuple[PodsElsewhere, ...] = ()
    failed: int = 0
    rescored: tuple[PodsRescored, ...] = ()


class WhatIf(Report, frozen=True):
    """``compared`` are two configurations or versions where two were: ``before`` is the first, ``after`` the second.

    ``messages`` and ``replacement``, where two versions are compared: what else of the answers is not the same.
    ``because``, there: the changes (gates, rules, plugins) without which it would be the same, several: all together;
    "not attributed" where no row of the table of versions explains it.

    ``pending``: how many pods wait for a node before and after. ``over_runs``: the least and the most of every kind of
    change over several ``runs``, all else is of the first. ``extended``: what to know of the answers of extenders.
    ``explained``: newly pending pods in full, in the cluster as it is in the end, where that was asked for.
    ``not_created``: workloads of which the API server refuses pods, of the manifests that are applied.
    """

    name: str
    seed: int
    pending: tuple[int, int]
    steps: tuple[StepReport, ...] = ()
    changes: tuple[PodChange, ...] = ()
    balance: tuple[DomainBalance, ...] = ()
    compared: tuple[str, ...] = ()
    messages: tuple[MessageChange, ...] = ()
    replacement: Replacement | None = None
    explained: tuple[ExplainedPods, ...] = ()
    not_replayed: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    extended: tuple[str, ...] = ()
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    interrupted: bool = False
    search_start: SearchStart | None = None
    runs: int = 1
    over_runs: dict[str, Spread] = msgspec.field(default_factory=dict)
    not_created: tuple[NotCreated, ...] = ()
    api_version: str = "kschedctl.dev/v1"
    kind: str = "WhatIf"

    def first_line(self) -> tuple[str, ...]:
        """How many pods are affected in which way."""
        numbers = Counter(change.change for change in self.changes)
        counts = ", ".join(f"{numbers[kind]:,} {word}" for kind, word in CHANGES.items() if numbers[kind])
        if self.not_created:
            failures = describe_not_created(self.not_created) + (f"; {counts}" if counts else "")
            return ("Not created:", f"{failures}{describe_doubt(self.unknown)}")
        if not counts:
            return (f"No pod ends up elsewhere{describe_doubt(self.unknown)}",)
        return ("Pods are affected:", counts + describe_doubt(self.unknown))

    def summarized(self, summary: Summary) -> Summary:
        """With the pods that wait now and did not before."""
        newly = (change for change in self.changes if change.change == "NewlyPending")
        before, after = self.pending
        return replace(
            summary,
            subject=self.name,
            pods=tuple(ShortPods(1, change.pod, change.workload, change.message) for change in newly),
            figures={"pendingBefore": before, "pendingAfter": after, "changes": len(self.changes)},
        )

    def csv_table(self) -> CsvTable:
        """Return a row for each pod whose fate changes."""
        return to_csv_table(PodChange, self.changes)

    def pod_names(self) -> tuple[str, ...]:
        """Return the pods that lose their node."""
        return tuple(change.pod for change in self.changes if change.change == "NewlyPending")

    def gate_problems(self) -> list[GateProblem]:
        """Return a problem for each pod that the changes leave without a node, for a CI gate to report."""
        return [
            GateProblem("not-scheduled", f"Pod {change.pod}", change.message or "becomes Pending")
            for change in self.changes
            if change.change == "NewlyPending"
        ]
