"""All pending pods by what keeps them pending, as a document: apiVersion kschedctl.dev/v1, kind PendingPods."""

from __future__ import annotations

from msgspec.structs import replace

from kschedctl.commands.explain.report import FINE, Explanation
from kschedctl.reports.columns import CsvTable
from kschedctl.reports.document import Document
from kschedctl.reports.new_node import NodeGrowth
from kschedctl.reports.not_created import NOT_CREATED, NotCreated
from kschedctl.reports.report import GateProblem, Report, with_pod_count
from kschedctl.reports.summary import ShortPods, Summary
from kschedctl.reports.unknown import UnknownKind, doubt
from kschedctl.reports.waiting_elsewhere import WaitingElsewhere, count_by_state, not_admitted
from kschedctl.text.counts import counted


class PendingPod(Document, frozen=True):
    """One of them: ``headline`` is the answer for it in a line, ``message`` kube-scheduler's own words.

    ``age``: since it was ``created``, as kubectl tells it, empty where that is not known.
    """

    pod: str
    workload: str
    headline: str
    message: str | None = None
    created: str = ""
    age: str = ""


class PendingGroup(Document, frozen=True):
    """Pods with the same dominant ``cause``, the oldest first; numbers differ between them, and are told for each.

    ``message``: kube-scheduler's own where all have the same; ``age`` is that of the oldest; ``workloads``: those that
    the pods belong to.
    """

    verdict: str
    cause: str
    message: str | None
    pods: tuple[str, ...]
    age: str = ""
    workloads: tuple[str, ...] = ()
    members: tuple[PendingPod, ...] = ()

    @property
    def shortened(self) -> ShortPods:
        workload = self.workloads[0] if self.workloads else ""
        return ShortPods(len(self.pods), self.pods[0], workload, f"{self.verdict}: {self.cause}")


class ExplainedPods(Document, frozen=True):
    """Pods alike in all that scheduling reads, and what is said of the first of them, single nodes included."""

    pods: tuple[str, ...]
    explanation: Explanation


class PendingPods(Report, frozen=True):
    """The groups, those that do not schedule first. ``scope``: where was looked; ``elsewhere``: how many are
    pending outside of it, where none is in it. ``not_created``: the workloads that lack pods which could not be.

    ``waiting_elsewhere``: what waits before kube-scheduler sees a pod of it; ``asked_about``: the objects that were
    named, where only what waits elsewhere was asked about.
    ``not_replayed`` names what could change an answer but was left out, ``upstream_faults`` kube-scheduler's own faults
    that decide one. ``explained``: some in full, where that was asked for. ``growth``: the nodes that an autoscaler
    makes for all of them, where one is known.
    """

    scope: str
    groups: tuple[PendingGroup, ...] = ()
    not_created: tuple[NotCreated, ...] = ()
    elsewhere: int = 0
    not_replayed: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    extended: tuple[str, ...] = ()
    upstream_faults: tuple[str, ...] = ()
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    explained: tuple[ExplainedPods, ...] = ()
    growth: NodeGrowth | None = None
    waiting_elsewhere: tuple[WaitingElsewhere, ...] = ()
    asked_about: tuple[str, ...] = ()
    api_version: str = "kschedctl.dev/v1"
    kind: str = "PendingPods"

    def first_line(self) -> tuple[str, ...]:
        """How many there are, and of how many causes; then how many objects wait elsewhere."""
        pods = sum(len(group.pods) for group in self.groups)
        waiting = count_by_state(self.waiting_elsewhere)
        if self.asked_about:
            if not waiting:
                return (", ".join(self.asked_about), f"waits for nothing that its status tells{doubt(self.unknown)}")
            first, *more = self.waiting_elsewhere
            return (first.resource, first.headline) if not more else (f"{waiting}:", first.resource)
        if not pods and waiting:
            return (f"{waiting}:", f"no pod is pending {self.scope}{doubt(self.unknown)}")
        if not pods:
            return ("Nothing is pending", self.scope + doubt(self.unknown))
        causes = counted(len(self.groups), "cause")
        besides = f"; {waiting}" if waiting else ""
        return (f"{counted(pods, 'pod')} pending {self.scope}, {causes}{besides}{doubt(self.unknown)}",)

    def summarized(self, summary: Summary) -> Summary:
        """With the pods that could not be created, then the causes."""
        figures = {"pending": sum(len(group.pods) for group in self.groups), "causes": len(self.groups)}
        if self.waiting_elsewhere:
            figures["waitingElsewhere"] = len(self.waiting_elsewhere)
        if self.growth is not None:
            figures |= {"newNodes": self.growth.nodes, "neverScheduled": self.growth.without}
        pods = (
            *(lacking.shortened for lacking in self.not_created),
            *(group.shortened for group in self.groups),
            *(entry.shortened for entry in self.waiting_elsewhere),
        )
        return replace(summary, subject=self.scope, pods=pods, figures=figures)

    def csv_table(self) -> CsvTable:
        """Return rows for workloads that lack pods, for pending pods, and for what waits elsewhere."""
        missing = [(workload.workload, NOT_CREATED, workload.headline) for workload in self.not_created]
        waiting = [(pod, group.verdict, group.cause) for group in self.groups for pod in group.pods]
        elsewhere = [(entry.resource, entry.state.value, entry.headline) for entry in self.waiting_elsewhere]
        return CsvTable(("pod", "verdict", "cause"), [*missing, *waiting, *elsewhere])

    def pod_names(self) -> tuple[str, ...]:
        """Return the pending pods."""
        return tuple(pod for group in self.groups for pod in group.pods)

    def gate_problems(self) -> list[GateProblem]:
        """Return the pods that are not created or not scheduled, by cause."""
        waiting = [
            GateProblem("not-scheduled", f"Pod {group.pods[0]}", with_pod_count(len(group.pods), group.cause))
            for group in self.groups
            if group.verdict not in FINE
        ]
        elsewhere = (entry.gate_problem for entry in not_admitted(self.waiting_elsewhere))
        return [*(workload.gate_problem for workload in self.not_created), *waiting, *elsewhere]
