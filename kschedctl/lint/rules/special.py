"""Rules about other schedulers, scheduling gates, gangs and devices."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.objects import (
    DeviceClaim,
    DeviceClass,
    PodGroup,
    PodResourceClaim,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplate,
)
from kschedctl.lint import documentation as doc
from kschedctl.lint.context import LintContext
from kschedctl.lint.objects.subject import Problem
from kschedctl.lint.objects.workload import Workload
from kschedctl.lint.rule import ERROR, WARNING, Rule, for_each_workload
from kschedctl.text.counts import counted


def find_unknown_schedulers(context: LintContext) -> Iterator[Problem]:
    """Find workloads whose schedulerName is neither that of a profile nor that of any bound pod.

    Finds nothing unless all pods are known.
    """
    if not context.are_all_read("Pod"):
        return
    view = context.facts.view
    bound_infos = set(view.pods.info[view.mask_placed()].tolist())
    known_schedulers = set(context.facts.scheduler.configuration.profiles)
    known_schedulers |= {view.pods.infos[info].spec.scheduler_name for info in bound_infos}
    for workload in context.workloads:
        name = workload.spec.scheduler_name or "default-scheduler"
        if name not in known_schedulers:
            message = f'scheduler "{name}" does not seem to be running: it has bound no pods'
            yield workload.build_problem(("schedulerName",), message)


SC_UNKNOWN_SCHEDULER = Rule(
    "sc-unknown-scheduler",
    WARNING,
    find_unknown_schedulers,
    summary="schedulerName of a scheduler that does not seem to be running",
    why="No scheduler handles the pods: they stay Pending without a single event.",
    fix="Correct schedulerName, deploy the scheduler, or pass its configuration with --config",
    source=doc.SCHEDULERS,
    needs_cluster=True,
)


def find_scheduling_gates(workload: Workload) -> Iterator[Problem]:
    """Report each scheduling gate of a workload's pods, which wait until a controller removes it."""
    for i, gate in enumerate(workload.spec.scheduling_gates):
        subject = "the pod waits" if workload.kind == "Pod" else "its pods wait"
        message = f"{subject} until a controller removes the gate {gate.name}"
        yield workload.build_problem(("schedulingGates", i), message)


SC_SCHEDULING_GATE = Rule(
    "sc-scheduling-gate",
    WARNING,
    for_each_workload(find_scheduling_gates),
    summary="Scheduling gates in a manifest",
    why="The pods wait, without an event, until a controller removes the gate. If no controller does, they wait "
    "forever.",
    fix="Let the controller that removes the gate also add it, with a mutating webhook",
    source=doc.GATES,
)


def find_incomplete_gangs(context: LintContext) -> Iterator[Problem]:
    """Find PodGroups whose minCount exceeds the pods of linted workloads and of the cluster.

    Without a cluster, groups without any linted workload are left out.
    """
    for subject, group in context.list_linted_objects(PodGroup):
        gang = group.spec.scheduling_policy.gang
        namespace = subject.namespace or "default"
        members = []
        for workload in context.workloads_by_namespace.get(namespace, ()):
            membership = workload.spec.scheduling_group
            is_member = membership is not None and membership.pod_group_name == subject.name
            if is_member and context.variants.can_coexist(subject, workload.subject):
                members.append(workload)
        # Without a cluster, the members of a group without linted workloads are unknown
        may_have_unknown_members = not members and context.cluster is None
        if gang is None or may_have_unknown_members:
            continue
        count = sum(workload.highest_replicas for workload in members)
        if count >= gang.min_count:
            continue
        if count + _count_unlinted_gang_members(context, namespace, subject.name, members) < gang.min_count:
            message = (
                f"minCount is {gang.min_count}, but its workloads have only {counted(count, 'pod')}: none of them is "
                "ever scheduled"
            )
            yield subject.build_problem(("spec", "schedulingPolicy", "gang", "minCount"), message)


GG_QUORUM = Rule(
    "gg-quorum",
    ERROR,
    find_incomplete_gangs,
    summary="A pod group that can never reach its minCount",
    why="No pod of the group enters the queue until minCount pods exist, and no event says so.",
    fix="Lower minCount, or raise the replicas of the group's workloads",
    source=f"{doc.PLUGINS}: gangscheduling; https://github.com/kubernetes/kubernetes/issues/141025",
)


