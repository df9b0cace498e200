"""Rules about requests and limits that are missing, absurd or of unknown resources."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from kschedctl.api.field_errors import Key
from kschedctl.api.objects import Container, Resources
from kschedctl.api.pod_requests import parse_quantities
from kschedctl.api.quantity import QuantityError, parse
from kschedctl.api.resource_names import CPU, EPHEMERAL_STORAGE, MEMORY
from kschedctl.api.validation.resources import validate_container_resource_name
from kschedctl.lint import documentation as doc
from kschedctl.lint.analysis.near_names import find_similar_name
from kschedctl.lint.objects.subject import Problem
from kschedctl.lint.objects.workload import Workload, iter_requests_and_limits
from kschedctl.lint.rule import ERROR, NOTE, WARNING, Rule, RuleProfile, for_each_workload

REQUIRED_RESOURCES = (CPU, MEMORY)
_WHY_REQUESTS = (
    "The scheduler counts it as needing nothing and packs nodes until pods are throttled, killed or evicted."
)
_FINITE_KIND_WORDS = ("Job", "Workflow", "Training", "Analysis", "Experiment")
"""Words in the names of kinds whose pods run to completion."""
_DEFAULTING_GROUP = ".k8s.elastic.co"
"""API group whose operators add requests to containers that have none."""


def find_missing_requests(workload: Workload) -> Iterator[Problem]:
    """Find containers of long-running workloads without cpu or memory requests."""
    if not _runs_to_completion(workload):
        yield from _find_containers_without_requests(workload)


RQ_MISSING = Rule(
    "rq-missing",
    WARNING,
    for_each_workload(find_missing_requests),
    summary="Container, or sidecar, without cpu or memory requests",
    why=_WHY_REQUESTS,
    fix="Set resources.requests for cpu and memory",
    source=doc.REQUESTS,
    once_per_object=True,
)


def find_missing_requests_of_jobs(workload: Workload) -> Iterator[Problem]:
    """Find containers of Jobs and bare pods without cpu or memory requests."""
    if _runs_to_completion(workload):
        yield from _find_containers_without_requests(workload)


RQ_MISSING_IN_JOBS = Rule(
    "rq-missing-in-jobs",
    NOTE,
    for_each_workload(find_missing_requests_of_jobs),
    summary="Container of a Job or bare pod without cpu or memory requests",
    why=_WHY_REQUESTS,
    fix="Set resources.requests for cpu and memory",
    source=doc.REQUESTS,
    once_per_namespace=True,
    profile=RuleProfile.STRICT,
)


def _runs_to_completion(workload: Workload) -> bool:
    """Return whether the workload's pods run to completion once, or have no controller."""
    kind = workload.subject.kind
    is_job = any(word in kind for word in _FINITE_KIND_WORDS) and kind != "CronJob"
    return is_job or kind in ("Pod", "PodTemplate")


def _find_containers_without_requests(workload: Workload) -> Iterator[Problem]:
    """Yield a problem for each container or sidecar without a cpu or memory request or limit."""
    if workload.kind.endswith(_DEFAULTING_GROUP):
        return
    pod_level = workload.spec.resources
    pod_level_names = {*pod_level.requests, *pod_level.limits} if pod_level else set()
    for at, container in workload.containers:
        if at[0] == "initContainers" and container.restart_policy != "Always":
            continue  # only sidecars run as long as the pod does
        if workload.custom_kind and not container.image:
            continue  # an operator completes the container
        names = pod_level_names | {*container.resources.requests, *container.resources.limits}
        missing_resources = [name for name in REQUIRED_RESOURCES if name not in names]
        if missing_resources:
            message = f"container {container.name} requests no {' and no '.join(missing_resources)}"
            yield workload.build_problem(at, message)


def find_invalid_resource_names(workload: Workload) -> Iterator[Problem]:
    """Find resource names that the API server rejects."""
    for at, container in workload.containers:
        for part in ("requests", "limits"):
            for name in getattr(container.resources, part):
                path = workload.get_path(*at, "resources", part, Key(name))
                yield from workload.to_problems(islice(validate_container_resource_name(name, path), 1))


