"""Rules about requests and limits that are missing, absurd or of unknown resources."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from kschedctl.api.field_errors import Key
from kschedctl.api.objects import Container, Resources
from kschedctl.api.pod_requests import parse_quantities
from kschedctl.api.quantity import QuantityError, parse_quantity
from kschedctl.api.resource_names import CPU, EPHEMERAL_STORAGE, MEMORY
from kschedctl.api.validation.resources import validate_container_resource_name
from kschedctl.lint import documentation as doc
from kschedctl.lint.analysis.near_names import find_similar_name
from kschedctl.lint.objects.subject import Problem
from kschedctl.lint.objects.workload import Workload, iter_requests_and_limits
from kschedctl.lint.rule import ERROR, NOTE, WARNING, Rule, RuleProfile, for_each_workload
from kschedctl.text.counts import counted

REQUIRED_RESOURCES = (CPU, MEMORY)
_WHY_REQUESTS = (
    "The scheduler assumes that the container needs nothing, and fills nodes until pods are throttled, killed or "
    "evicted."
)
_FINITE_KIND_WORDS = ("Job", "Workflow", "Training", "Analysis", "Experiment")
"""Words in the names of kinds whose pods run to completion."""
_DEFAULTING_GROUP = ".k8s.elastic.co"
"""API group whose operators add requests to containers that have none."""


def find_missing_requests(workload: Workload) -> Iterator[Problem]:
    """Find containers of long-running workloads without a cpu or memory request."""
    if not _runs_to_completion(workload):
        yield from _find_containers_without_requests(workload)


RQ_MISSING = Rule(
    "rq-missing",
    WARNING,
    for_each_workload(find_missing_requests),
    summary="Container or sidecar without cpu or memory requests",
    why=_WHY_REQUESTS,
    fix="Set resources.requests for cpu and memory",
    source=doc.REQUESTS,
    once_per_object=True,
)


def find_missing_requests_of_jobs(workload: Workload) -> Iterator[Problem]:
    """Find containers of Jobs and pods without a controller that lack a cpu or memory request."""
    if _runs_to_completion(workload):
        yield from _find_containers_without_requests(workload)


RQ_MISSING_IN_JOBS = Rule(
    "rq-missing-in-jobs",
    NOTE,
    for_each_workload(find_missing_requests_of_jobs),
    summary="No cpu or memory request in a container of a Job or of a pod without a controller",
    why=_WHY_REQUESTS,
    fix="Set resources.requests for cpu and memory",
    source=doc.REQUESTS,
    once_per_namespace=True,
    profile=RuleProfile.STRICT,
)


def _runs_to_completion(workload: Workload) -> bool:
    """Return whether the workload's pods run to completion once or have no controller. A CronJob's pods run again."""
    kind = workload.subject.kind
    is_job = any(word in kind for word in _FINITE_KIND_WORDS) and kind != "CronJob"
    return is_job or kind in ("Pod", "PodTemplate")


def _find_containers_without_requests(workload: Workload) -> Iterator[Problem]:
    """Yield a problem for each container or sidecar without a request or limit for cpu or memory.

    A limit counts because it is the default of the request, and requests of the whole pod count for each container.
    Init containers and containers that an operator completes are left out.
    """
    if workload.kind.endswith(_DEFAULTING_GROUP):
        return
    pod_resources = workload.spec.resources
    pod_resource_names = {*pod_resources.requests, *pod_resources.limits} if pod_resources else set()
    for path, container in workload.containers:
        if "initContainers" in path and container.restart_policy != "Always":
            continue  # only sidecars run as long as the pod does
        if workload.custom_kind and not container.image:
            continue  # an operator completes the container
        names = pod_resource_names | {*container.resources.requests, *container.resources.limits}
        missing_resources = [name for name in REQUIRED_RESOURCES if name not in names]
        if missing_resources:
            message = f"container {container.name} requests no {' and no '.join(missing_resources)}"
            yield workload.build_problem(path, message)


def find_invalid_resource_names(workload: Workload) -> Iterator[Problem]:
    """Find resource names in a workload's containers that the API server rejects, each with its first error."""
    for container_path, container in workload.containers:
        for part in ("requests", "limits"):
            for name in getattr(container.resources, part):
                path = workload.get_path(*container_path, "resources", part, Key(name))
                yield from workload.to_problems(islice(validate_container_resource_name(name, path), 1))


RQ_UNKNOWN_RESOURCE = Rule(
    "rq-unknown-resource",
    ERROR,
    for_each_workload(find_invalid_resource_names),
    summary="Request for a resource name that containers may not use",
    why="The API server rejects the pods; the scheduler would ignore the request.",
    fix="Write the full resource name, such as nvidia.com/gpu",
    source=f"{doc.REQUESTS}; {doc.VALIDATION}",
)


