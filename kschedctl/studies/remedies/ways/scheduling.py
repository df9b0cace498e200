"""Who schedules the pod, and how important it is: another profile, another PriorityClass."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from kschedctl.api.objects import Pod
from kschedctl.studies.controllers.other_priority import with_priority_class
from kschedctl.studies.remedies.fixes.changes import Fix, on_pod
from kschedctl.studies.remedies.fixes.trials import PREEMPTS
from kschedctl.studies.remedies.fixes.tried_node import TriedNode

OTHER_SCHEDULER, RAISE = 15, 80
SYSTEM = "system-"


def served(tried: TriedNode) -> Iterator[Fix]:
    """The names that this scheduler's profiles serve, for a pod that asks for another."""
    trial = tried.trial
    if trial.framework is not None or trial.cycle is not None:
        return
    for name in trial.scheduler.configuration.profiles:
        edits = on_pod(trial.pod, _asking(name))
        before = trial.pod.spec.scheduler_name
        text = f"use scheduler {name} instead of {before}"
        yield Fix("OtherScheduler", name, text, "author", edits, OTHER_SCHEDULER)


def _asking(name: str) -> Callable[[Pod], Pod]:
    return lambda pod: replace(pod, spec=replace(pod.spec, scheduler_name=name))


def more_important(tried: TriedNode) -> Iterator[Fix]:
    """The classes above the pod's own, the least important first; also one that lets it preempt where its own does not.

    Classes of the system are left out: they are for what clusters cannot do without.
    """
    pod, cluster = tried.trial.pod, tried.cycle.view.cluster
    never = pod.spec.preemption_policy == "Never"
    own = pod.spec.priority or 0
    higher = [
        priority_class
        for priority_class in cluster.priority_classes
        if (priority_class.value > own or (never and priority_class.value == own))
        and priority_class.preemption_policy != "Never"
        and not priority_class.metadata.name.startswith(SYSTEM)
    ]
    for place, class_ in enumerate(sorted(higher, key=lambda c: (c.value, c.metadata.name))):
        name = class_.metadata.name

        def change(read: Pod, name: str = name) -> Pod:
            return with_priority_class(read, name, cluster)

        text = f"use PriorityClass {name} ({class_.value:,} instead of {own:,})"
        edits = on_pod(pod, change)
        weakens = "it goes before pods of lower priority"
        cost = RAISE + 5 * place
        yield Fix(PREEMPTS, name, text, "author", edits, cost, weakens, variant_of="class", where=name)
