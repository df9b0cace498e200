"""Pods of drained nodes, as part of several reports."""

from __future__ import annotations

from typing import Annotated

from kschedctl.reports.columns import Column
from kschedctl.reports.document import Document


class MovedPod(Document, frozen=True):
    """A pod that gets another node; ``tied``: how many nodes were equally good."""

    pod: Annotated[str, Column(keep=True)]
    workload: str
    source: Annotated[str, Column("from", keep=True, beneath="from")]
    target: Annotated[str, Column("to", keep=True, beneath="to")]
    tied: Annotated[int, Column("equally good", above=1, form="")] = 1


class BlockedPod(Document, frozen=True):
    """A pod that cannot be evicted, and why."""

    pod: Annotated[str, Column(keep=True)]
    workload: str
    node: Annotated[str, Column(keep=True)]
    why: Annotated[str, Column()]
    budgets: tuple[str, ...] = ()
    unhealthy: tuple[str, ...] = ()
    """Pods that the budgets do not count as healthy, so that they use up what the budgets allow."""