RQ_UNKNOWN_RESOURCE = Rule(
    "rq-unknown-resource",
    ERROR,
    for_each_workload(find_invalid_resource_names),
    summary="Request for a resource name that containers may not use",
    why="The API server refuses containers with such names; the scheduler would ignore them.",
    fix="Write the full name, such as nvidia.com/gpu",
    source=f"{doc.REQUESTS}; {doc.VALIDATION}",
)


def find_missing_disk_requests(workload: Workload) -> Iterator[Problem]:
    """Find workloads with an emptyDir on disk and no request for ephemeral-storage."""
    resources = [container.resources for container in workload.spec.containers]
    has_request = any(EPHEMERAL_STORAGE in (*r.requests, *r.limits) for r in resources)
    if workload.disk_volumes and not has_request:
        index, name = next(iter(workload.disk_volumes.items()))
        message = f"emptyDir {name} is on the node's disk, but no container requests ephemeral-storage"
        yield workload.build_problem(("volumes", index), message)


RQ_EPHEMERAL_MISSING = Rule(
    "rq-ephemeral-missing",
    NOTE,
    for_each_workload(find_missing_disk_requests),
    summary="emptyDir without a request for ephemeral-storage",
    why="The disk is not reserved: when the node runs short, the kubelet evicts pods.",
    fix="Request ephemeral-storage",
    source=f"{doc.REQUESTS}#local-ephemeral-storage",
    profile=RuleProfile.STRICT,
    once_per_namespace=True,
)


BYTE_RESOURCES = (MEMORY, EPHEMERAL_STORAGE)
MIN_BYTES = 64 << 10
"""An amount of memory in which nothing runs."""
MANY_CPUS, MIN_BYTES_PER_CPU = 50, 32 << 20
"""So many cores with so little memory each are none."""
_MAX_AMOUNTS = {CPU: parse("2000"), MEMORY: parse("48Ti")}
"""More than any machine has."""
_MIN_RATIO, _MIN_INIT_CPUS, _MIN_INIT_GIB = 8, 8, 32
"""An init container decides alone where it asks for so many times what the pod does, and for so much."""
_DEVICE_RESOURCES = (
    *("nvidia.com/gpu", "amd.com/gpu", "intel.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe", "google.com/tpu"),
    *("aws.amazon.com/neuron", "aws.amazon.com/neuroncore", "aws.amazon.com/neurondevice", "vpc.amazonaws.com/efa"),
    *("habana.ai/gaudi", "rdma/hca", "vpc.amazonaws.com/pod-eni"),
    *("devices.kubevirt.io/kvm", "devices.kubevirt.io/tun", "devices.kubevirt.io/vhost-net", "smarter-devices/fuse"),
)
_WITHOUT_DOMAIN = {"nvidia/gpu": "nvidia.com/gpu", "amd/gpu": "amd.com/gpu", "intel/gpu": "intel.com/gpu"}


def find_absurd_amounts(workload: Workload) -> Iterator[Problem]:
    """Find requests and limits that only a wrong or missing unit explains."""
    for at, amounts in iter_requests_and_limits(workload):
        for name, text in amounts.items():
            if fault := _describe_absurdity(name, text, amounts):
                yield workload.build_problem((*at, name), fault)


RQ_ABSURD = Rule(
    "rq-absurd",
    WARNING,
    for_each_workload(find_absurd_amounts),
    summary="A quantity whose unit looks wrong",
    why="512m of memory is half a byte, and 512 are bytes: the scheduler counts them as nothing, and a limit of "
    "that size lets nothing start. 500 of cpu are cores, which no node has.",
    fix="Write Mi or Gi for memory, m for thousandths of a core",
    source=f"{doc.REQUESTS}; pkg/api/pod/warnings.go (v1.36)",
)


