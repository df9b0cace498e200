"""Check that ElasticQuotas are raised by exactly what a pod needs, and that the fix is replayed."""

from __future__ import annotations

from applied import Json, apply

import kschedctl
from kschedctl.cluster import Cluster
from kschedctl.commands.remedies import remedies
from kschedctl.commands.remedies.report import Remedies
from kschedctl.fixes.search import RemedyCriteria

NAME = "CapacityScheduling"
CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"plugins": {"preFilter": {"enabled": [{"name": NAME}]}, "reserve": {"enabled": [{"name": NAME}]}}}],
}
ALLOCATABLE = {"cpu": "16", "memory": "16Gi", "pods": "10"}
NODE: Json = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": ALLOCATABLE}}


def build_quota(namespace: str, least: Json, most: Json | None = None) -> Json:
    spec = {"min": least} | ({"max": most} if most is not None else {})
    return {"kind": "ElasticQuota", "metadata": {"name": "q", "namespace": namespace}, "spec": spec}


def build_pod(key: str, requests: Json, on: str = "") -> Json:
    namespace, name = key.split("/")
    container = {"name": "c", "image": "c", "resources": {"requests": requests}}
    spec = {"containers": [container], "schedulerName": "default-scheduler"} | ({"nodeName": on} if on else {})
    return {"kind": "Pod", "metadata": {"namespace": namespace, "name": name}, "spec": spec}


def read(documents: list[Json]) -> Cluster:
    return Cluster.from_objects(documents, config=CONFIG, other_builds=True)


def find_fixes_that_hold(*documents: Json, most: int = 1) -> Remedies:
    """Find the remedies for a/web, which fits n1 once they are applied."""
    found = remedies(read([NODE, *documents]), "a/web", RemedyCriteria(most))
    for remedy in found.remedies:
        answer = kschedctl.explain(read(apply(remedy, [NODE, *documents])), "a/web")
        assert (answer.verdict, [*answer.feasible], remedy.opens) == ("Schedulable", ["n1"], ("n1",))
    return found


def test_max_is_raised_to_the_needed_usage() -> None:
    """Of 4 CPUs, 3 are used and 2 more requested. The max does not name memory, so it allows none."""
    old, web = build_pod("a/old", {"cpu": "3"}, "n1"), build_pod("a/web", {"cpu": "2", "memory": "1Gi"})
    (remedy,) = find_fixes_that_hold(build_quota("a", {"cpu": "9", "memory": "9Gi"}, {"cpu": "4"}), old, web).remedies
    assert remedy.summary == "Raise the max of ElasticQuota a/q: cpu 5 instead of 4, memory 1Gi instead of 0"
    change = '{"spec": {"max": {"cpu": "5", "memory": "1Gi"}}}'
    assert remedy.commands == (f"kubectl patch elasticquota -n a q --type=merge -p '{change}'",)
    assert not remedy.weakens


def test_min_is_raised_by_the_common_shortage() -> None:
    """Of 3 + 4 guaranteed CPUs, 6 are used, and 2500m more are requested."""
    quotas = build_quota("a", {"cpu": "3"}), build_quota("b", {"cpu": "4"})
    (remedy,) = find_fixes_that_hold(
        *quotas, build_pod("b/old", {"cpu": "6"}, "n1"), build_pod("a/web", {"cpu": "2500m"})
    ).remedies
    assert remedy.summary == "Raise the min of ElasticQuota a/q: cpu 4500m instead of 3"
    assert remedy.weakens == "the ElasticQuotas guarantee more in total"


def test_both_limits_are_raised_if_both_are_obstacles() -> None:
    (remedy,) = find_fixes_that_hold(
        build_quota("a", {"cpu": "1"}, {"cpu": "1"}), build_pod("a/web", {"cpu": "2"}), most=2
    ).remedies
    assert remedy.kinds == ("RaiseQuotaMax", "RaiseQuotaMin")


def test_amounts_are_not_rounded() -> None:
    limits = {"cpu": "9", "memory": "1Mi"}
    (remedy,) = find_fixes_that_hold(
        build_quota("a", {"cpu": "9", "memory": "9Gi"}, limits), build_pod("a/web", {"memory": "1500001"})
    ).remedies
    assert remedy.summary == "Raise the max of ElasticQuota a/q: memory 1500001 instead of 1Mi"