def find_missing_disk_requests(workload: Workload) -> Iterator[Problem]:
    """Report a workload that has an emptyDir on disk but no request or limit for ephemeral-storage."""
    resources = [container.resources for container in workload.spec.containers]
    has_request = any(EPHEMERAL_STORAGE in (*resource.requests, *resource.limits) for resource in resources)
    if workload.disk_volumes and not has_request:
        index, name = next(iter(workload.disk_volumes.items()))
        message = f"emptyDir {name} is on the node's disk, but no container requests ephemeral-storage"
        yield workload.build_problem(("volumes", index), message)


RQ_EPHEMERAL_MISSING = Rule(
    "rq-ephemeral-missing",
    NOTE,
    for_each_workload(find_missing_disk_requests),
    summary="emptyDir without a request for ephemeral-storage",
    why="The disk space is not reserved: if the node runs out of disk space, the kubelet evicts pods.",
    fix="Set resources.requests for ephemeral-storage",
    source=f"{doc.REQUESTS}#local-ephemeral-storage",
    profile=RuleProfile.STRICT,
    once_per_namespace=True,
)


BYTE_RESOURCES = (MEMORY, EPHEMERAL_STORAGE)
MIN_BYTES = 64 << 10
"""An amount of memory that is too small for any process."""
MANY_CPUS, MIN_BYTES_PER_CPU = 50, 32 << 20
"""From this number of cores on, less memory per core shows that the unit of the cores is wrong."""
_MAX_AMOUNTS = {CPU: parse_quantity("2000"), MEMORY: parse_quantity("48Ti")}
"""Resource -> more than any machine has."""
_MIN_RATIO = 8
"""An init container is reported only if it requests at least this many times what later containers request."""
_MIN_INIT_AMOUNTS = ((CPU, 8, "cores", 1000), (MEMORY, 32, "GiB", 1000 << 30))
"""Resource, the smallest request for which an init container is reported, its unit, and thousandths per unit."""
_DEVICE_RESOURCES = (
    *("nvidia.com/gpu", "amd.com/gpu", "intel.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe", "google.com/tpu"),
    *("aws.amazon.com/neuron", "aws.amazon.com/neuroncore", "aws.amazon.com/neurondevice", "vpc.amazonaws.com/efa"),
    *("habana.ai/gaudi", "rdma/hca", "vpc.amazonaws.com/pod-eni"),
    *("devices.kubevirt.io/kvm", "devices.kubevirt.io/tun", "devices.kubevirt.io/vhost-net", "smarter-devices/fuse"),
)
_WITHOUT_DOMAIN = {"nvidia/gpu": "nvidia.com/gpu", "amd/gpu": "amd.com/gpu", "intel/gpu": "intel.com/gpu"}


def find_amounts_with_wrong_unit(workload: Workload) -> Iterator[Problem]:
    """Find requests and limits whose unit is probably wrong or missing, judged by the amount."""
    for path, amounts in iter_requests_and_limits(workload):
        for name, text in amounts.items():
            fault = _describe_wrong_unit(name, text, amounts)
            if fault:
                yield workload.build_problem((*path, name), fault, _suggest_amount_with_unit(name, text))


RQ_ABSURD = Rule(
    "rq-absurd",
    WARNING,
    for_each_workload(find_amounts_with_wrong_unit),
    summary="A quantity with a unit that looks wrong",
    why="512m of memory is half a byte, and 512 is 512 bytes: next to nothing for the scheduler, and too small a limit "
    "for any container to start. cpu: 500 means 500 cores, which no node has.",
    fix="Write Mi or Gi for memory, and m for thousandths of a core",
    source=f"{doc.REQUESTS}; pkg/api/pod/warnings.go (v1.36)",
)


def _describe_wrong_unit(name: str, text: str | int | float, amounts: Resources) -> str:
    """Describe why the unit of the amount ``text`` looks wrong, or return "" if the amount is plausible.

    ``name`` is the resource. ``amounts`` are all requests or limits of the container: many cores are plausible together
    with much memory. Returns "" as well if one of these amounts is invalid.
    """
    try:
        quantities = parse_quantities(amounts)
    except QuantityError:
        return ""
    units, thousandths = divmod(quantities[name].milli_value(), 1000)
    if name in BYTE_RESOURCES and units < MIN_BYTES:
        if thousandths:
            return f'fractional byte value "{text}" is invalid, must be an integer'
        if units > 0:
            return f'"{text}" is {counted(units, "byte")}: a unit such as Mi is missing'
    if name in _MAX_AMOUNTS and _MAX_AMOUNTS[name] < quantities[name]:
        return f'"{text}" is more than any node has'
    memory = quantities[MEMORY].value() if MEMORY in quantities else 0
    if name == CPU and units >= MANY_CPUS and memory < units * MIN_BYTES_PER_CPU:
        is_in_milli = str(text).endswith("m")
        hint = "hardly any node has that many" if is_in_milli else "the unit m (thousandths) is missing"
        return f'"{text}" is {units:,} cores: {hint}'
    return ""


