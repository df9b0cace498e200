"""Check pods denied by quotas and LimitRanges against recorded messages of controllers, and counts by hand."""

from __future__ import annotations

from typing import Any

import pytest
from failed_creations import get_case, get_error_message, read_cases

import kschedctl
from kschedctl.api.workloads import decode_workload
from kschedctl.commands.simulate import prepare_simulation, simulate
from kschedctl.commands.simulate.report import SimulationReport

Json = dict[str, Any]
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n"},
    "status": {"allocatable": {"cpu": "64", "memory": "64Gi", "pods": "2000"}},
}


def build_quota(name: str, used: Json, hard: Json, **spec: object) -> Json:
    metadata = {"name": name, "namespace": "shop"}
    status = {"hard": hard, "used": used}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": metadata,
        "spec": {"hard": hard, **spec},
        "status": status,
    }


def build_deployment(replicas: int, cpu: str | None = "100m", name: str = "web") -> Json:
    resources = {"requests": {"cpu": cpu}} if cpu else {}
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "c", "image": "c", "resources": resources}]},
    }
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": spec,
    }


def simulate_manifests(objects: list[Json], *manifests: Any, **choices: Any) -> SimulationReport:
    return simulate(kschedctl.Cluster.from_objects([NODE, *objects]), manifests, **choices)


def add_unused_status(found: Json, namespace: str) -> Json:
    """Return the quota with the status that the quota controller writes if nothing is used."""
    placed = {**found, "metadata": {**found["metadata"], "namespace": namespace}}
    if found["kind"] != "ResourceQuota":
        return placed
    hard = found["spec"]["hard"]
    return {**placed, "status": {"hard": hard, "used": dict.fromkeys(hard, "0")}}


def build_surroundings(told: Json) -> list[Json]:
    """Build the namespace with its account and the other objects."""
    namespace = told["namespace"]
    metadata = {"name": namespace, "uid": "n", "labels": told["labels"]}
    account = {"kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": "default", "namespace": namespace}}
    others = [add_unused_status(each, namespace) for each in told["objects"]]
    return [{"kind": "Namespace", "apiVersion": "v1", "metadata": metadata}, account, *others]


@pytest.mark.parametrize("number", range(1, len(read_cases()) + 1))
def test_denials_have_the_words_that_controllers_received(number: int) -> None:
    told = get_case(number)
    namespace, workload = told["namespace"], told["workload"]
    placed = {**workload, "metadata": {**workload["metadata"], "namespace": namespace}}
    report = simulate_manifests(build_surroundings(told), placed)
    (lacking,) = report.not_created
    said = [(failure.message.partition(" is forbidden: ") or failure.message) for failure in lacking.failures]
    assert get_error_message(told) in [forbidden or head.partition(" is invalid: ")[2] for head, _, forbidden in said]
    assert not report.good
    assert report.placed == 0


@pytest.mark.parametrize(
    ("hard", "used", "created", "words"),
    [
        ({"pods": "5"}, {"pods": "3"}, 2, "pods=1, used: pods=5, limited: pods=5"),
        ({"requests.cpu": "1"}, {"requests.cpu": "750m"}, 2, "requests.cpu=100m, used: requests.cpu=950m, limited: r"),
        ({"count/pods": "0"}, {"count/pods": "0"}, 0, "count/pods=1, used: count/pods=0, limited: count/pods=0"),
        ({"pods": "1"}, {"pods": "9"}, 0, "pods=1, used: pods=9, limited: pods=1"),
    ],
    ids=["two are left", "50m are left over", "none at all", "more than there may be"],
)
def test_as_many_pods_as_the_quota_allows(hard: Json, used: Json, created: int, words: str) -> None:
    report = simulate_manifests([build_quota("q", used, hard)], build_deployment(6))
    (lacking,) = report.not_created
    assert (lacking.wanted, lacking.there, lacking.creatable, lacking.missing) == (6, 0, created, 6 - created)
    assert report.placed == created
    (failure,) = lacking.failures
    assert failure.message.startswith(f'pods "web-*" is forbidden: exceeded quota: q, requested: {words}')
    verdict, told = report.build_headline_parts()
    assert verdict == "Not created:"
    assert told.startswith(f"{6 - created} of 6 pods")


def test_workloads_are_counted_in_their_order() -> None:
    """Of 1 CPU, the first workload uses 3 × 300m.

    The remaining 100m give the second workload one pod and the third none.
    """
    manifests = [build_deployment(3, "300m", "a"), build_deployment(2, "100m", "b"), build_deployment(1, "100m", "c")]
    report = simulate_manifests([build_quota("q", {"requests.cpu": "0"}, {"requests.cpu": "1"})], *manifests)
    assert {w.workload: (w.desired, w.running) for w in report.workloads} == {
        "Deployment shop/a": (3, 3),
        "Deployment shop/b": (2, 1),
        "Deployment shop/c": (1, 0),
    }
    assert [each.missing for each in report.not_created] == [1, 1]


