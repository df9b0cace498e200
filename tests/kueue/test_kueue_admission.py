"""Compare admission with the real Kueue, and check properties that every admission must have."""

from __future__ import annotations

import copy
import random
from collections import defaultdict

import pytest
from kueue_cases import FAMILIES, Json, drop_path, iter_cases, normalize

import kschedctl
from kschedctl.errors import InputError
from kschedctl.kueue.replay import kueue_admission


def _answer(case: Json, release: str = "0.20", objects: list[Json] | None = None) -> Json:
    """Replay a case."""
    cluster = kschedctl.Cluster.from_objects(copy.deepcopy(case["objects"] if objects is None else objects))
    configuration = case.get("configuration") or {}
    return kueue_admission(cluster, case["cycles"], case["now"], configuration, release=release).to_dict()


@pytest.mark.parametrize("release", ["0.19", "0.20"])
@pytest.mark.parametrize("family", FAMILIES)
def test_cycles_equal_those_of_the_real_kueue(family: str, release: str) -> None:
    count = 0
    for case in iter_cases(family):
        if select_wanted(case, release) is not None:
            assert not find_differing_parts(case, release), case["case"]["id"]
            count += 1
    assert count >= 40


def select_wanted(case: Json, release: str) -> Json | None:
    """Return what a release of Kueue answered, or None if the case was not computed with it."""
    return case.get("want0192", case["want"]) if release == "0.19" else case["want"]


def find_differing_parts(case: Json, release: str) -> Json:
    """Return our value and Kueue's of each part of the answer in which they differ."""
    wanted = copy.deepcopy(select_wanted(case, release))
    got = _answer(case["case"], release)
    for path in sorted(case.get("varies") or (), key=len, reverse=True):
        drop_path(got, path)
        drop_path(wanted, path)
    got, wanted = normalize(got), normalize(wanted)
    for cycle in (*got.get("cycles", ()), *wanted.get("cycles", ())):
        cycle.pop("cycle", None)
    return {key: (got.get(key), wanted.get(key)) for key in wanted | got if got.get(key) != wanted.get(key)}


@pytest.mark.parametrize("family", ["cohorts", "preemption", "tas"])
def test_order_of_the_objects_does_not_matter(family: str) -> None:
    for case in list(iter_cases(family))[::4]:
        shuffled = list(case["case"]["objects"])
        random.Random(7).shuffle(shuffled)
        assert _answer(case["case"], objects=shuffled) == _answer(case["case"]), case["case"]["id"]


@pytest.mark.parametrize("family", ["cohorts", "fairsharing", "preemption"])
def test_reserved_quota_fits_the_quota_of_the_cohort_tree(family: str) -> None:
    trees = 0
    for case in iter_cases(family):
        objects = case["case"]["objects"]
        before = _sum_reserved(_answer(case["case"])["start"]["workloads"], objects)
        after = _sum_reserved(_answer(case["case"])["final"]["workloads"], objects)
        quota = _sum_nominal(objects)
        for key, used in after.items():
            if used > before.get(key, 0):
                assert used <= quota[key], (case["case"]["id"], key)
                trees += 1
    assert trees > 10


def _find_roots(objects: list[Json]) -> dict[str, str]:
    """Return the root of each ClusterQueue's cohorts, or the queue itself."""
    parents = {o["metadata"]["name"]: o["spec"].get("parentName") for o in objects if o["kind"] == "Cohort"}
    roots = {}
    for queue in objects:
        if queue["kind"] == "ClusterQueue":
            name = queue["spec"].get("cohortName")
            for _ in parents:
                name = parents.get(name) or name
            roots[queue["metadata"]["name"]] = name or queue["metadata"]["name"]
    return roots


def _sum_nominal(objects: list[Json]) -> dict[tuple[str, str], float]:
    """Return the nominal cpu quota by tree and flavor."""
    roots = _find_roots(objects)
    total: dict[tuple[str, str], float] = defaultdict(float)
    for owner in objects:
        if owner["kind"] in ("ClusterQueue", "Cohort"):
            name = owner["metadata"]["name"]
            root = roots[name] if owner["kind"] == "ClusterQueue" else _find_cohort_root(name, objects)
            for group in owner["spec"].get("resourceGroups", ()):
                for flavor in group["flavors"]:
                    for resource in flavor["resources"]:
                        if resource["name"] == "cpu":
                            total[root, flavor["name"]] += _parse_cpu(resource["nominalQuota"])
    return total


def _find_cohort_root(name: str, objects: list[Json]) -> str:
    """Return the root of a cohort."""
    parents = {o["metadata"]["name"]: o["spec"].get("parentName") for o in objects if o["kind"] == "Cohort"}
    for _ in parents:
        name = parents.get(name) or name
    return name


def _sum_reserved(workloads: Json, objects: list[Json]) -> dict[tuple[str, str], float]:
    """Return the reserved cpu by tree and flavor."""
    roots = _find_roots(objects)
    total: dict[tuple[str, str], float] = defaultdict(float)
    for workload in workloads.values():
        reserved = workload["conditions"].get("QuotaReserved", {})
        if reserved.get("status") == "True":
            for pod_set in workload["admission"]["podSets"]:
                if "cpu" in pod_set["usage"]:
                    root = roots[workload["admission"]["clusterQueue"]]
                    total[root, pod_set["flavors"]["cpu"]] += _parse_cpu(pod_set["usage"]["cpu"])
    return total


def _parse_cpu(text: str) -> float:
    """Parse an amount of cpu."""
    return float(text[:-1]) / 1000 if text.endswith("m") else float(text)


def test_api_server_removes_the_admission_of_evicted_workloads() -> None:
    case = next(c for c in iter_cases("preemption") if '"Preempted"' in str(c["want"]).replace("'", '"'))["case"]
    cluster = kschedctl.Cluster.from_objects(case["objects"])
    report = kueue_admission(cluster, 6, case["now"], case.get("configuration"), keeps_former_admission=False)
    evicted = [
        state
        for state in report.final.workloads.values()
        if state["conditions"].get("QuotaReserved", {}).get("status") == "False"
    ]
    assert evicted
    assert not any("admission" in state for state in evicted)


@pytest.mark.parametrize(
    ("configuration", "message"),
    [
        ({"featureGates": {"PartialAdmission": "yes"}}, "feature gate PartialAdmission of Kueue must be true or false"),
        ({"fairSharing": {"preemptionStrategies": ["Fair"]}}, "unknown strategy 'Fair'"),
        ({"fairSharing": {"preemptionStrategies": "x"}}, "must be a list"),
        ({"resources": {"transformations": [{"outputs": {}}]}}, "resources of Kueue's configuration"),
    ],
)
def test_malformed_configuration_is_named(configuration: Json, message: str) -> None:
    with pytest.raises(InputError, match=message):
        kueue_admission(kschedctl.Cluster.from_objects([]), configuration=configuration)


def test_unknown_release_is_named() -> None:
    with pytest.raises(InputError, match=r"Kueue 0\.5 cannot be replayed"):
        kueue_admission(kschedctl.Cluster.from_objects([]), release="0.5")
