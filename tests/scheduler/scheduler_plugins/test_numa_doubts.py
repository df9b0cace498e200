"""Check that unconditional answers of NodeResourceTopologyMatch do not depend on its cache.

From Filter and Score of pkg/noderesourcetopology in scheduler-plugins: pods that are not Guaranteed share cpu and
memory, so that a NUMA node only has to have some, and all nodes are as good for them; the others are scored by what is
left, for most strategies on nodes with the policy single-numa-node alone.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_node_resource_topology_match import GPU, build_node
from test_numa_cache import (
    CHANGED,
    OLDER,
    OVER_RESERVE,
    SHARED,
    THREE,
    build_pod,
    build_published_topology,
    explain_web,
    list_doubts,
)

Json = dict[str, Any]
DEVICE = {"cpu": "1", "memory": "1Gi", GPU: "1"}
WITH_DEVICES = {"cpu": "4", "memory": "8Gi", GPU: "2"}


def set_policy(topology: Json, policy: str) -> Json:
    first, *rest = topology["attributes"]
    return {**topology, "attributes": [{**first, "value": policy}, *rest]}


@pytest.mark.parametrize(
    ("requests", "limits", "about", "told"),
    [
        (THREE, None, "old", [(OLDER, "scores")]),
        (THREE, None, "gone", [(CHANGED, "verdict")]),
        (SHARED, {}, "old", []),
        (SHARED, {}, "gone", []),
        (DEVICE, {GPU: "1"}, "old", []),
        (DEVICE, {GPU: "1"}, "gone", [(CHANGED, "verdict")]),
    ],
)
def test_doubts_by_requests(requests: Json, limits: Json | None, about: str, told: Any) -> None:
    """Burstable pods share CPU and memory, but not devices."""
    topology = build_published_topology(about, numa=(WITH_DEVICES, WITH_DEVICES))
    assert (
        list_doubts(explain_web(topology, build_pod("old", THREE, "a"), build_pod("web", requests, limits=limits)))
        == told
    )


@pytest.mark.parametrize(
    ("strategy", "about", "told"),
    [
        ("LeastAllocated", "old", []),
        ("LeastAllocated", "gone", []),
        ("LeastNUMANodes", "old", [(OLDER, "scores")]),
        ("LeastNUMANodes", "gone", [(CHANGED, "scores")]),
    ],
)
def test_doubts_about_best_effort_nodes(strategy: str, about: str, told: Any) -> None:
    """Such nodes reject no pod, and only LeastNUMANodes scores them."""
    topology = set_policy(build_published_topology(about), "best-effort")
    args = {"scoringStrategy": {"type": strategy}, **OVER_RESERVE}
    assert list_doubts(explain_web(topology, build_pod("old", THREE, "a"), build_pod("web", THREE), **args)) == told


def test_doubts_about_nodes_with_foreign_pods() -> None:
    """The node rejects every pod until the topology with the foreign pods is published."""
    foreign = build_pod("old", THREE, "a", scheduler="another")
    assert list_doubts(explain_web(build_published_topology("gone"), foreign, build_pod("web", SHARED, limits={}))) == [
        (CHANGED, "verdict")
    ]


devices = st.sampled_from(("0", "2"))
numa = st.fixed_dictionaries({"cpu": st.integers(0, 5).map(str), "memory": st.just("4Gi"), GPU: devices})
requests = st.fixed_dictionaries(
    {"cpu": st.sampled_from(("500m", "1", "3")), "memory": st.just("1Gi")}, optional={GPU: st.just("1")}
)


@settings(max_examples=60, deadline=None)
@given(
    zones=st.lists(st.tuples(numa, st.integers(0, 5).map(str), devices), min_size=1, max_size=3),
    asked=requests,
    guaranteed=st.booleans(),
    about=st.sampled_from(("old", "gone")),
    aligned=st.tuples(
        st.sampled_from(("single-numa-node", "best-effort")),
        st.sampled_from(("container", "pod")),
        st.sampled_from(("LeastAllocated", "MostAllocated", "BalancedAllocation", "LeastNUMANodes")),
    ),
)
def test_certain_answers_do_not_depend_on_amounts(
    zones: list[tuple[Json, str, str]], asked: Json, guaranteed: bool, about: str, aligned: tuple[str, str, str]
) -> None:
    """NUMA nodes with other free amounts, as in an older topology, give the same answer.

    The exception is nodes whose topology is current, which are read again once they rejected a pod.
    """
    policy, scope, strategy = aligned
    now = [each for each, _, _ in zones]
    older = [{**each, "cpu": cpu, GPU: gpu} for each, cpu, gpu in zones]
    limits = {name: asked[name] for name in asked if guaranteed or name == GPU}
    objects = build_node("b"), build_pod("old", THREE, "a"), build_pod("web", asked, limits=limits)

    def answer(amounts: list[Json], period: int) -> Json:
        topology = set_policy(build_published_topology(about, numa=tuple(amounts), scope=scope), policy)
        return explain_web(topology, *objects, cacheResyncPeriodSeconds=period, scoringStrategy={"type": strategy})

    if list_doubts(answer(now, 5)) == []:
        one, other = answer(now, 0), answer(older, 0)
        assert about == "old" or one["filter"] == other["filter"]
        assert one["filter"] != other["filter"] or one["score"] == other["score"]
