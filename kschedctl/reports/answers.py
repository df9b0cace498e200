"""The answers to one question about several clusters, as a document: apiVersion kschedctl.dev/v1, kind Answers."""

from __future__ import annotations

from typing import Any

from kschedctl.reports.document import Document
from kschedctl.reports.summary import Report
from kschedctl.text.counts import counted


class ClusterAnswer(Document, frozen=True):
    """``good``: the answer is what one hopes for, and the command would exit with 0. ``document`` tells its kind."""

    cluster: str
    good: bool
    document: Any


class Answers(Report, frozen=True):
    """In the order in which the clusters were named; those that the user ``interrupted`` are left out."""

    answers: tuple[ClusterAnswer, ...]
    asked: int
    interrupted: bool = False
    api_version: str = "kschedctl.dev/v1"
    kind: str = "Answers"

    @property
    def undecided(self) -> bool:
        """Whether one of them cannot be told for certain."""
        return any(answer.document.undecided for answer in self.answers)

    @property
    def good(self) -> bool:
        return not self.interrupted and all(answer.good for answer in self.answers)

    def first_line(self) -> tuple[str, ...]:
        """In how many clusters it is good."""
        good = sum(answer.good for answer in self.answers)
        interrupted = f"(interrupted after {len(self.answers):,})" if self.interrupted else ""
        return (f"Good in {good:,} of {counted(self.asked, 'cluster')}", interrupted)
