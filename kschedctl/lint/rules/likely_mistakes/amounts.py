"""Requests and limits that nobody can have meant: in another unit, of what is nearly a resource, or at the start."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.objects import Container, Resources
from kschedctl.api.pod_requests import quantities
from kschedctl.api.quantity import QuantityError, parse
from kschedctl.api.resource_names import CPU, EPHEMERAL_STORAGE, MEMORY
from kschedctl.lint import documentation as doc
from kschedctl.lint.near_names import one_meant
from kschedctl.lint.rule import WARNING, Rule
from kschedctl.lint.subject import Path, Problem
from kschedctl.lint.workload import Workload
from kschedctl.lint.world import World

IN_BYTES = (MEMORY, EPHEMERAL_STORAGE)
LEAST_BYTES = 64 << 10
"""Of which nothing runs."""
MANY_CPUS, LEAST_BYTES_PER_CPU = 50, 32 << 20
"""So many cores with so little memory each are none."""
_MOST = {CPU: parse("2000"), MEMORY: parse("48Ti")}
"""No machine has more."""
_TIMES, _CPUS_AT_START, _GIB_AT_START = 8, 8, 32
"""An init container decides alone where it asks for so many times what the pod does, and for so much."""
_RESOURCES = (
    *("nvidia.com/gpu", "amd.com/gpu", "intel.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe", "google.com/tpu"),
    *("aws.amazon.com/neuron", "aws.amazon.com/neuroncore", "aws.amazon.com/neurondevice", "vpc.amazonaws.com/efa"),
    *("habana.ai/gaudi", "rdma/hca", "vpc.amazonaws.com/pod-eni"),
    *("devices.kubevirt.io/kvm", "devices.kubevirt.io/tun", "devices.kubevirt.io/vhost-net", "smarter-devices/fuse"),
)
_WITHOUT_DOMAIN = {"nvidia/gpu": "nvidia.com/gpu", "amd/gpu": "amd.com/gpu", "intel/gpu": "intel.com/gpu"}


def absurd(world: World) -> Iterator[Problem]:
    for workload in world.workloads:
        for at, asked in _asked(workload):
            for name, text in asked.items():
                if said := _absurdity(name, text, asked):
                    yield workload.problem((*at, name), said)


def _asked(workload: Workload) -> Iterator[tuple[Path, Resources]]:
    """All that is requested, or a limit, with the field."""
    spec = workload.spec
    for field, containers in (("containers", spec.containers), ("initContainers", spec.init_containers)):
        for i, container in enumerate(containers):
            yield (field, i, "resources", "requests"), container.resources.requests
            yield (field, i, "resources", "limits"), container.resources.limits
    if spec.resources is not None:
        yield ("resources", "requests"), spec.resources.requests
        yield ("resources", "limits"), spec.resources.limits


def _absurdity(name: str, text: str | int | float, asked: Resources) -> str:
    """What of an amount, among the others beside it, nobody can have meant; "" of all others."""
    try:
        amount = quantities(asked)
    except QuantityError:
        return ""
    milli = amount[name].milli_value()
    if name in IN_BYTES and milli % 1000 and milli < LEAST_BYTES * 1000:
        return f'fractional byte value "{text}" is invalid, must be an integer'
    if name in IN_BYTES and 0 < milli < LEAST_BYTES * 1000:
        size = milli // 1000
        return f'"{text}" is {size:,} byte{"s" * (size != 1)}: a unit, as Mi, is missing'
    if name in _MOST and _MOST[name] < amount[name]:
        return f'"{text}": no node has as much'
    if name == CPU and milli >= MANY_CPUS * 1000:
        memory = amount[MEMORY].value() if MEMORY in amount else 0
        if memory < milli // 1000 * LEAST_BYTES_PER_CPU:
            missing = "hardly any node has as many" if str(text).endswith("m") else "an m, for thousandths, is missing"
            return f'"{text}" is {milli // 1000:,} cores: {missing}'
    return ""


def decided_by_init(world: World) -> Iterator[Problem]:
    for workload in world.workloads:
        spec = workload.spec
        beside = [c for c in spec.init_containers if c.restart_policy == "Always"]
        for i, container in enumerate(spec.init_containers if spec.resources is None else ()):
            if container.restart_policy == "Always":
                continue
            for name, least, unit in ((CPU, _CPUS_AT_START, "cores"), (MEMORY, _GIB_AT_START << 30, "GiB")):
                asked, running = _request(container, name), sum(_request(c, name) for c in (*spec.containers, *beside))
                if asked >= least * 1000 and asked >= running * _TIMES and not _is_absurd(container, name):
                    part = "requests" if name in container.resources.requests else "limits"
                    one = 1000 if name == CPU else 1000 << 30
                    later = f"{running / one:,.3g} {unit}" if running else "none"
                    message = f"it asks for {asked / one:,.3g} {unit}, all that runs later for {later}"
                    yield workload.problem(("initContainers", i, "resources", part, name), message)


def _is_absurd(container: Container, name: str) -> bool:
    """Whether another rule says more of the amount."""
    asked = {**container.resources.limits, **container.resources.requests}
    return bool(_absurdity(name, asked[name], asked))


def _request(container: Container, name: str) -> int:
    """In thousandths; a limit without a request is one."""
    asked = {**container.resources.limits, **container.resources.requests}
    try:
        return quantities({name: asked[name]})[name].milli_value() if name in asked else 0
    except QuantityError:
        return 0


def misspelt(world: World) -> Iterator[Problem]:
    for workload in world.workloads:
        for at, asked in _asked(workload):
            for name in asked:
                known = name in _RESOURCES or "/" not in name
                meant = "" if known else _WITHOUT_DOMAIN.get(name) or one_meant(name, _RESOURCES)
                if meant:
                    yield workload.problem((*at, name), f"no node offers {name}", f"Write {meant}")


RULES = (
    Rule(
        "rq-absurd",
        WARNING,
        absurd,
        summary="An amount in a unit that nobody can have meant",
        why="512m of memory is half a byte, and 512 are bytes: the scheduler counts them as nothing, and a limit of "
        "that size lets nothing start. 500 of cpu are cores, which no node has.",
        fix="Write Mi or Gi for memory, m for thousandths of a core",
        source=f"{doc.REQUESTS}; pkg/api/pod/warnings.go (v1.36)",
    ),
    Rule(
        "rq-decided-by-init",
        WARNING,
        decided_by_init,
        summary="An init container that asks for many times what the pod needs afterwards",
        why="The scheduler reserves the larger of the two for the whole life of the pod: most of it lies idle, and few "
        "nodes, or none, have the room.",
        fix="Lower the request of the init container, or do its work in a Job",
        source="https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#resource-sharing-within-containers",
    ),
    Rule(
        "rq-misspelt",
        WARNING,
        misspelt,
        summary="A resource that is nearly the one that a well-known device plugin offers",
        why="No node offers it: the pods stay Pending, as Insufficient.",
        fix="Correct the name",
        source="https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/",
    ),
)
