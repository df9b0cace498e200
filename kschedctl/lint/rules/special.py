"""Rules about other schedulers, scheduling gates, gangs and devices."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.objects import (
    DeviceClaim,
    DeviceClass,
    PodGroup,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplate,
)
from kschedctl.lint import documentation as doc
from kschedctl.lint.context import LintContext
from kschedctl.lint.objects.subject import Path, Problem
from kschedctl.lint.objects.workload import Workload
from kschedctl.lint.rule import ERROR, WARNING, Rule, for_each_workload
from kschedctl.text.counts import counted


def find_unknown_schedulers(context: LintContext) -> Iterator[Problem]:
    """Find workloads whose schedulerName no profile serves and no bound pod has."""
    pods, served = context.facts.view.pods, set(context.facts.scheduler.configuration.profiles)
    served |= {pods.infos[kind].spec.scheduler_name for kind in set(pods.info[context.facts.view.node >= 0].tolist())}
    if not context.are_all_read("Pod"):
        return
    for workload in context.workloads:
        name = workload.spec.scheduler_name or "default-scheduler"
        if name not in served:
            yield workload.build_problem(
                ("schedulerName",), f'nothing shows that a scheduler "{name}" runs: no pod of it is bound'
            )


SC_UNKNOWN_SCHEDULER = Rule(
    "sc-unknown-scheduler",
    WARNING,
    find_unknown_schedulers,
    summary="schedulerName that no scheduler seems to serve",
    why="No scheduler looks at the pods: they stay Pending without a single event.",
    fix="Correct schedulerName, deploy that scheduler, or give its configuration with --config",
    source=doc.SCHEDULERS,
    needs_cluster=True,
)


def find_scheduling_gates(workload: Workload) -> Iterator[Problem]:
    """Find scheduling gates in manifests."""
    for i, gate in enumerate(workload.spec.scheduling_gates):
        yield workload.build_problem(("schedulingGates", i), f"waits until something removes the gate {gate.name}")


SC_SCHEDULING_GATE = Rule(
    "sc-scheduling-gate",
    WARNING,
    for_each_workload(find_scheduling_gates),
    summary="Scheduling gates in a manifest",
    why="The pods wait, without an event, until a controller removes the gate; if none does, they wait forever.",
    fix="Let the controller that removes the gate add it too, by a webhook",
    source=doc.GATES,
)


def find_incomplete_gangs(context: LintContext) -> Iterator[Problem]:
    """Find PodGroups whose workloads have fewer pods than minCount."""
    for subject, group in context.list_linted(PodGroup):
        gang = group.spec.scheduling_policy.gang
        namespace = subject.namespace or "default"
        members = [
            w
            for w in context.workloads_by_namespace.get(namespace, ())
            if context.variants.can_coexist(subject, w.subject)
            and w.spec.scheduling_group
            and w.spec.scheduling_group.pod_group_name == subject.name
        ]
        if gang is None or (not members and context.cluster is None):
            continue
        min_count = gang.min_count
        count = sum(w.highest_replicas for w in members)
        if count < min_count and count + _count_other_members(context, namespace, subject.name, members) < min_count:
            message = (
                f"minCount {min_count}, but its workloads have {counted(count, 'pod')}: none of them is ever scheduled"
            )
            yield subject.build_problem(("spec", "schedulingPolicy", "gang", "minCount"), message)


GG_QUORUM = Rule(
    "gg-quorum",
    ERROR,
    find_incomplete_gangs,
    summary="A gang that can never be complete",
    why="Until minCount pods exist none is let into the queue, and there is no event for that.",
    fix="Lower minCount, or raise the replicas of its workloads",
    source=f"{doc.PLUGINS}: gangscheduling; https://github.com/kubernetes/kubernetes/issues/141025",
)


def _count_other_members(context: LintContext, namespace: str, name: str, workloads: list[Workload]) -> int:
    """Return how many of the group's pods in the cluster belong to no linted workload."""
    if context.cluster is None:
        return 0
    linted_owners = {(w.kind, w.namespace, w.subject.name) for w in workloads}
    count = 0
    for owner, pods in context.facts.pods_by_owner.items():
        if owner in linted_owners or owner.namespace != namespace:
            continue
        groups = [pod.spec.scheduling_group for pod in pods]
        count += sum(group is not None and group.pod_group_name == name for group in groups)
    return count


def find_claims_without_devices(context: LintContext) -> Iterator[Problem]:
    """Find resource claims that do not exist, or that ask for devices which no node has."""
    assert context.cluster is not None
    if not any(workload.spec.resource_claims for workload in context.workloads):
        return
    if not context.are_all_read("DeviceClass", "ResourceSlice", "ResourceClaim", "ResourceClaimTemplate"):
        return
    classes = {c.metadata.name for c in context.list_all(DeviceClass)}
    has_devices = any(s.spec.devices for s in context.cluster.resource_slices)
    claims = {(c.metadata.namespace or "default", c.metadata.name): c.spec for c in context.list_all(ResourceClaim)}
    templates = {
        (c.metadata.namespace or "default", c.metadata.name): c.spec.spec
        for c in context.list_all(ResourceClaimTemplate)
    }
    for workload in context.workloads:
        valid_claims: dict[str, ResourceClaimSpec] = {}
        for i, reference in enumerate(workload.spec.resource_claims):
            template = reference.resource_claim_template_name
            kind, specs = ("ResourceClaimTemplate", templates) if template else ("ResourceClaim", claims)
            name = template or reference.resource_claim_name or ""
            claim = specs.get((workload.namespace, name))
            path: Path = ("resourceClaims", i)
            if claim is None:
                yield workload.build_problem(path, f'there is no {kind} "{name}" in namespace {workload.namespace}')
                continue
            problems = list(_iter_claim_problems(claim.devices, classes, has_devices=has_devices))
            yield from (workload.build_problem(path, f"{kind} {name}: {problem}") for problem in problems)
            if not problems:
                valid_claims[reference.name] = claim
        all_valid = valid_claims and len(valid_claims) == len(workload.spec.resource_claims)
        if all_valid and context.facts.lacks_devices(workload, valid_claims):
            yield workload.build_problem(
                ("resourceClaims",), "no node has devices that match its claims, were they all free"
            )


DRA_NO_DEVICE = Rule(
    "dra-no-device",
    ERROR,
    find_claims_without_devices,
    summary="Claim of devices that no node has",
    why="Without the claim, its DeviceClass or a device that matches, the pods stay Pending. Proved by replay with "
    "all devices free.",
    fix="Create the DeviceClass or claim, or install the driver of the devices",
    source=doc.DEVICES,
    needs_cluster=True,
)


def _iter_claim_problems(claim: DeviceClaim, classes: set[str], *, has_devices: bool) -> Iterator[str]:
    """Yield what is wrong with each request of a claim: no such DeviceClass, or no devices at all."""
    for request in claim.requests:
        if request.exactly:
            class_names = [request.exactly.device_class_name]
        else:
            class_names = [alternative.device_class_name for alternative in request.first_available]
        if class_names and not any(name in classes for name in class_names):
            yield f"request {request.name} wants DeviceClass {' or '.join(class_names)}, which does not exist"
        elif class_names and not has_devices:
            yield f"request {request.name} wants a device, but no ResourceSlice offers any"
