"""Fixes that set another scheduler name or another PriorityClass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from kschedctl.api.copying import replace
from kschedctl.api.objects import ObjectMeta, Pod, PriorityClass
from kschedctl.api.ownership import find_owner
from kschedctl.cluster import Cluster
from kschedctl.fixes.trial.changes import Fix, ObjectEdit, build_pod_edits
from kschedctl.fixes.trial.fix_kinds import FixKind, Price
from kschedctl.fixes.trial.trial_node import TrialNode
from kschedctl.replay import kubectl
from kschedctl.replay.controllers.target_pod import set_priority_class
from kschedctl.replay.edits import ObjectKey

OTHER_SCHEDULER, RAISE_OF_AGENT, RAISE = 15, 20, 80
"""The costs of another scheduler name, and of a higher PriorityClass for a DaemonSet and for other workloads."""
AGENT_CLASS_NAME, AGENT_CLASS_VALUE = "node-agents", 1_000_000
"""The PriorityClass that is created for a DaemonSet if no class is above its own."""
OUTRANKS = "the pod can then preempt any pod of lower priority"
"""The disadvantage of a higher PriorityClass."""
SYSTEM_PREFIX = "system-"
COST_PER_RANK = 5
"""The additional cost of a PriorityClass compared with the next lower one."""


def iter_scheduler_name_fixes(trial_node: TrialNode) -> Iterator[Fix]:
    """Yield fixes that set the pod's schedulerName to a profile of this scheduler, one for each profile.

    Nothing is yielded if a profile already serves the pod.
    """
    trial = trial_node.trial
    if trial.is_served:
        return
    old_name = trial.pod.spec.scheduler_name
    for name in trial.scheduler.configuration.profiles:
        edits = build_pod_edits(trial.pod, _build_scheduler_name_change(name))
        text = f"set schedulerName to {name} instead of {old_name}"
        yield Fix(kind=FixKind.OTHER_SCHEDULER, target=name, text=text, by="author", edits=edits, cost=OTHER_SCHEDULER)


def _build_scheduler_name_change(scheduler_name: str) -> Callable[[Pod], Pod]:
    """Return a function that sets the schedulerName of a pod."""
    return lambda pod: replace(pod, spec=replace(pod.spec, scheduler_name=scheduler_name))


def iter_priority_class_fixes(trial_node: TrialNode) -> Iterator[Fix]:
    """Yield fixes that let the pod preempt by giving it another PriorityClass, one per class, the lowest class first.

    The class must have a higher priority than the pod or, if the pod never preempts, at least the same priority.
    Classes that never preempt and classes whose names start with "system-" are left out.

    The fixes for a DaemonSet's pod are cheap, because such a pod should take precedence over pods that can run on any
    node. If no class would help it, a fix that creates the class `node-agents` is yielded, unless that class exists or
    its priority would be too low.
    """
    pod, cluster = trial_node.trial.pod, trial_node.cycle.view.cluster
    own_priority = pod.spec.priority or 0
    helpful_classes = _list_classes_allowing_preemption(pod, cluster)

    is_agent = find_owner(pod).kind == "DaemonSet"
    # Without a price of its own, the fix has the price of its kind.
    price, first_cost = (Price.NEIGHBOUR, RAISE_OF_AGENT) if is_agent else (None, RAISE)
    for rank, priority_class in enumerate(helpful_classes):
        name = priority_class.metadata.name
        text = f"use PriorityClass {name} (priority {priority_class.value:,} instead of {own_priority:,})"
        cost = first_cost + COST_PER_RANK * rank
        yield Fix(
            kind=FixKind.USE_PRIORITY_CLASS,
            target=name,
            text=text,
            by="author",
            edits=build_pod_edits(pod, partial(set_priority_class, name=name, cluster=cluster)),
            cost=cost,
            weakens=OUTRANKS,
            variant_of="class",
            where=name,
            price=price,
        )
    class_names = {priority_class.metadata.name for priority_class in cluster.priority_classes}
    agent_class_exists = AGENT_CLASS_NAME in class_names
    if is_agent and not helpful_classes and not agent_class_exists and own_priority < AGENT_CLASS_VALUE:
        yield _build_agent_priority_class_fix(pod, cluster)


def _list_classes_allowing_preemption(pod: Pod, cluster: Cluster) -> list[PriorityClass]:
    """Return the PriorityClasses with which the pod could preempt more pods than now, the lowest first.

    System classes are left out.
    """
    own_priority = pod.spec.priority or 0
    # If the pod never preempts, a class of the same priority whose pods preempt also helps.
    least_priority = own_priority if pod.spec.preemption_policy == "Never" else own_priority + 1
    classes = [
        priority_class
        for priority_class in cluster.priority_classes
        if priority_class.value >= least_priority
        and priority_class.preemption_policy != "Never"
        and not priority_class.metadata.name.startswith(SYSTEM_PREFIX)
    ]
    return sorted(classes, key=lambda priority_class: (priority_class.value, priority_class.metadata.name))


def _build_agent_priority_class_fix(pod: Pod, cluster: Cluster) -> Fix:
    """Build the fix that creates a PriorityClass for node agents, such as DaemonSet pods, and gives it to the pod."""
    new_class = PriorityClass(ObjectMeta(AGENT_CLASS_NAME), AGENT_CLASS_VALUE)
    new_cluster = replace(cluster, priority_classes=(*cluster.priority_classes, new_class))

    def change(current: Pod) -> Pod:
        """Return the pod with the new PriorityClass."""
        return set_priority_class(current, AGENT_CLASS_NAME, new_cluster)

    key = ObjectKey.of(new_class)
    edits = (ObjectEdit.create(new_class), *build_pod_edits(pod, change))
    own_priority = pod.spec.priority or 0
    priorities = f"priority {AGENT_CLASS_VALUE:,} instead of {own_priority:,}"
    text = f"create PriorityClass {AGENT_CLASS_NAME} ({priorities}) and use it"
    if cluster.find_gap("PriorityClass") is not None:
        text += ", or use an existing class (the PriorityClasses were not read)"
    commands = (kubectl.render_apply(kubectl.build_manifest(key, new_class)),)
    return Fix(
        kind=FixKind.USE_PRIORITY_CLASS,
        target=AGENT_CLASS_NAME,
        text=text,
        by="operator",
        edits=edits,
        cost=RAISE_OF_AGENT,
        weakens=OUTRANKS,
        commands=commands,
        variant_of="class",
        where=AGENT_CLASS_NAME,
        price=Price.NEIGHBOUR,
    )
