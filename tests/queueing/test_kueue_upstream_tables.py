"""Compare one admission cycle with the tables of Kueue's own scheduler tests, by name.

Upstream: TestSchedule and TestScheduleForFairSharing in pkg/scheduler. See golden/README.md for the cases left out.
"""

from __future__ import annotations

import pytest
from golden_cases import Json, table

import kschedctl

CASES = table("kueueschedule")
NOW = "2026-03-01T00:00:00Z"


@pytest.mark.parametrize("case", CASES, ids=[f"{case['test']}: {case['name']}" for case in CASES])
def test_a_cycle_has_the_outcome_of_upstreams_table(case: Json) -> None:
    cluster = kschedctl.Cluster.from_objects(case["objects"])
    answer = kschedctl.kueue_admission(cluster, 1, NOW, case["configuration"]).to_dict()
    # Without heads there is no cycle, and nothing changes after the start.
    cycle = answer["cycles"][0] if answer["cycles"] else {**answer["final"], "workloads": {}}
    states = {**answer["start"]["workloads"], **cycle["workloads"]}

    want = case["want"]
    assert cycle["heap"] == want["left"]
    assert cycle["inadmissible"] == want["inadmissibleLeft"]
    for key, workload in want["workloads"].items():
        state = states[key]
        conditions = {
            kind: [condition["status"], condition["reason"], condition["message"]]
            for kind, condition in state["conditions"].items()
            if not (kind == "Admitted" and was_admitted(case, key))
        }
        assert conditions == workload["conditions"], key
        assert select_assignment(state.get("admission")) == workload["admission"], key


def was_admitted(case: Json, key: str) -> bool:
    """Return whether a Workload has quota from the start, so that its controller, which the table lacks, admits it."""
    namespace, _, name = key.partition("/")
    return any(
        each["kind"] == "Workload"
        and (each["metadata"]["namespace"], each["metadata"]["name"]) == (namespace, name)
        and "admission" in each["status"]
        for each in case["objects"]
    )


def select_assignment(admission: Json | None) -> Json | None:
    """Return the ClusterQueue, and the flavors and counts of the pod sets."""
    if admission is None:
        return None
    pod_sets = [{name: pod_set[name] for name in ("name", "flavors", "count")} for pod_set in admission["podSets"]]
    return {"clusterQueue": admission["clusterQueue"], "podSets": pod_sets}
