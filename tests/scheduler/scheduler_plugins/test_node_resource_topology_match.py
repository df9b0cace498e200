"""Check NodeResourceTopologyMatch of scheduler-plugins against a loop over NUMA nodes, and by hand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kschedctl.cluster import Cluster
from kschedctl.commands.explain.one_pod import explain
from kschedctl.errors import ConfigurationError, InputError

Json = dict[str, Any]
NAME = "NodeResourceTopologyMatch"
CPU, GPU = "cpu", "example.com/gpu"


def build_topology(node: str, *numa: Json, policy: str = "single-numa-node", scope: str = "container") -> Json:
    attributes = [{"name": "topologyManagerPolicy", "value": policy}, {"name": "topologyManagerScope", "value": scope}]
    zones = [
        {"name": f"node-{i}", "type": "Node", "resources": [{"name": n, "available": a} for n, a in each.items()]}
        for i, each in enumerate(numa)
    ]
    return {"kind": "NodeResourceTopology", "metadata": {"name": node}, "zones": zones, "attributes": attributes}


def build_node(name: str) -> Json:
    allocatable = {"cpu": "64", "memory": "64Gi", "pods": "50", GPU: "8"}
    return {"kind": "Node", "metadata": {"name": name}, "status": {"allocatable": allocatable}}


def build_container(requests: Json, limits: Json | None = None) -> Json:
    return {
        "name": "c",
        "image": "c",
        "resources": {"requests": requests, "limits": requests if limits is None else limits},
    }


def build_pod(*containers: Json, init: tuple[Json, ...] = ()) -> Json:
    spec = {"containers": list(containers), "initContainers": list(init)}
    return {"kind": "Pod", "metadata": {"name": "web"}, "spec": spec}


def explain_web(*objects: Json, **args: Any) -> Json:
    profile = {
        "plugins": {
            "multiPoint": {"enabled": [{"name": NAME}]},
            "score": {"enabled": [{"name": NAME}], "disabled": [{"name": "*"}]},
        },
        "pluginConfig": [{"name": NAME, "args": args}] if args else [],
    }
    config = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    cluster = Cluster.from_objects(objects, config={**config, "profiles": [profile]}, other_builds=True)
    found: Json = explain(cluster, "default/web").to_dict()
    return found


def find_rejection(*objects: Json) -> str:
    found = explain_web(build_node("a"), *objects)["filter"].get("a", {}).get(NAME)
    return "" if found is None else f"{found['code']}: {', '.join(found['reasons'])}"


BIG = {"cpu": "6", "memory": "2Gi"}
HALF = {"cpu": "4", "memory": "4Gi"}


def test_container_needs_one_numa_node() -> None:
    assert (
        find_rejection(build_topology("a", HALF, HALF), build_pod(build_container(BIG)))
        == "Unschedulable: cannot align container"
    )
    assert find_rejection(build_topology("a", HALF, BIG), build_pod(build_container(BIG))) == ""


def test_containers_take_from_the_first_that_fits() -> None:
    three = build_container({"cpu": "3", "memory": "1Gi"})
    assert find_rejection(build_topology("a", HALF, HALF), build_pod(three, three)) == ""
    assert (
        find_rejection(build_topology("a", HALF, HALF), build_pod(three, three, three))
        == "Unschedulable: cannot align container"
    )


def test_init_containers_run_one_by_one() -> None:
    three = build_container({"cpu": "3", "memory": "1Gi"})
    init = tuple({**three, "name": f"i{i}"} for i in range(3))
    assert find_rejection(build_topology("a", HALF), build_pod(three, init=init)) == ""
    sidecar = {**build_container(BIG), "name": "s", "restartPolicy": "Always"}
    assert (
        find_rejection(build_topology("a", HALF), build_pod(three, init=(sidecar,)))
        == "Unschedulable: cannot align sidecar container"
    )
    first = {**build_container(BIG), "name": "s"}
    assert (
        find_rejection(build_topology("a", HALF), build_pod(three, init=(first,)))
        == "Unschedulable: cannot align init container"
    )


def test_pod_scope_adds_up_containers() -> None:
    three = build_container({"cpu": "3", "memory": "1Gi"})
    assert (
        find_rejection(build_topology("a", HALF, HALF, scope="pod"), build_pod(three, three))
        == "Unschedulable: cannot align pod"
    )
    assert find_rejection(build_topology("a", HALF, BIG, scope="pod"), build_pod(three, three)) == ""


@pytest.mark.parametrize("policy", ["none", "best-effort", "restricted", "unheard-of"])
def test_other_policies_reject_nothing(policy: str) -> None:
    assert find_rejection(build_topology("a", HALF, policy=policy), build_pod(build_container(BIG))) == ""


def test_legacy_policies_count_without_attributes() -> None:
    former = {**build_topology("a", HALF), "attributes": [], "topologyPolicies": ["SingleNUMANodePodLevel"]}
    assert find_rejection(former, build_pod(build_container(BIG))) == "Unschedulable: cannot align pod"


def test_cpu_of_pods_that_are_not_guaranteed_is_shared() -> None:
    assert find_rejection(build_topology("a", HALF), build_pod(build_container(BIG, {}))) == ""
    gpus = {**BIG, GPU: "2"}
    found = find_rejection(build_topology("a", {**HALF, GPU: "1"}), build_pod(build_container(gpus, {GPU: "2"})))
    assert found == "Unschedulable: cannot align container"


def test_devices_may_be_outside_numa_nodes_but_cpu_may_not() -> None:
    assert (
        find_rejection(build_topology("a", HALF), build_pod(build_container({"cpu": "1", "memory": "1Gi", GPU: "1"})))
        == ""
    )
    assert (
        find_rejection(
            build_topology("a", {"memory": "4Gi"}), build_pod(build_container({"cpu": "1", "memory": "1Gi"}))
        )
        != ""
    )


def test_nodes_without_a_topology_pass() -> None:
    assert find_rejection(build_pod(build_container(BIG))) == ""


def test_scores_by_hand() -> None:
    """a: (4 - 1) of 4 CPUs and (4 - 1) of 4 Gi give 75. b: the lower of 75 and 50, as 2 of 4 are left. c has none."""
    one = build_container({"cpu": "1", "memory": "1Gi"})
    topologies = build_topology("a", HALF), build_topology("b", HALF, {"cpu": "2", "memory": "2Gi"})
    nodes = [build_node(name) for name in "abc"]
    assert explain_web(*nodes, *topologies, build_pod(one))["score"][NAME] == {"a": 75, "b": 50, "c": 0}
    most = explain_web(*nodes, *topologies, build_pod(one), scoringStrategy={"type": "MostAllocated"})
    assert most["score"][NAME] == {"a": 25, "b": 25, "c": 0}


def test_pods_that_are_not_guaranteed_get_equal_scores() -> None:
    nodes = build_node("a"), build_node("b"), build_topology("a", HALF)
    assert explain_web(*nodes, build_pod(build_container(BIG, {})))["score"][NAME] == {"a": 100, "b": 100}


def test_bad_input() -> None:
    with pytest.raises(ConfigurationError, match="invalid ScoringStrategyType"):
        explain_web(build_node("a"), build_pod(build_container(BIG)), scoringStrategy={"type": "Most"})
    with pytest.raises(InputError) as error:
        explain_web(build_node("a"), build_topology("a", {"cpu": "many"}), build_pod(build_container(BIG)))
    assert error.value.where == "NodeResourceTopology a, zone node-0"


# -- against the rule, NUMA node by NUMA node ------------------------------------------------------------------------


def fits_naively(numa: list[dict[str, int]], containers: list[dict[str, int]], guaranteed: bool) -> bool:
    """Return whether all containers find a NUMA node, one after the other."""
    left = [dict(each) for each in numa]
    for asked in containers:
        chosen = -1
        for number, has in enumerate(left):
            fits = True
            for name, amount in asked.items():
                if not amount or (name == GPU and not any(GPU in each for each in left)):
                    continue
                fits &= name in has and (has[name] >= amount or (name == CPU and not guaranteed))
            if fits:
                chosen = number
                break
        if chosen < 0:
            return False
        for name, amount in asked.items():
            if name in left[chosen] and (guaranteed or name != CPU):
                left[chosen][name] -= amount
    return True


AMOUNTS = st.dictionaries(st.sampled_from([CPU, GPU]), st.integers(0, 4), max_size=2)


@settings(max_examples=60)
@given(st.lists(AMOUNTS, min_size=1, max_size=3), st.lists(AMOUNTS, min_size=1, max_size=3), st.booleans())
def test_filter_agrees_with_a_loop(numa: list[dict[str, int]], asked: list[dict[str, int]], guaranteed: bool) -> None:
    containers = [{CPU: 1, **each} for each in asked]
    memory = {"memory": "1Mi"}
    written = [
        build_container(
            {name: str(amount) for name, amount in each.items()} | memory,
            None if guaranteed else {name: str(amount) for name, amount in each.items() if name == GPU},
        )
        for each in containers
    ]
    zones = [{name: str(amount) for name, amount in each.items()} | {"memory": "1Gi"} for each in numa]
    positive = all(each[CPU] > 0 for each in containers)
    wanted = fits_naively(numa, containers, guaranteed and positive)
    assert (find_rejection(build_topology("a", *zones), build_pod(*written)) == "") == wanted
