"""Advice about what to look at next. Unlike fixes, advice is not verified by replay."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from shlex import quote

from msgspec.structs import replace

from kschedctl.api.gangs import GangProject
from kschedctl.api.objects import DeviceClass, Pod, Taint, Toleration
from kschedctl.api.ownership import find_owner
from kschedctl.api.tolerations import HARD_EFFECTS, UNSCHEDULABLE_TAINT, is_tolerated
from kschedctl.cluster import Cluster
from kschedctl.commands.explain.pod_group_report import PodGroupReport, suggest_deadlock_end
from kschedctl.commands.explain.report import Advice, Cause, Explanation, PreemptionReport, describe_causes
from kschedctl.replay.volumes import find_confining_claim
from kschedctl.scheduler.engine.extenders import NAME as EXTENDER
from kschedctl.scheduler.framework.declaration import NextStep
from kschedctl.scheduler.in_tree_plugins import IN_TREE
from kschedctl.scheduler.plugins.dynamic_resources.facts import DevicesUnfit
from kschedctl.scheduler.plugins.dynamic_resources.plugin import LOOK_AT_DEVICES, DynamicResources
from kschedctl.scheduler.plugins.inter_pod_affinity.filtering import PodInTheWay
from kschedctl.scheduler.plugins.node_resources.fit import Insufficient
from kschedctl.scheduler.plugins.node_unschedulable import Cordoned
from kschedctl.scheduler.plugins.pod_topology_spread.filtering import TooSkewed
from kschedctl.scheduler.plugins.taint_toleration import UntoleratedTaint
from kschedctl.scheduler.scheduler import Framework, Scheduler
from kschedctl.snapshot.nodes import HOSTNAME, REGION, ZONE
from kschedctl.text.counts import counted, first_few, join_words

CAUSES_ADVISED = 3
COMMANDS_OF_PROJECTS = {
    GangProject.VOLCANO: "kubectl describe podgroups.scheduling.volcano.sh {name} -n {namespace}",
    GangProject.KUEUE: "kubectl get workloads.kueue.x-k8s.io -n {namespace}",
}
"""The project that decides about a gang -> the command that shows why the gang waits."""
KUBERNETES_TAINT_DOMAIN = "node.kubernetes.io/"
"""Taints of this domain say what is wrong with a node, so that the node needs attention and not the pod."""
_DRIVER = re.compile(r"""\s*device\.driver\s*==\s*(["'])(?P<name>[^"']+)\1\s*(&&(?!.*\|\|).*)?""", re.DOTALL)
"""A CEL selector that can only match the devices of one driver."""
_TOO_LARGE = Advice("AskForLess", "No node is large enough: request less, or add larger nodes")
_EXTENDER = NextStep("AskExtender", "An extender rejects nodes that would fit: check its log and settings")


def iter_advice(report: Explanation, pod: Pod, scheduler: Scheduler, framework: Framework | None) -> Iterator[Advice]:
    """Yield advice on what to do next, which depends on the verdict on the pod.

    `framework` is None if no profile serves the pod. A finished pod, and a pod whose scheduling fails with an error,
    get no advice.
    """
    match report.verdict:
        case "Bound" if report.kubelet_rejection:
            text = "Remove spec.nodeName so that the scheduler chooses a node with room for the pod"
            yield Advice("RemoveNodeName", text, pod.spec.node_name)
        case "Bound" if report.claims_without_scheduler:
            text = "Select the node with nodeSelector kubernetes.io/hostname instead of nodeName, and recreate the pod"
            yield Advice("SelectNodeByLabel", text, pod.spec.node_name)
        case "Bound":
            yield Advice("LookAtKubelet", "Nothing is left to schedule; if the pod does not run, check the kubelet")
        case "NotResponsible" | "Gated" if report.pod_group and report.pod_group.decided_by:
            yield from _advise_on_gang(report.pod_group)
        case "NotResponsible" if framework is None:
            yield Advice(
                "CheckScheduler",
                f"If {pod.spec.scheduler_name} is a separate scheduler, check that it is running (kube-scheduler "
                "records no events for its pods)",
            )
            yield Advice(
                "CorrectProfile",
                f"If {pod.spec.scheduler_name} is a profile of kube-scheduler, pass its configuration; otherwise "
                "correct the pod's spec.schedulerName",
            )
        case "NotResponsible":
            text = "A finalizer or an unresponsive kubelet keeps the pod: check metadata.finalizers"
            yield Advice("LookAtFinalizers", text)
        case "Gated":
            yield from _advise_on_gated_pod(report, pod)
        case "Schedulable":
            yield from _advise_on_schedulable_pod(pod)
        case "Unschedulable" if framework is not None:
            yield from _advise_on_missing_drivers(scheduler, report)
            yield from _advise_on_taints(scheduler, framework, pod, report)
            yield from _advise_on_unschedulable_pod(report, pod, scheduler)


def _advise_on_gang(group: PodGroupReport) -> Iterator[Advice]:
    """Yield advice for a gang that another project places: create missing pods, end a deadlock, see its status."""
    namespace, _, name = group.name.partition("/")
    if group.missing:
        more = counted(group.missing, "more pod")
        yield Advice("CreateMembers", f"{group.decided_by} waits for {more} of {name} to be created")
    if group.deadlocked_with:
        yield Advice("EndDeadlock", suggest_deadlock_end(group))
    command = COMMANDS_OF_PROJECTS[GangProject(group.decided_by)].format(namespace=quote(namespace), name=quote(name))
    yield Advice("AskWhoDecides", f"Ask {group.decided_by}: {command}")


def _advise_on_gated_pod(report: Explanation, pod: Pod) -> Iterator[Advice]:
    """Yield advice for a gated pod: how to get its gates removed, and whether it would fit without them.

    Devices that hold the pod back get advice of their own. If the pod would fit on no node, the second piece of advice
    names the causes, but it is omitted if one of the causes already gates the pod.
    """
    gates = join_words([gate.name for gate in pod.spec.scheduling_gates])
    if gates:
        gate_count = len(pod.spec.scheduling_gates)
        if gate_count == 1:
            gone = "it is gone"
        elif gate_count == 2:
            gone = "both are gone"
        else:
            gone = "all of them are gone"
        text = f"Find the controller that should remove {gates}: the scheduler ignores the pod until {gone}"
        yield Advice("RemoveGates", text)
    devices = report.queue.get(DynamicResources.name)
    if devices is not None and devices.reasons:
        text = "Check that the ResourceClaim exists, or the ResourceClaimTemplate from which it is generated"
        yield Advice(LOOK_AT_DEVICES.kind, text)
    reported_reasons = {reason for status in report.queue.values() for reason in status.reasons}
    if report.feasible:
        count = len(report.feasible)
        yield Advice("OnceReleased", f"If nothing held the pod back, it would fit on {counted(count, 'node')}")
    elif report.causes and not any(cause.reason in reported_reasons for cause in report.causes):
        text = f"Even if nothing held the pod back, it would not fit: {describe_causes(report.causes)}"
        yield Advice("OnceReleased", text)


def _advise_on_schedulable_pod(pod: Pod) -> Iterator[Advice]:
    """Yield advice for a pod that fits but is still pending. There is none for a pod that is not created yet."""
    if any(condition.type == "PodScheduled" and condition.status == "False" for condition in pod.status.conditions):
        text = (
            "The cluster has changed since kube-scheduler last rejected the pod; it retries the pod within 5 min of "
            "the rejection. If the pod waits longer, run audit to find the fault"
        )
        yield Advice("AwaitRetry", text)
    elif pod.metadata.creation_timestamp is not None:
        text = "If the pod stays Pending, check that kube-scheduler is running: it has not reported on this pod"
        yield Advice("CheckScheduler", text)


RAISE_PRIORITY = "RaisePriority"
KEEP_APART_LESS = "KeepApartLess"
"""The kind of the advice to give a DaemonSet a higher priority than the pods on its nodes."""


def _advise_on_unschedulable_pod(report: Explanation, pod: Pod, scheduler: Scheduler) -> Iterator[Advice]:
    """Yield advice for an unschedulable pod on a single topic, the first that applies.

    The topics are a deadlock between gangs, terminating victims, victims that kube-scheduler would choose, and finally
    a shared claim together with the other causes. If a DaemonSet's pod can preempt no pod because all have a higher or
    the same priority, the advice to raise its priority precedes the topic.
    """
    preemption = report.preemption
    if preemption is not None and preemption.no_lower_priority and find_owner(pod).kind == "DaemonSet":
        highest = preemption.no_lower_priority.highest
        text = f"Pods of its DaemonSet cannot run on another node: give the DaemonSet a PriorityClass above {highest:,}"
        yield Advice(RAISE_PRIORITY, text)
    if report.pod_group is not None and report.pod_group.deadlocked_with:
        yield Advice("EndDeadlock", suggest_deadlock_end(report.pod_group))
    elif preemption is not None and preemption.terminating:
        yield from _advise_on_terminating_victims(preemption, scheduler.cluster)
    elif preemption is not None and preemption.chosen and preemption.asked:
        victims = len(preemption.candidates[preemption.chosen].victims)
        text = f"Preemption would make room on {preemption.chosen} by evicting {counted(victims, 'pod')}"
        yield Advice("AwaitPreemption", text, preemption.chosen)
    else:
        yield from _advise_on_shared_claim(pod, scheduler)
        yield from _advise_on_causes(report.causes)


def _advise_on_shared_claim(pod: Pod, scheduler: Scheduler) -> Iterator[Advice]:
    """Yield the advice to give each replica its own claim if the pod shares one that confines it to some nodes.

    Replicas are pods of the same owner. Without a replica that has a node, there is no advice.
    """
    confining_claim = find_confining_claim(scheduler.view, pod)
    owner = find_owner(pod)
    if confining_claim is None or owner.kind == "Pod":
        return
    replicas = [key for key in confining_claim.users if find_owner(scheduler.view.pods.get_pod(key)) == owner]
    if replicas:
        claim = confining_claim.claim.metadata
        text = (
            f"Claim {claim.namespace}/{claim.name} is shared with {first_few(replicas)} and keeps the pod on "
            f"{first_few(confining_claim.nodes) or confining_claim.domain}: give each replica its own claim "
            "(volumeClaimTemplates of a StatefulSet), or use a volume that all nodes can use"
        )
        yield Advice("OwnClaims", text, claim=claim.name)


def _advise_on_terminating_victims(preemption: PreemptionReport, cluster: Cluster) -> Iterator[Advice]:
    """Yield the advice to wait for the terminating victims, and advice on what to check if they do not leave.

    If a victim's deletion time is known, the latest one is mentioned. If a victim should have been gone before the
    cluster was read, the only advice is to check what keeps it.
    """
    node = preemption.nominated
    if preemption.overdue:
        text = f"The victims are overdue by {preemption.overdue}: check their finalizers and the kubelet of {node}"
        yield Advice("LookAtFinalizers", text, node)
        return
    text = f"Wait: the pod gets {node} once the victims are gone, unless a pod of higher priority comes first"
    yield Advice("AwaitPreemption", text, node)
    victims = (cluster.pod(*key.split("/", 1)) for key in preemption.terminating)
    ends = max((victim.metadata.deletion_timestamp or "" for victim in victims if victim is not None), default="")
    end = f", which ends at {ends}" if ends else ""
    text = f"If the victims outlast their grace period{end}, check their finalizers and the kubelet of {node}"
    yield Advice("LookAtFinalizers", text, node)


def _advise_on_causes(causes: tuple[Cause, ...]) -> Iterator[Advice]:
    """Yield advice on the first CAUSES_ADVISED causes, without duplicates.

    If each cause leaves some nodes but all causes together leave none, the first advice is to change one of them.
    """
    if len(causes) > 1:
        no_node_in_reach = causes[0].within == 0
        is_about_nodes = bool(causes[0].nearest)
        if no_node_in_reach and is_about_nodes:
            text = "Each of these causes alone leaves some nodes, but together they leave none: change one of them"
            yield Advice("ChangeOneOfThem", text)
    yield from _iter_distinct_advice(map(_advise_on_cause, causes[:CAUSES_ADVISED]))


def _advise_on_missing_drivers(scheduler: Scheduler, report: Explanation) -> Iterator[Advice]:
    """Yield advice on DRA drivers that the pod needs and that publish no ResourceSlice.

    For a DeviceClass that names no driver, there is advice only if no driver publishes a ResourceSlice. There is no
    advice at all unless all ResourceSlices were read.
    """
    if scheduler.cluster.find_gap("ResourceSlice") is not None:
        return
    publishing_drivers = {resource_slice.spec.driver for resource_slice in scheduler.cluster.resource_slices}
    for device_class in _find_classes_without_devices(scheduler.cluster, report):
        driver, name = _find_dra_driver(device_class), device_class.metadata.name
        if driver and driver not in publishing_drivers:
            text = f"No node publishes devices of driver {driver} (DeviceClass {name}): check its DaemonSet"
            yield Advice("CheckDeviceDriver", text)
        elif not driver and not publishing_drivers:
            text = f"No node publishes devices (DeviceClass {name}): check the DaemonSet of its driver"
            yield Advice("CheckDeviceDriver", text)


def _find_classes_without_devices(cluster: Cluster, report: Explanation) -> list[DeviceClass]:
    """Return the distinct DeviceClasses of the requests for which no node has a device.

    The report's causes tell which requests these are. DeviceClasses that are not in the cluster are left out.
    """
    # The requests without devices, as claim and request
    without_devices = set()
    for cause in report.causes:
        if isinstance(cause.fact_data, DevicesUnfit):
            without_devices |= {(unfit.claim, unfit.request) for unfit in cause.fact_data.requests if not unfit.devices}

    # Their DeviceClasses
    class_by_name = {device_class.metadata.name: device_class for device_class in cluster.device_classes}
    needed_classes = {}
    for claim in cluster.resource_claims:
        key = f"{claim.metadata.namespace}/{claim.metadata.name}"
        for request in claim.spec.devices.requests:
            if request.exactly is None or (key, request.name) not in without_devices:
                continue
            class_name = request.exactly.device_class_name
            if class_name in class_by_name:
                needed_classes[class_name] = class_by_name[class_name]
    return list(needed_classes.values())


def _find_dra_driver(device_class: DeviceClass) -> str:
    """Return the DRA driver that the class's selectors require, or "" if they require none."""
    expressions = [selector.cel.expression for selector in device_class.spec.selectors if selector.cel is not None]
    matches = (_DRIVER.fullmatch(expression) for expression in expressions)
    return next((match["name"] for match in matches if match is not None), "")


def _iter_distinct_advice(suggestions: Iterable[Advice | None]) -> Iterator[Advice]:
    """Yield each distinct suggestion once, without None."""
    return (suggestion for suggestion in dict.fromkeys(suggestions) if suggestion is not None)


def _advise_on_cause(cause: Cause) -> Advice | None:
    """Return advice on a single cause, or None if there is none.

    There is special advice on a resource request that exceeds every node, on a topology spread constraint, on devices
    that are all allocated, and on anti-affinity. Otherwise the advice is the next step for the plugin or the extender.
    """
    if isinstance(cause.fact_data, Insufficient) and cause.fact_data.exceeds_every_node:
        return _TOO_LARGE
    if isinstance(cause.fact_data, TooSkewed):
        spread_advice = _advise_on_spread_constraint(cause.fact_data)
        if spread_advice is not None:
            return spread_advice
    if isinstance(cause.fact_data, DevicesUnfit) and cause.fact_data.lacks_only_free_devices:
        text = (
            f"All matching devices on {cause.nearest} are allocated: see which claims hold them, then free one, or add "
            "a node with such devices"
        )
        return Advice("FreeDevices", text, cause.nearest)
    if isinstance(cause.fact_data, PodInTheWay) and cause.fact_data.key:
        return _advise_on_anti_affinity(cause.fact_data)
    step = _EXTENDER if cause.plugin == EXTENDER else _find_next_step(cause)
    return None if step is None else _fill_in_step(step, cause)


def _fill_in_step(step: NextStep, cause: Cause) -> Advice:
    """Return the advice for a step, with the node and the claim of the cause if the step is about them."""
    node = cause.nearest if "{node}" in step.text else ""
    if not step.text_without_claim:
        return Advice(step.kind, step.text.format(node=cause.nearest), node)
    claim = cause.fact_data.get_claim() if cause.fact_data is not None else ""
    _, _, claim_name = claim.rpartition("/")
    text = step.text if claim_name else step.text_without_claim
    return Advice(step.kind, text.format(node=cause.nearest), node, claim_name)


def _advise_on_spread_constraint(fact: TooSkewed) -> Advice | None:
    """Return advice to change a topology spread constraint, or None if no change would help."""
    if fact.has_too_few_domains:
        text = f"Add nodes in another domain of {fact.key}, or lower minDomains to {fact.domains}"
        return Advice("AddDomains", text)
    if fact.emptiest is not None and fact.emptiest.policy:
        text = f"Set {fact.emptiest.policy}: Honor in the constraint, so that {fact.emptiest.domain} does not count"
        return Advice("HonorPolicy", text)
    return None


_DOMAIN_NOUNS = {HOSTNAME: "node", ZONE: "zone", REGION: "region"}
"""Topology key -> the noun for one of its domains."""


def _advise_on_anti_affinity(fact: PodInTheWay) -> Advice:
    """Return the advice to add a node in another domain, to reduce replicas, or to relax the anti-affinity.

    The advice names the existing pod if the anti-affinity belongs to it, and otherwise the pods that the selector
    matches.

    >>> advice = _advise_on_anti_affinity(PodInTheWay("d/p", 0, "zone", "a", "app=web"))
    >>> print(*advice.text.split(": "), sep="\\n")
    The pod's anti-affinity rules out every zone that runs a pod with app=web
    add a node with room for the pod in another zone, reduce replicas, or make the anti-affinity term preferred
    """
    domain = _DOMAIN_NOUNS.get(fact.key, fact.key)
    new_node = "add a node with room for the pod" + ("" if fact.key == HOSTNAME else f" in another {domain}")
    if fact.of_existing_pod:
        text = f"The anti-affinity of {fact.pod} keeps the pod off its {domain}"
    else:
        matching_pod = f"a pod with {fact.selector}" if fact.selector else "any pod"
        text = f"The pod's anti-affinity rules out every {domain} that runs {matching_pod}"
    text += f": {new_node}, reduce replicas, or make the anti-affinity term preferred"
    return Advice(KEEP_APART_LESS, text)


def add_rollout_limits_to_advice(advice: Advice, max_unavailable: int) -> Advice:
    """Return the advice to relax the anti-affinity with the limits that its rollout needs. Other advice is unchanged.

    Old pods keep their required term, so the rollout may be stuck with the Deployment's own limits.
    """
    if advice.kind != KEEP_APART_LESS:
        return advice
    limits = f"maxSurge 0 and maxUnavailable {max_unavailable:,}"
    pods_down = counted(max_unavailable, "of its pods is", "of its pods are")
    return replace(advice, text=f"{advice.text} and roll it out with {limits} (up to {pods_down} then down at a time)")


def _find_next_step(cause: Cause) -> NextStep | None:
    """Return the next step that the cause's plugin suggests, or None if it suggests none.

    A plugin may suggest a different step if some nodes are within the pod's reach.
    """
    declared = IN_TREE.get(cause.plugin)
    plugin = declared.plugin if declared is not None else None
    if plugin is None:
        return None
    if cause.within and plugin.next_step_within_reach:
        return plugin.next_step_within_reach
    return plugin.next_step


def _advise_on_taints(scheduler: Scheduler, framework: Framework, pod: Pod, report: Explanation) -> Iterator[Advice]:
    """Yield advice on the closest node if its taints or its cordon are the first cause.

    Nothing is yielded if some objects were not read. Uncordoning the node or tolerating its taints is advised only if
    the pod would then fit. If Kubernetes itself or the cloud provider set the taint, the advice is to find out why.
    """
    cause = report.causes[0] if report.causes else None
    if cause is None or not isinstance(cause.fact_data, Cordoned | UntoleratedTaint) or report.unknown:
        return
    node_name = cause.nearest

    # The cloud controller manager removes its taint once it has initialized the node
    if isinstance(cause.fact_data, UntoleratedTaint) and cause.fact_data.uninitialized_nodes:
        text = (
            "Find out why the cloud controller manager does not initialize the node: check that it is running, "
            "and read its log"
        )
        yield Advice("StartCloudController", text, node_name)
        return

    yield from _advise_on_node_taints(scheduler, framework, pod, node_name)


def _advise_on_node_taints(scheduler: Scheduler, framework: Framework, pod: Pod, node_name: str) -> Iterator[Advice]:
    """Yield advice to uncordon a node, to find out why Kubernetes itself taints it, or to tolerate its taints.

    Uncordoning and tolerating are advised only if the pod would then fit.
    """
    node = scheduler.view.nodes.get_node(node_name)
    untolerated = [
        taint
        for taint in node.spec.taints
        if taint.effect in HARD_EFFECTS and not is_tolerated(pod.spec.tolerations, taint)
    ]
    only_cordoned = node.spec.unschedulable and all(taint.key == UNSCHEDULABLE_TAINT.key for taint in untolerated)
    health_taints = [taint.key for taint in untolerated if taint.key.startswith(KUBERNETES_TAINT_DOMAIN)]
    if only_cordoned:
        if _fits_with_tolerations(scheduler, framework, pod, node_name, [UNSCHEDULABLE_TAINT]):
            yield Advice("Uncordon", f"The pod fits on {node_name} once it is uncordoned", node_name)
    elif health_taints:
        text = f"Check the node: Kubernetes itself taints {node_name} with {', '.join(health_taints)}"
        yield Advice("LookAtNode", text, node_name)
    elif untolerated and _fits_with_tolerations(scheduler, framework, pod, node_name, untolerated):
        text = f"If the pod tolerated {' and '.join(map(str, untolerated))}, it would fit on {node_name}"
        yield Advice("Tolerate", text, node_name)


def _fits_with_tolerations(
    scheduler: Scheduler, framework: Framework, pod: Pod, node: str, taints: list[Taint]
) -> bool:
    """Return whether the pod would fit on the node if it tolerated these taints.

    Extenders are not asked. If the scheduling cycle fails with an error, return False.
    """
    tolerations = tuple(Toleration(taint.key, "Equal", taint.value, taint.effect) for taint in taints)
    tolerant = replace(pod, spec=replace(pod.spec, tolerations=(*pod.spec.tolerations, *tolerations)))
    cycle = scheduler.run_cycle(framework.without_extenders(), tolerant)
    return cycle.error is None and node in {cycle.view.nodes.names[row] for row in cycle.feasible.tolist()}