def test_denied_pods_use_no_quota() -> None:
    """The first workload exceeds one quota, and uses nothing of the other."""
    quotas = [
        build_quota("cpu", {"requests.cpu": "0"}, {"requests.cpu": "1"}),
        build_quota("pods", {"pods": "0"}, {"pods": "2"}),
    ]
    report = simulate_manifests(quotas, build_deployment(2, "2", "big"), build_deployment(2, "500m", "small"))
    assert [(each.workload, each.missing) for each in report.not_created] == [("Deployment shop/big", 2)]
    assert report.placed == 2


def test_all_denying_quotas_are_named() -> None:
    """Upstream goes through quotas in random order."""
    quotas = [build_quota(name, {"pods": "0"}, {"pods": "0"}) for name in "ab"]
    (lacking,) = simulate_manifests(quotas, build_deployment(1)).not_created
    assert sorted(failure.message.partition("quota: ")[2][0] for failure in lacking.failures) == ["a", "b"]


@pytest.mark.parametrize(("scope", "seconds", "good"), [("Terminating", 60, False), ("NotTerminating", 60, True)])
def test_quota_scope_by_deadline(scope: str, seconds: int, good: bool) -> None:
    """Scheduling does not read the deadline, but the manifest has it."""
    web = build_deployment(1)
    web["spec"]["template"]["spec"]["activeDeadlineSeconds"] = seconds
    report = simulate_manifests([build_quota("q", {"pods": "0"}, {"pods": "0"}, scopes=[scope])], web)
    assert report.good == good
    assert not report.not_replayed


@pytest.mark.parametrize("scope", ["Terminating", "NotTerminating"])
def test_quota_scope_that_cannot_be_decided_is_not_replayed(scope: str) -> None:
    """For a workload passed as a struct, only the fields that scheduling reads are known."""
    web = decode_workload(build_deployment(1))
    report = simulate_manifests([build_quota("q", {"pods": "0"}, {"pods": "0"}, scopes=[scope])], web)
    assert report.good
    assert any("ResourceQuota q" in line for line in report.not_replayed)


def test_quota_without_a_status_denies_nothing_and_is_reported() -> None:
    unseen = build_quota("q", {}, {"pods": "0"}) | {"status": {}}
    report = simulate_manifests([unseen], build_deployment(1))
    assert report.good
    assert any("ResourceQuota q" in line for line in report.not_replayed)


def test_rollouts_are_counted() -> None:
    report = simulate_manifests([build_quota("q", {"pods": "0"}, {"pods": "0"})], build_deployment(1), rollout=True)
    assert [lacking.missing for lacking in report.not_created] == [1]
    assert not report.pending
    assert not report.not_replayed


@pytest.mark.parametrize("room", [0, 1, 799, 1000])
def test_quota_limits_many_pods(room: int) -> None:
    """The expected number is counted pod by pod."""
    hard = {"pods": str(room), "requests.cpu": "8"}
    report = simulate_manifests([build_quota("q", dict.fromkeys(hard, "0"), hard)], build_deployment(1000, "10m"))
    by_hand = 0
    while by_hand < 1000 and by_hand + 1 <= room and (by_hand + 1) * 10 <= 8000:
        by_hand += 1
    assert report.placed == by_hand


def test_simulations_that_cannot_report_denials_count_nothing() -> None:
    """What-ifs and followed rollouts share the preparation of a simulation, but cannot report denials."""
    cluster = kschedctl.Cluster.from_objects([NODE, build_quota("q", {"pods": "0"}, {"pods": "0"})])
    prepared = prepare_simulation(cluster, [build_deployment(3)])
    assert len(prepared.workload_by_pod) == 3
    assert not prepared.admitted_namespaces


def test_both_of_two_denying_quotas_are_named() -> None:
    """The API server goes through them in random order. They are named in alphabetical order."""
    full = [build_quota("b", {"count/pods": "1"}, {"count/pods": "1"}), build_quota("a", {"pods": "1"}, {"pods": "1"})]
    (lacking,) = simulate(kschedctl.Cluster.from_objects([NODE, *full]), [build_deployment(1)]).not_created
    one, other = (
        f"exceeded quota: {name}, requested: {what}=1, used: {what}=1, limited: {what}=1"
        for name, what in (("a", "pods"), ("b", "count/pods"))
    )
    assert lacking.headline.endswith(f"{one} (or, by chance: {other})")
