"""Whether a pod would fit if a taint or a cordon did not keep it away: replayed, in one cycle, before it is said."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from kschedctl.api.objects import Pod, Taint, Toleration
from kschedctl.api.tolerations import HARD_EFFECTS, UNSCHEDULABLE, tolerated
from kschedctl.reports.explanation import Advice, Explanation
from kschedctl.scheduler.plugins.node_unschedulable import Cordoned
from kschedctl.scheduler.plugins.taint_toleration import UntoleratedTaint
from kschedctl.scheduler.scheduler import Framework, Scheduler

OF_KUBERNETES = "node.kubernetes.io/"
"""Taints of this domain say what is wrong with a node: it is the node that wants attention, not the pod."""


def kept_away(scheduler: Scheduler, framework: Framework, pod: Pod, report: Explanation) -> Iterator[Advice]:
    """What would let a pod go to the nearest node, which a taint or a cordon keeps it from, if that is known."""
    cause = report.causes[0] if report.causes else None
    if cause is None or not isinstance(cause.fact_data, Cordoned | UntoleratedTaint) or report.unknown:
        return
    node = scheduler.view.nodes.objects[scheduler.view.nodes.index[cause.nearest]]
    taints = [taint for taint in node.spec.taints if taint.effect in HARD_EFFECTS]
    against = [taint for taint in taints if not tolerated(pod.spec.tolerations, taint)]
    if node.spec.unschedulable and all(taint.key == UNSCHEDULABLE.key for taint in against):
        if _fits(scheduler, framework, pod, cause.nearest, [UNSCHEDULABLE]):
            yield Advice("Uncordon", f"Once {cause.nearest} is uncordoned the pod fits there", cause.nearest)
        return
    sick = [taint.key for taint in against if taint.key.startswith(OF_KUBERNETES)]
    if sick:
        text = f"Kubernetes itself taints {cause.nearest} with {', '.join(sick)}"
        yield Advice("LookAtNode", text, cause.nearest)
    elif against and _fits(scheduler, framework, pod, cause.nearest, against):
        text = f"With a toleration of {' and '.join(map(str, against))} it fits on {cause.nearest}"
        yield Advice("Tolerate", text, cause.nearest)


def _fits(scheduler: Scheduler, framework: Framework, pod: Pod, node: str, taints: list[Taint]) -> bool:
    """Whether the node takes the pod once it tolerates these."""
    more = tuple(Toleration(taint.key, "Equal", taint.value, taint.effect) for taint in taints)
    tolerant = replace(pod, spec=replace(pod.spec, tolerations=(*pod.spec.tolerations, *more)))
    cycle = scheduler.cycle(framework.unasked(), tolerant)
    return cycle.error is None and node in {cycle.view.nodes.names[row] for row in cycle.feasible.tolist()}
