"""Compare one admission cycle with the tables of Kueue's own scheduler tests, by name.

Upstream: TestSchedule, TestScheduleForFairSharing, TestScheduleForTAS, TestScheduleForTASPreemption and
TestScheduleForTASCohorts in pkg/scheduler. See golden/README.md for the cases left out.
"""

from __future__ import annotations

import pytest
from golden_cases import Json, read_table

import kschedctl

CASES = read_table("kueueschedule")
NOW = "2026-03-01T00:00:00Z"


@pytest.mark.parametrize("case", CASES, ids=[f"{case['test']}: {case['name']}" for case in CASES])
def test_cycle_has_the_outcome_of_upstreams_table(case: Json) -> None:
    cluster = kschedctl.Cluster.from_objects(case["objects"])
    answer = kschedctl.kueue_admission(cluster, 1, NOW, case["configuration"]).to_dict()
    # Without heads there is no cycle, and nothing changes after the start.
    cycle = answer["cycles"][0] if answer["cycles"] else {**answer["final"], "workloads": {}, "events": {}}
    states = {**answer["start"]["workloads"], **cycle["workloads"]}

    want = case["want"]
    assert cycle["heap"] == want["left"]
    assert cycle["inadmissible"] == want["inadmissibleLeft"]
    for key, workload in want["workloads"].items():
        if "conditions" in workload:
            assert select_conditions(case, key, states[key]) == workload["conditions"], key
        if "admission" in workload:
            assert select_assignment(states[key].get("admission")) == workload["admission"], key
    if "events" in want:
        events = {key: sorted(event["reason"] for event in recorded) for key, recorded in cycle["events"].items()}
        assert events == want["events"]


def select_conditions(case: Json, key: str, state: Json) -> Json:
    """Return the conditions of a Workload, without those of its controller, which upstream's tests do not run."""
    return {
        kind: [condition["status"], condition["reason"], condition["message"]]
        for kind, condition in state["conditions"].items()
        if not (kind == "Admitted" and has_quota_at_start(case, key))
    }


def has_quota_at_start(case: Json, key: str) -> bool:
    """Return whether a Workload has quota from the start, so that its controller admits it."""
    namespace, _, name = key.partition("/")
    return any(
        each["kind"] == "Workload"
        and (each["metadata"]["namespace"], each["metadata"]["name"]) == (namespace, name)
        and "admission" in each["status"]
        for each in case["objects"]
    )


def select_assignment(admission: Json | None) -> Json | None:
    """Return the ClusterQueue, and the flavors, counts and topology domains of the pod sets."""
    if admission is None:
        return None
    pod_sets = [
        {name: pod_set[name] for name in ("name", "flavors", "count", "topology") if name in pod_set}
        for pod_set in admission["podSets"]
    ]
    return {"clusterQueue": admission["clusterQueue"], "podSets": pod_sets}
