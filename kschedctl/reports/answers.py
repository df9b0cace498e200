"""The answers to one question about several clusters, as a document: apiVersion kschedctl.dev/v1, kind Answers."""

from __future__ import annotations

from typing import Any

from kschedctl.reports.columns import CsvTable
from kschedctl.reports.document import Document
from kschedctl.reports.report import GateProblem, Report
from kschedctl.text.counts import counted


class ClusterAnswer(Document, frozen=True):
    """The answer about one cluster."""

    cluster: str
    good: bool
    """Whether the command would exit with 0."""
    document: Any
    """The document for this cluster; its `kind` says which struct it is."""


def kind_of_answers(document: Document) -> str:
    """Return the kind of the document, or of its answers if it is about several clusters."""
    answer = document.answers[0].document if isinstance(document, Answers) and document.answers else document
    return str(getattr(answer, "kind", "this"))


class Answers(Report, frozen=True):
    """The answers in the order in which the clusters were named."""

    answers: tuple[ClusterAnswer, ...]
    asked: int
    """The number of clusters that were named."""
    interrupted: bool = False
    """Whether the user interrupted the command, so that the remaining clusters are missing."""
    api_version: str = "kschedctl.dev/v1"
    kind: str = "Answers"

    @property
    def undecided(self) -> bool:
        """Whether an answer depends on something that was not read."""
        return any(answer.document.undecided for answer in self.answers)

    @property
    def good(self) -> bool:
        """Whether all answers are good and none is missing."""
        return not self.interrupted and all(answer.good for answer in self.answers)

    def first_line(self) -> tuple[str, ...]:
        """Return the number of clusters with a good answer."""
        good = sum(answer.good for answer in self.answers)
        interrupted = f"(interrupted after {len(self.answers):,})" if self.interrupted else ""
        return (f"Good in {good:,} of {counted(self.asked, 'cluster')}", interrupted)

    def csv_table(self) -> CsvTable | None:
        """Return the rows of all clusters, each after the name of its cluster."""
        tables = [(answer.cluster, answer.document.csv_table()) for answer in self.answers]
        if any(table is None for _, table in tables):
            return None
        header = tables[0][1].header if tables else ()
        return CsvTable(("cluster", *header), ((cluster, *row) for cluster, table in tables for row in table.rows))

    def pod_names(self) -> tuple[str, ...] | None:
        """Return the pods of all clusters."""
        names = [answer.document.pod_names() for answer in self.answers]
        return None if None in names else tuple(pod for pods in names for pod in pods)

    def gate_problems(self) -> list[GateProblem]:
        """Return the problems of all clusters, each after the name of its cluster."""
        return [
            problem._replace(message=f"{answer.cluster}: {problem.message}")
            for answer in self.answers
            for problem in answer.document.gate_problems() or ()
        ]
