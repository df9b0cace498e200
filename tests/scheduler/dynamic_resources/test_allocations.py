"""Compare allocations on each node with kube-scheduler's in the golden cases."""

from __future__ import annotations

import json
from functools import cache

import msgspec
import pytest
from golden_cases import SETTINGS, iter_family_lines, read_table

import kschedctl
from kschedctl.commands.explain.one_pod import resolve_pod
from kschedctl.scheduler.scheduler import Scheduler

CASES = read_table("allocations")


@cache
def read_documents(family):
    wanted = {case["id"] for case in CASES if case["family"] == family}
    return {found["id"]: found for found in map(json.loads, iter_family_lines(family)) if found["id"] in wanted}


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_allocations(case):
    document = read_documents(case["family"])[case["id"]]
    settings = {key: document[source] for key, source in SETTINGS.items() if source in document}
    scheduler = Scheduler(kschedctl.Cluster.from_objects(document["objects"], **settings))
    pod = resolve_pod(scheduler, document["pod"])
    framework = scheduler.find_framework(pod.spec.scheduler_name)
    cycle, plugin = scheduler.run_cycle(framework, pod), framework.plugins["DynamicResources"]
    state = cycle.pre_filter.results["DynamicResources"].state
    rows = cycle.view.nodes.index
    found = {
        node: list_claim_allocations(plugin.reservation(cycle.info, cycle.view, rows[node], state).allocations)
        for node in case["want"]
    }
    assert found == {node: list(map(add_devices, claims)) for node, claims in case["want"].items()}


def list_claim_allocations(allocations):
    """Return the allocations as the status of the claims shows them, in the order of the claims."""
    return msgspec.json.decode(msgspec.json.encode(list(allocations.values())))


def add_devices(allocation):
    return {**allocation, "devices": allocation.get("devices", {})}
