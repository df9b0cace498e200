"""Measure the allocation of devices for one pod, by the numbers of nodes, devices and distinct devices.

    python tests/benchmarks/bench_devices.py

Each node has one ResourceSlice of its own; the pod's claim asks for two devices by a CEL selector, on one NUMA node by
a matchAttribute constraint. ``spread`` is how many models of device there are; every third device is allocated.
``first`` includes the reading of the slices, ``next`` is a further pod of the same snapshot.
"""

from __future__ import annotations

import time

from peak_memory import print_peak_memory

from kschedctl.cluster import Cluster
from kschedctl.scheduler.plugins.dynamic_resources.inventory import get_inventory
from kschedctl.scheduler.plugins.dynamic_resources.plugin import DynamicResources, DynamicResourcesArgs
from kschedctl.scheduler.plugins.helper.device_features import Features
from kschedctl.snapshot.delta import NO_CHANGE
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

DRIVER = "gpu.example.com"
SELECTOR = (
    f'device.attributes["{DRIVER}"].model.startsWith("M") && '
    f'device.capacity["{DRIVER}"].memory.compareTo(quantity("40Gi")) >= 0'
)
SIZES = [
    (500, 8, 4),
    (1000, 8, 4),
    (2000, 8, 4),
    (4000, 8, 4),
    (2000, 2, 4),
    (2000, 32, 4),
    (2000, 8, 1000),
    (2000, 8, 16000),
]


def main() -> None:
    """Print the time of PreFilter and Filter per number of nodes and devices."""
    print(f"{'nodes':>6} {'per node':>8} {'distinct':>8} {'feasible':>8} {'first s':>8} {'next s':>8}")
    for nodes, devices, spread in SIZES:
        view = Fork.from_cluster(Cluster.from_objects(list(iter_documents(nodes, devices, spread))))
        plugin, took = DynamicResources(DynamicResourcesArgs(), Features()), []
        for position in (0, 1):
            started = time.perf_counter()
            info = PodInfo(view.pods.objects[position], view.settings.requests)
            state = plugin.pre_filter(info, view).state
            feasible = nodes - sum(int(r.mask.sum()) for r in plugin.filter(info, view, state, NO_CHANGE))
            took.append(time.perf_counter() - started)
        distinct = len({device.kind for piece in get_inventory(view, Features()).slices for device in piece.devices})
        print(f"{nodes:6} {devices:8} {distinct:8} {feasible:8} {took[0]:8.3f} {took[1]:8.3f}")


def iter_documents(nodes: int, devices: int, spread: int):
    """Yield the nodes with their devices, claims that use some of them, and two pods that want one."""
    yield {
        "kind": "DeviceClass",
        "metadata": {"name": "gpu"},
        "spec": {"selectors": [build_cel_selector(f'device.driver == "{DRIVER}"')]},
    }
    for n in range(nodes):
        name = f"node-{n:05}"
        yield {"kind": "Node", "metadata": {"name": name}}
        yield {
            "kind": "ResourceSlice",
            "metadata": {"name": f"slice-{n:05}"},
            "spec": {
                "driver": DRIVER,
                "nodeName": name,
                "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
                "devices": [build_device(n * devices + d, d, spread) for d in range(devices)],
            },
        }
        results = [
            {"driver": DRIVER, "pool": name, "device": f"gpu-{d}", "request": "r"} for d in range(n % 3, devices, 3)
        ]
        yield build_claim(f"used-{n:05}", {"allocation": {"devices": {"results": results}}})
    for p in (0, 1):
        yield build_claim(f"claim-{p}", {})
        spec = {"resourceClaims": [{"name": "gpus", "resourceClaimName": f"claim-{p}"}]}
        yield {"kind": "Pod", "metadata": {"name": f"pod-{p}", "uid": f"pod-{p}"}, "spec": spec}


def build_device(number: int, position: int, spread: int):
    """Build a device of one of the distinct kinds."""
    attributes = {"model": {"string": f"M{number % spread}"}, "numa": {"int": position % 2}}
    return {"name": f"gpu-{position}", "attributes": attributes, "capacity": {"memory": {"value": "80Gi"}}}


def build_claim(name: str, status):
    """Build a ResourceClaim with a status."""
    request = {
        "name": "r",
        "exactly": {"deviceClassName": "gpu", "count": 2, "selectors": [build_cel_selector(SELECTOR)]},
    }
    devices = {"requests": [request], "constraints": [{"matchAttribute": f"{DRIVER}/numa"}]}
    return {"kind": "ResourceClaim", "metadata": {"name": name}, "spec": {"devices": devices}, "status": status}


def build_cel_selector(expression: str):
    """Build a selector with a CEL expression."""
    return {"cel": {"expression": expression}}


if __name__ == "__main__":
    main()
    print_peak_memory()
