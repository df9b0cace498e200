"""The answers about several pods, as a document: apiVersion kschedctl.dev/v1, kind Explanations."""

from __future__ import annotations

from msgspec.structs import replace

from kschedctl.commands.explain.report import FINE, NODE_HEADER, Explanation
from kschedctl.reports.columns import CsvTable
from kschedctl.reports.gate_problem import GateProblem
from kschedctl.reports.summary import Report, ShortPods, Summary
from kschedctl.reports.unknown import UnknownKind, doubt
from kschedctl.reports.waiting_elsewhere import WaitingElsewhere, count_by_state
from kschedctl.text.counts import counted


class Explanations(Report, frozen=True):
    """Each pod by itself, in the order in which they were asked about.

    ``not_replayed`` and ``unknown``: of any of them; ``undecided``: whether all are fine leans on what was not read.
    """

    explanations: tuple[Explanation, ...]
    not_replayed: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    extended: tuple[str, ...] = ()
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    waiting_elsewhere: tuple[WaitingElsewhere, ...] = ()
    """The objects of the files whose pods kube-scheduler does not see yet, such as custom resources."""
    api_version: str = "kschedctl.dev/v1"
    kind: str = "Explanations"

    def first_line(self) -> tuple[str, ...]:
        """How many are fine."""
        fine = sum(explanation.verdict in FINE for explanation in self.explanations)
        number = len(self.explanations)
        sentence = "has a node or would get one" if number == 1 else "have a node or would get one, each by itself"
        besides = f"; {count_by_state(self.waiting_elsewhere)}" if self.waiting_elsewhere else ""
        return (f"{fine:,} of {counted(number, 'pod')}", sentence + besides + doubt(self.unknown))

    def summarized(self, summary: Summary) -> Summary:
        """With the answer of each."""
        pods = tuple(
            ShortPods(1, explained.pod, explained.stands_for, explained.headline) for explained in self.explanations
        )
        return replace(summary, subject=counted(len(pods), "pod"), pods=pods, figures={"pods": len(pods)})

    def csv_table(self) -> CsvTable:
        """Return the rows of all explanations."""
        return CsvTable(NODE_HEADER, (row for explanation in self.explanations for row in explanation.csv_rows()))

    def pod_names(self) -> tuple[str, ...]:
        """Return the explained pods."""
        return tuple(explanation.pod for explanation in self.explanations)

    def gate_problems(self) -> list[GateProblem]:
        """Return the problems of all explained pods."""
        return [problem for explanation in self.explanations for problem in explanation.gate_problems()]