def _describe_absurdity(name: str, text: str | int | float, amounts: Resources) -> str:
    """Describe why an amount is absurd compared with the amounts beside it, or return "" if it is plausible."""
    try:
        parsed = parse_quantities(amounts)
    except QuantityError:
        return ""
    milli = parsed[name].milli_value()
    if name in BYTE_RESOURCES and milli % 1000 and milli < MIN_BYTES * 1000:
        return f'fractional byte value "{text}" is invalid, must be an integer'
    if name in BYTE_RESOURCES and 0 < milli < MIN_BYTES * 1000:
        size = milli // 1000
        return f'"{text}" is {size:,} byte{"s" * (size != 1)}: a unit such as Mi is missing'
    if name in _MAX_AMOUNTS and _MAX_AMOUNTS[name] < parsed[name]:
        return f'"{text}": no node has that much'
    if name == CPU and milli >= MANY_CPUS * 1000:
        memory = parsed[MEMORY].value() if MEMORY in parsed else 0
        if memory < milli // 1000 * MIN_BYTES_PER_CPU:
            is_in_milli = str(text).endswith("m")
            hint = "hardly any node has that many" if is_in_milli else "an m, for thousandths, is missing"
            return f'"{text}" is {milli // 1000:,} cores: {hint}'
    return ""


def find_oversized_init_containers(workload: Workload) -> Iterator[Problem]:
    """Find init containers that request many times what the pod needs later."""
    spec = workload.spec
    sidecars = [c for c in spec.init_containers if c.restart_policy == "Always"]
    for i, container in enumerate(spec.init_containers if spec.resources is None else ()):
        if container.restart_policy == "Always":
            continue
        for name, minimum, unit in ((CPU, _MIN_INIT_CPUS, "cores"), (MEMORY, _MIN_INIT_GIB << 30, "GiB")):
            request = _get_milli_request(container, name)
            later_requests = sum(_get_milli_request(c, name) for c in (*spec.containers, *sidecars))
            if request < minimum * 1000 or request < later_requests * _MIN_RATIO:
                continue
            amounts = {**container.resources.limits, **container.resources.requests}
            if not _describe_absurdity(name, amounts[name], amounts):  # rq-absurd reports it
                part = "requests" if name in container.resources.requests else "limits"
                milli_unit = 1000 if name == CPU else 1000 << 30
                later = f"{later_requests / milli_unit:,.3g} {unit}" if later_requests else "none"
                message = f"it requests {request / milli_unit:,.3g} {unit}, all that runs later for {later}"
                yield workload.build_problem(("initContainers", i, "resources", part, name), message)


RQ_DECIDED_BY_INIT = Rule(
    "rq-decided-by-init",
    WARNING,
    for_each_workload(find_oversized_init_containers),
    summary="An init container that requests many times what the pod needs afterwards",
    why="The scheduler reserves the larger of the two for the whole life of the pod: most of it lies idle, and few "
    "nodes, or none, have the room.",
    fix="Lower the request of the init container, or do its work in a Job",
    source="https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#resource-sharing-within-containers",
)


def _get_milli_request(container: Container, name: str) -> int:
    """Return a container's request, or else its limit, in thousandths, or 0."""
    amounts = {**container.resources.limits, **container.resources.requests}
    try:
        return parse_quantities({name: amounts[name]})[name].milli_value() if name in amounts else 0
    except QuantityError:
        return 0


def find_misspelt_resources(workload: Workload) -> Iterator[Problem]:
    """Find extended resources whose names look misspelt."""
    for at, amounts in iter_requests_and_limits(workload):
        for name in amounts:
            if name in _DEVICE_RESOURCES or "/" not in name:
                continue
            if meant := _WITHOUT_DOMAIN.get(name) or find_similar_name(name, _DEVICE_RESOURCES):
                yield workload.build_problem((*at, name), f"no node offers {name}", f"Write {meant}")


RQ_MISSPELT = Rule(
    "rq-misspelt",
    WARNING,
    for_each_workload(find_misspelt_resources),
    summary="A resource name that looks like a misspelt device plugin resource",
    why="No node offers it: the pods stay Pending (Insufficient).",
    fix="Correct the name",
    source="https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/",
)