def _suggest_amount_with_unit(name: str, text: str | int | float) -> str:
    """Suggest the amount with the unit that was probably intended, or return "" if there is no usual one.

    >>> _suggest_amount_with_unit("memory", "512m"), _suggest_amount_with_unit("cpu", 500)
    ('Did you mean 512Mi?', 'Did you mean 500m?')
    """
    number = re.fullmatch(r"(\d+)(m?)", str(text))
    if number is None or name not in (CPU, *BYTE_RESOURCES):
        return ""
    is_in_millicores = name == CPU and bool(number[2])
    if is_in_millicores:
        return ""
    unit = "m" if name == CPU else "Mi"
    return f"Did you mean {number[1]}{unit}?"


def find_oversized_init_containers(workload: Workload) -> Iterator[Problem]:
    """Find init containers with a large request that is many times the total request of all later containers.

    Amounts that look like a wrong unit are left out, and so are pods with resources at pod level.
    """
    spec = workload.spec
    if spec.resources is not None:
        return
    sidecars = [container for container in spec.init_containers if container.restart_policy == "Always"]
    later_containers = [*spec.containers, *sidecars]
    for index, container in enumerate(spec.init_containers):
        if container.restart_policy == "Always":
            continue
        for name, minimum, unit, thousandths_per_unit in _MIN_INIT_AMOUNTS:
            request = _get_request_in_thousandths(container, name)
            later_requests = sum(_get_request_in_thousandths(later, name) for later in later_containers)
            if request < minimum * thousandths_per_unit or request < later_requests * _MIN_RATIO:
                continue
            amounts = {**container.resources.limits, **container.resources.requests}
            if _describe_wrong_unit(name, amounts[name], amounts):
                continue  # rq-absurd reports it
            requested = f"{request / thousandths_per_unit:,.3g} {unit}"
            later_text = f"only {later_requests / thousandths_per_unit:,.3g}" if later_requests else "none"
            message = f"it requests {requested}, but all containers that run later request {later_text}"
            part = "requests" if name in container.resources.requests else "limits"
            yield workload.build_problem(("initContainers", index, "resources", part, name), message)


RQ_DECIDED_BY_INIT = Rule(
    "rq-decided-by-init",
    WARNING,
    for_each_workload(find_oversized_init_containers),
    summary="An init container that requests many times what the pod needs afterwards",
    why="The scheduler reserves the larger of the two amounts for the whole life of the pod. Most of it stays idle, "
    "and few nodes or none have room for it.",
    fix="Lower the request of the init container, or do its work in a Job",
    source="https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#resource-sharing-within-containers",
)


def _get_request_in_thousandths(container: Container, name: str) -> int:
    """Return a container's request, or else its limit, in thousandths. Return 0 if it is missing or invalid."""
    amounts = {**container.resources.limits, **container.resources.requests}
    if name not in amounts:
        return 0
    try:
        return parse_quantities({name: amounts[name]})[name].milli_value()
    except QuantityError:
        return 0


def find_misspelled_extended_resources(workload: Workload) -> Iterator[Problem]:
    """Find extended resource names that look like a misspelling of a device plugin's resource.

    A domain without its ending, as in `nvidia/gpu`, also counts as a misspelling.
    """
    for path, amounts in iter_requests_and_limits(workload):
        for name in amounts:
            if name in _DEVICE_RESOURCES or "/" not in name:
                continue
            similar_name = _WITHOUT_DOMAIN.get(name) or find_similar_name(name, _DEVICE_RESOURCES)
            if similar_name:
                yield workload.build_problem((*path, name), f"no node offers {name}", f"Write {similar_name}")


RQ_MISSPELT = Rule(
    "rq-misspelt",
    WARNING,
    for_each_workload(find_misspelled_extended_resources),
    summary="A resource name that looks like a misspelled device plugin resource",
    why="No node offers the resource, so the pods stay Pending (Insufficient RESOURCE).",
    fix="Correct the resource name",
    source="https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/",
)
