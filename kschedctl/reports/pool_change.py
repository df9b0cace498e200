"""The change that a plan makes to a pool of nodes, as part of the documents of plans."""

from __future__ import annotations

from typing import Annotated

from kschedctl.reports.columns import Column
from kschedctl.reports.document import Document

NO_POOL = {"": "(none)"}


class PoolChange(Document, frozen=True):
    """The nodes, pods and utilization of a pool now and after the plan. Utilization is in percent of what the pool
    offers, None if it offers nothing.
    """

    pool: Annotated[str, Column(keep=True, words=NO_POOL)]
    nodes_before: Annotated[int, Column("nodes now", beneath="nodes")]
    nodes_after: Annotated[int, Column("nodes then", beneath="then")]
    pods_before: Annotated[int, Column("pods now", beneath="pods")]
    pods_after: Annotated[int, Column("pods then", beneath="then")]
    cpu_before: Annotated[float | None, Column("cpu now, %", form=".1f", beneath="cpu, %")]
    cpu_after: Annotated[float | None, Column("cpu then, %", form=".1f", beneath="then")]
    memory_before: Annotated[float | None, Column("memory now, %", form=".1f", beneath="memory, %")]
    memory_after: Annotated[float | None, Column("memory then, %", form=".1f", beneath="then")]
