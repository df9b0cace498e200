"""``sampling``: what does sampling nodes cost, and what does it save?

The analysis is the audit's section, ``kschedctl/commands/audit/sampling``.
"""

from __future__ import annotations

from collections.abc import Sequence

from kschedctl.cluster import Cluster
from kschedctl.commands.audit.sampling.report import SamplingCosts
from kschedctl.commands.audit.sampling.sampled_searches import MAX_LOSS, SamplingLimits, costs_of_named, usual_costs
from kschedctl.commands.explain.one_pod import PodReference, find_target
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
    """What does percentageOfNodesToScore cost and save on this cluster, and which one is enough?

    For one more pod of each kind: of ``pods``, as ``explain`` takes them, else of the ``kinds`` largest workloads of
    one ``namespace`` or of all that wait, else of those that run. ``max_loss``: the points of score that a pod may lose
    on average. Raises UsageError, and what ``explain`` raises.

    >>> import kschedctl
    >>> sampling_costs(kschedctl.Cluster.from_objects([{"kind": "Node", "metadata": {"name": "n1"}}])).nodes
    1
    """
    if pods:
        asked = [find_target(cluster, pod) for pod in pods]
        return sampling_costs_of_asked(asked, max_loss=max_loss, progress=progress)
    if kinds < 1:
        raise UsageError(f"--kinds {kinds}: at least one")
    limits = limits_of(max_loss)
    return usual_costs(Scheduler(cluster), kinds, namespace or None, limits=limits, progress=progress)


def sampling_costs_of_asked(
    asked: Sequence[TargetPod], *, max_loss: float = MAX_LOSS, progress: Progress = NO_PROGRESS
) -> SamplingCosts:
    """Of pods, at least one, which share a scheduler's view; arguments and errors as of ``sampling_costs``."""
    return costs_of_named(asked[0].scheduler, asked, limits=limits_of(max_loss), progress=progress)


def limits_of(max_loss: float) -> SamplingLimits:
    """Raises UsageError."""
    if not max_loss >= 0:
        raise UsageError(f"--max-loss {max_loss}: 0 or more")
    return SamplingLimits(max_loss=max_loss)
