"""The Workloads that are preempted so that another gets quota.

Upstream: pkg/scheduler/preemption/{preemption,preemption_oracle}.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kschedctl.queueing.kueue.amounts import FlavorResource
from kschedctl.queueing.kueue.assignment import PreemptionMode
from kschedctl.queueing.kueue.classical_preemption import find_classical_targets
from kschedctl.queueing.kueue.cluster_queues import QueueSnapshot
from kschedctl.queueing.kueue.fair_preemption import find_fair_targets
from kschedctl.queueing.kueue.preemption_search import PreemptionRequest, PreemptionSearch, Target
from kschedctl.queueing.kueue.quota_tree import find_covering_height
from kschedctl.queueing.kueue.workloads import WorkloadInfo, WorkloadUsage


@dataclass(slots=True)
class Preemptor(PreemptionSearch):
    """Finds Workloads to preempt in a snapshot."""

    fair_strategies: Sequence[str] | None
    """The preemption strategies of fair sharing, or None without fair sharing."""

    def find_targets(self, request: PreemptionRequest) -> list[Target]:
        """Return the Workloads to preempt for a request, or an empty list if preemption would not help.

        They are found by fair sharing if it is on, otherwise by priority. The snapshot stays unchanged.
        """
        if self.fair_strategies is not None:
            return find_fair_targets(self, request, self.fair_strategies)
        return find_classical_targets(self, request)

    def simulate_preemption(
        self, queue: QueueSnapshot, info: WorkloadInfo, key: FlavorResource, amount: int
    ) -> tuple[PreemptionMode, int]:
        """Simulate preemption for an amount of one resource, without changing the snapshot.

        Return the preemption mode and the height of the cohort from which the queue would then borrow. The mode says
        whether Workloads of this queue or only of other queues would be preempted. Upstream: SimulatePreemption.
        """
        usage = WorkloadUsage({key: amount}, {})
        targets = self.find_targets(PreemptionRequest(info, queue, frozenset({key}), usage, {}))
        if not targets:
            height, _ = find_covering_height(queue.node, key, amount)
            return PreemptionMode.NO_CANDIDATES, height

        infos = [target.info for target in targets]
        self.snapshot.remove_usage(infos, with_topology=False)
        borrowing, _ = find_covering_height(queue.node, key, amount)
        self.snapshot.add_usage(infos, with_topology=False)

        is_own = any(target.info.cluster_queue == queue.name for target in targets)
        return (PreemptionMode.PREEMPT if is_own else PreemptionMode.RECLAIM), borrowing
