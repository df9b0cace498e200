"""Pods that a workload wants and that could not be created: no scheduler has ever seen them."""

from __future__ import annotations

from collections.abc import Sequence

from kschedctl.api.json_values import JsonDict
from kschedctl.reports.document import Document
from kschedctl.reports.fix_costs import CostKind, FixCost, clauses, restart_costs
from kschedctl.reports.report import GateProblem
from kschedctl.reports.summary import ShortPods
from kschedctl.text.counts import counted


class CreationFailure(Document, frozen=True):
    """Why: ``message`` has the API server's words, ``by`` what tells of it (``event FailedCreate of ReplicaSet d/w``).

    ``last``: when it was told last, so long (``age``) ago; ``times``: how often, as far as events tell.
    """

    message: str
    by: str
    last: str = ""
    age: str = ""
    times: int = 0


class CreationFix(Document, frozen=True):
    """What lets all pods be created, replayed through admission and scheduling.

    ``commands``: how, where it is not the manifest that changes. ``by``, ``kinds``, ``weakens``, ``changes``,
    ``owner``, ``owner_patch``, ``restarts``: as of a Remedy. ``opens``: the nodes that then take one of them; ``then``:
    why none does, in kube-scheduler's words.
    """

    what: str
    commands: tuple[str, ...] = ()
    by: str = "operator"
    kinds: tuple[str, ...] = ()
    weakens: str = ""
    then: str = ""
    opens: tuple[str, ...] = ()
    changes: tuple[JsonDict, ...] = ()
    owner: str = ""
    owner_patch: JsonDict = {}
    restarts: int = 0

    @property
    def costs(self) -> tuple[FixCost, ...]:
        """Return what the fix gives up, and the running pods that it restarts."""
        given_up = (FixCost(CostKind.GIVES_UP, self.weakens),) if self.weakens else ()
        return (*given_up, *restart_costs(self.restarts, self.owner))

    @property
    def words(self) -> str:
        """``what`` with what it costs and what comes after it."""
        but = f", but {'; '.join(clauses(self.costs))}" if self.costs else ""
        return f"{self.what}{but}" + (f"; then they wait: {self.then}" if self.then else "")


class NotCreated(Document, frozen=True):
    """``headline``: in a line, ``1 of 6 pods (6 wanted, 5 there): exceeded quota: …``.

    ``wanted``: of the workload, pods of a rollout's surge among them; ``there``: those that have neither ended nor are
    leaving; ``missing``: those that could not be created. Null is what is not known. ``object``: Pod, or what was to
    make pods and could not be created itself: ReplicaSet, Job. ``past``: pods were created since, or all are there.
    ``fixes``: what would let them be created.
    """

    workload: str
    headline: str
    wanted: int | None
    there: int
    missing: int | None
    failures: tuple[CreationFailure, ...]
    object: str = "Pod"
    past: bool = False
    fixes: tuple[CreationFix, ...] = ()

    @property
    def shortened(self) -> ShortPods:
        """For a summary."""
        return ShortPods(self.missing or 0, "", self.workload, self.headline)

    @property
    def gate_problem(self) -> GateProblem:
        """Return what a CI gate objects to."""
        return GateProblem("not-created", self.workload, self.headline)


def refused(several: Sequence[NotCreated]) -> str:
    """``2 of 3 pods (3 wanted, 1 there): exceeded quota: …``; of several workloads how many pods."""
    if len(several) == 1:
        return several[0].headline
    return (
        f"{counted(sum(workload.missing or 0 for workload in several), 'pod')} of {counted(len(several), 'workload')}"
    )


class OnceCreated(Document, frozen=True):
    """What scheduling would say of the pod if it were created."""

    verdict: str
    headline: str


NOT_CREATED = "NotCreated"
"""The verdict on a pod that would be scheduled, and cannot be created."""
