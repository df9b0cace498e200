"""The costs of a fix as data. Every form of an answer shows the same costs."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from kschedctl.reports.document import Document
from kschedctl.text.counts import counted


class CostKind(StrEnum):
    """The kinds of costs."""

    STILL_WAITS = "StillWaits"
    """Other pods take the room first, so that the pod still waits."""
    NEEDS_VALUES = "NeedsValues"
    """The fix is not verified until somebody fills in values."""
    CHECK_FIRST = "CheckFirst"
    """Something has to be found out before the commands are run. The fix's summary says so as well."""
    LOSES = "Loses"
    """A pod, a volume or a device allocation is gone for good."""
    GIVES_UP = "GivesUp"
    """A guarantee is given up."""
    EVICTS = "Evicts"
    """Running pods are evicted or preempted."""
    DELETES = "Deletes"
    """Pods are deleted together with the object that makes them."""
    RESTARTS = "Restarts"
    """Running pods of the changed workload are replaced in its rollout."""


class FixCost(Document, frozen=True):
    """One cost of a fix."""

    kind: CostKind
    text: str
    """A clause that follows "but"."""
    pods: int = 0
    """The number of pods that the fix evicts, deletes or restarts; 0 for other kinds of costs."""
    short: str = ""
    """A clause for a line or two, if the text names many pods; empty if the text is short itself."""

    @property
    def brief(self) -> str:
        """Return the clause in its shortest form, which still says what is lost."""
        return self.short or self.text


def build_restart_costs(restarts: int, owner: str) -> tuple[FixCost, ...]:
    """Return the cost of a rollout that replaces running pods; empty if it replaces no pod.

    >>> [cost.text for cost in build_restart_costs(1, "Deployment shop/web")]
    ['restarts 1 running pod of Deployment shop/web']
    """
    if not restarts:
        return ()
    of_owner = f" of {owner}" if owner else ""
    return (FixCost(CostKind.RESTARTS, f"restarts {counted(restarts, 'running pod')}{of_owner}", restarts),)


def list_clauses(costs: Iterable[FixCost]) -> tuple[str, ...]:
    """Return the clauses to show beside a fix's summary, without those that the summary says itself."""
    return tuple(cost.text for cost in costs if cost.kind is not CostKind.CHECK_FIRST)