def _count_unlinted_gang_members(context: LintContext, namespace: str, name: str, workloads: list[Workload]) -> int:
    """Count the cluster's pods of the PodGroup with this name that belong to none of the linted workloads.

    Return 0 without a cluster.
    """
    if context.cluster is None:
        return 0
    linted_owners = {(workload.kind, workload.namespace, workload.subject.name) for workload in workloads}
    count = 0
    for owner, pods in context.facts.pods_by_owner.items():
        if owner in linted_owners or owner.namespace != namespace:
            continue
        groups = [pod.spec.scheduling_group for pod in pods]
        count += sum(group is not None and group.pod_group_name == name for group in groups)
    return count


def find_claims_without_devices(context: LintContext) -> Iterator[Problem]:
    """Find resource claims that do not exist, and claims for devices that no node has even if all devices are free.

    A replay confirms that no node has the devices. Finds nothing unless all claims, classes and devices are known.
    """
    assert context.cluster is not None
    if not any(workload.spec.resource_claims for workload in context.workloads):
        return
    if not context.are_all_read("DeviceClass", "ResourceSlice", "ResourceClaim", "ResourceClaimTemplate"):
        return
    class_names = {device_class.metadata.name for device_class in context.list_all_objects(DeviceClass)}
    has_devices = any(resource_slice.spec.devices for resource_slice in context.cluster.resource_slices)
    claim_specs = _collect_device_claim_specs(context)
    for workload in context.workloads:
        # Check each claim by itself
        valid_claims: dict[str, ResourceClaimSpec] = {}
        for index, pod_claim in enumerate(workload.spec.resource_claims):
            kind, name = _get_referenced_object(pod_claim)
            claim_spec = claim_specs.get((kind, workload.namespace, name))
            if claim_spec is None:
                faults = [f'{kind} "{name}" does not exist in namespace {workload.namespace}']
            else:
                request_faults = _iter_device_request_faults(claim_spec.devices, class_names, has_devices=has_devices)
                faults = [f"{kind} {name}: {fault}" for fault in request_faults]
            yield from (workload.build_problem(("resourceClaims", index), fault) for fault in faults)
            if claim_spec is not None and not faults:
                valid_claims[pod_claim.name] = claim_spec

        # Replay only if all claims are valid; invalid ones are reported above
        are_all_valid = len(valid_claims) == len(workload.spec.resource_claims)
        if valid_claims and are_all_valid and context.facts.lacks_devices(workload, valid_claims):
            message = "no node has the devices that its claims need, even with all devices free"
            yield workload.build_problem(("resourceClaims",), message)


DRA_NO_DEVICE = Rule(
    "dra-no-device",
    ERROR,
    find_claims_without_devices,
    summary="ResourceClaim that cannot be allocated",
    why="If the ResourceClaim, its DeviceClass or a matching device is missing, the pods stay Pending. Verified by "
    "replay with all devices free.",
    fix="Create the DeviceClass or ResourceClaim, or install the driver of the devices",
    source=doc.DEVICES,
    needs_cluster=True,
)


def _get_referenced_object(pod_claim: PodResourceClaim) -> tuple[str, str]:
    """Return the kind and the name of the object that a pod's claim refers to: a claim, or a template for claims."""
    if pod_claim.resource_claim_template_name:
        return "ResourceClaimTemplate", pod_claim.resource_claim_template_name
    return "ResourceClaim", pod_claim.resource_claim_name or ""


def _collect_device_claim_specs(context: LintContext) -> dict[tuple[str, str, str], ResourceClaimSpec]:
    """Return the specs of all ResourceClaims and ResourceClaimTemplates, by kind, namespace and name."""
    specs: dict[tuple[str, str, str], ResourceClaimSpec] = {}
    for claim in context.list_all_objects(ResourceClaim):
        specs["ResourceClaim", claim.metadata.namespace or "default", claim.metadata.name] = claim.spec
    for template in context.list_all_objects(ResourceClaimTemplate):
        namespace = template.metadata.namespace or "default"
        specs["ResourceClaimTemplate", namespace, template.metadata.name] = template.spec.spec
    return specs


def _iter_device_request_faults(claim: DeviceClaim, existing_classes: set[str], *, has_devices: bool) -> Iterator[str]:
    """Yield a fault for each request of a claim for which no DeviceClass exists.

    If the cluster has no devices at all, every other request for a device is also a fault.
    """
    for request in claim.requests:
        if request.exactly:
            class_names = [request.exactly.device_class_name]
        else:
            class_names = [alternative.device_class_name for alternative in request.first_available]
        if class_names and not any(name in existing_classes for name in class_names):
            yield f"request {request.name} needs DeviceClass {' or '.join(class_names)}, which does not exist"
        elif class_names and not has_devices:
            yield f"request {request.name} needs a device, but no ResourceSlice offers any"
