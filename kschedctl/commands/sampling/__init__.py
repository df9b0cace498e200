"""The `sampling` command: what sampling nodes costs and saves.

The analysis is section "sampling" of the audit (`kschedctl/commands/audit/sampling`).
"""

from __future__ import annotations

from collections.abc import Sequence

from kschedctl.cluster import Cluster
from kschedctl.commands.audit.sampling.report import SamplingCosts
from kschedctl.commands.audit.sampling.sampled_searches import (
    MAX_LOSS,
    SamplingLimits,
    compute_sampling_costs_of_largest_workloads,
    compute_sampling_costs_of_targets,
)
from kschedctl.commands.explain.one_pod import PodReference, find_or_create_target
from kschedctl.errors import UsageError
from kschedctl.replay.controllers.target_pod import TargetPod
from kschedctl.replay.parallel import NO_PROGRESS, Progress
from kschedctl.scheduler.scheduler import Scheduler


def sampling_costs(
    cluster: Cluster,
    pods: Sequence[PodReference] = (),
    *,
    namespace: str = "",
    kinds: int = 5,
    max_loss: float = MAX_LOSS,
    progress: Progress = NO_PROGRESS,
) -> SamplingCosts:
    """Return what percentageOfNodesToScore costs and saves on this cluster, and the percentage that is enough.

    One more pod of each kind is placed. The kinds are those of `pods`, which are given as for `explain`. Without
    `pods`, they are the `kinds` largest workloads that have pending pods, in the namespace if it is given. If no
    pending pod fits on a node, running pods are used. `max_loss` is the number of score points that a pod may lose on
    average. If the user interrupts, the report has the kinds that were measured. Raises UsageError if `kinds` or
    `max_loss` is too small, the errors of `explain`, and KeyboardInterrupt if the user interrupts before a kind is
    measured.

    >>> import kschedctl
    >>> sampling_costs(kschedctl.Cluster.from_objects([{"kind": "Node", "metadata": {"name": "n1"}}])).nodes
    1
    """
    if pods:
        targets = [find_or_create_target(cluster, pod) for pod in pods]
        return compute_sampling_costs(targets, max_loss=max_loss, progress=progress)
    if kinds < 1:
        raise UsageError(f"--kinds {kinds}: must be 1 or more")
    limits = build_limits(max_loss)
    return compute_sampling_costs_of_largest_workloads(
        Scheduler(cluster), kinds, namespace or None, limits=limits, progress=progress
    )


def compute_sampling_costs(
    targets: Sequence[TargetPod], *, max_loss: float = MAX_LOSS, progress: Progress = NO_PROGRESS
) -> SamplingCosts:
    """Return what sampling costs for the target pods.

    There must be at least one target, and all targets must share a scheduler. `max_loss` and `progress` are as for
    `sampling_costs`. Raises UsageError if `max_loss` is negative.
    """
    return compute_sampling_costs_of_targets(
        targets[0].scheduler, targets, limits=build_limits(max_loss), progress=progress
    )


def build_limits(max_loss: float) -> SamplingLimits:
    """Return the limits with this maximum loss of score points. Raises UsageError if it is negative."""
    if not max_loss >= 0:
        raise UsageError(f"--max-loss {max_loss}: must be 0 or more")
    return SamplingLimits(max_loss=max_loss)
