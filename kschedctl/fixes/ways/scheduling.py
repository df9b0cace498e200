"""Who schedules the pod, and how important it is: another profile, another PriorityClass."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kschedctl.api.copying import replace
from kschedctl.api.objects import ObjectMeta, Pod, PriorityClass
from kschedctl.api.ownership import find_owner
from kschedctl.cluster import Cluster
from kschedctl.fixes.trial.changes import Fix, ObjectEdit, on_pod
from kschedctl.fixes.trial.prices import Price
from kschedctl.fixes.trial.trials import PREEMPTS
from kschedctl.fixes.trial.tried_node import TriedNode
from kschedctl.replay import kubectl
from kschedctl.replay.controllers.target_pod import with_priority_class
from kschedctl.replay.object_keys import ObjectKey

OTHER_SCHEDULER, RAISE_OF_AGENT, RAISE = 15, 20, 80
FOR_AGENTS, VALUE_FOR_AGENTS = "node-agents", 1_000_000
"""The PriorityClass that is created for a DaemonSet where none is above its own."""
GOES_BEFORE = "it goes before pods of lower priority"
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
    """Yield the PriorityClasses above the pod's own, the least important first, and one that lets the pod preempt.

    The system's classes are left out: they are for what clusters cannot do without. An agent that a DaemonSet runs on
    every node is meant to go before pods that run on any node, so its class comes before other changes of neighbours,
    and one is created if there is none.
    """
    pod, cluster = tried.trial.pod, tried.cycle.view.cluster
    never = pod.spec.preemption_policy == "Never"
    own = pod.spec.priority or 0
    is_agent = find_owner(pod).kind == "DaemonSet"
    higher = [
        priority_class
        for priority_class in cluster.priority_classes
        if (priority_class.value > own or (never and priority_class.value == own))
        and priority_class.preemption_policy != "Never"
        and not priority_class.metadata.name.startswith(SYSTEM)
    ]
    price, first_cost = (Price.NEIGHBOUR, RAISE_OF_AGENT) if is_agent else (None, RAISE)
    for place, class_ in enumerate(sorted(higher, key=lambda c: (c.value, c.metadata.name))):
        name = class_.metadata.name

        def change(read: Pod, name: str = name) -> Pod:
            return with_priority_class(read, name, cluster)

        text = f"use PriorityClass {name} ({class_.value:,} instead of {own:,})"
        cost = first_cost + 5 * place
        yield Fix(
            PREEMPTS, name, text, "author", on_pod(pod, change), cost, GOES_BEFORE, (), "class", name, price=price
        )
    taken = any(class_.metadata.name == FOR_AGENTS for class_ in cluster.priority_classes)
    if is_agent and not higher and not taken and own < VALUE_FOR_AGENTS:
        yield _create_class(pod, cluster)


def _create_class(pod: Pod, cluster: Cluster) -> Fix:
    """Return the fix that creates a PriorityClass for agents and uses it."""
    new = PriorityClass(ObjectMeta(FOR_AGENTS), VALUE_FOR_AGENTS)
    with_class = replace(cluster, priority_classes=(*cluster.priority_classes, new))

    def change(read: Pod) -> Pod:
        return with_priority_class(read, FOR_AGENTS, with_class)

    key = ObjectKey.of(new)
    edits = (ObjectEdit(key, lambda _: new), *on_pod(pod, change))
    unread = ", or take one that exists: none was read" * (cluster.gap("PriorityClass") is not None)
    text = f"create PriorityClass {FOR_AGENTS} ({VALUE_FOR_AGENTS:,} instead of {pod.spec.priority or 0:,}) and use it"
    commands = (kubectl.render_apply(kubectl.build_manifest(key, new)),)
    return Fix(
        PREEMPTS,
        FOR_AGENTS,
        text + unread,
        "operator",
        edits,
        RAISE_OF_AGENT,
        GOES_BEFORE,
        commands,
        "class",
        FOR_AGENTS,
        price=Price.NEIGHBOUR,
    )
