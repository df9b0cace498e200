"""Whether an autoscaler would launch a node for a pod, as a part of its explanation."""

from __future__ import annotations

from typing import Annotated

from kschedctl.reports.columns import Column
from kschedctl.reports.document import Document


class PoolVerdict(Document, frozen=True):
    """Whether a pool would launch a node for the pod alone; ``answer``: of what types, or why not, in its own words."""

    pool: Annotated[str, Column("pool", keep=True)]
    takes: bool
    answer: Annotated[str, Column("answer")]


class AutoscalerSaid(Document, frozen=True):
    """The autoscaler's last event about the pod. ``agrees``: the replay comes to the same."""

    message: str
    at: str = ""
    agrees: bool = True


class NewNode(Document, frozen=True):
    """``existing_node``: one that the autoscaler sees room on for the pod, so that it launches none.

    ``message``: what the autoscaler writes of the pod, where it launches nothing. ``seen_types``: how many instance
    types nodes prove, where no others are known: then that none fits is not certain. ``said``: by the autoscaler
    itself, where its events were read; ``sources``: where groups and flags are from; ``doubts``: what is not
    certain of them.
    """

    autoscaler: str
    pools: tuple[PoolVerdict, ...] = ()
    existing_node: str = ""
    seen_types: int | None = None
    message: str = ""
    said: AutoscalerSaid | None = None
    sources: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()

    @property
    def comes(self) -> bool:
        return not self.existing_node and any(pool.takes for pool in self.pools)
