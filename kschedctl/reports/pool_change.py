"""What a plan makes of each pool of nodes: part of the documents of plans."""

from __future__ import annotations

from typing import Annotated

from kschedctl.reports.columns import Column
from kschedctl.reports.document import Document

NO_POOL = {"": "(none)"}


class PoolChange(Document, frozen=True):
    """How many nodes and pods a pool has now and after the plan, and the shares of cpu and memory that pods request of
    it, in percent; None where it offers none.
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
