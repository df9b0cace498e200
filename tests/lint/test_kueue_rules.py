"""Check rules about Kueue beyond their examples: unread kinds, cohorts, autoscalers, several pod sets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

import kschedctl
from kschedctl.api.json_values import JsonObject
from kschedctl.cluster import Cluster, Gap
from kschedctl.lint.catalogue import FAMILIES
from kschedctl.lint.context import LintContext
from kschedctl.lint.engine import lint

RULES = FAMILIES["Kueue"]
API = "kueue.x-k8s.io/v1beta2"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"


def build_object(kind: str, name: str, spec: JsonObject, namespace: str = "", **metadata: Any) -> JsonObject:
    meta = {"name": name, **({"namespace": namespace} if namespace else {}), **metadata}
    return {"apiVersion": API, "kind": kind, "metadata": meta, "spec": spec}


def build_queue(name: str, quotas: JsonObject, **spec: Any) -> JsonObject:
    """Build a ClusterQueue with quotas of one resource group: flavor -> resource -> nominal quota."""
    resources = sorted({resource for amounts in quotas.values() for resource in amounts})
    flavors = [
        {"name": flavor, "resources": [{"name": r, "nominalQuota": q} for r, q in sorted(amounts.items())]}
        for flavor, amounts in quotas.items()
    ]
    groups = [{"coveredResources": resources, "flavors": flavors}]
    return build_object("ClusterQueue", name, {"resourceGroups": groups, **spec})


def build_local_queue(name: str, queue: str) -> JsonObject:
    return build_object("LocalQueue", name, {"clusterQueue": queue}, "ml")


def build_flavor(name: str, **labels: str) -> JsonObject:
    return build_object("ResourceFlavor", name, {"nodeLabels": labels})


def build_workload(name: str, queue: str, *pod_sets: tuple[int, JsonObject], **fields: Any) -> JsonObject:
    sets = [
        {
            "name": f"set{i}",
            "count": count,
            "template": {"spec": {"containers": [{"name": "main", "resources": {"requests": requests}}]}},
        }
        for i, (count, requests) in enumerate(pod_sets)
    ]
    return {**build_object("Workload", name, {"queueName": queue, "podSets": sets}, "ml"), **fields}


def build_job(name: str, labels: JsonObject, **fields: Any) -> JsonObject:
    metadata = {"name": name, "namespace": "ml", "labels": labels}
    spec = {"template": {"spec": {"containers": [{"name": "main"}]}}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec, **fields}


def build_node(name: str, allocatable: JsonObject, **labels: str) -> JsonObject:
    status = {"allocatable": {"pods": "110", **allocatable}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}


def find_in_cluster(*objects: JsonObject, gaps: Iterable[str] = ()) -> list[tuple[str, str]]:
    """Return the rule and the object of each finding in a cluster in which some kinds could not be read."""
    context = LintContext.from_cluster(build_cluster(objects, gaps))
    return sorted((finding.rule, finding.object) for finding in lint(context, RULES).findings)


def build_cluster(objects: Iterable[JsonObject], gaps: Iterable[str] = ()) -> Cluster:
    cluster = Cluster.from_objects(objects)
    return replace(cluster, gaps={kind: Gap("could not be read: forbidden") for kind in gaps})


def find_in_files(tmp_path: Path, manifests: Iterable[JsonObject], cluster: Cluster | None = None) -> list[str]:
    """Return the rules that report something of Kueue in manifests."""
    file = tmp_path / "manifests.yaml"
    file.write_text(yaml.safe_dump_all(manifests))
    return [f.rule for f in kschedctl.lint([file], cluster=cluster, select=["kq-*"]).findings]


def list_messages(*objects: JsonObject) -> list[str]:
    return [f.message for f in lint(LintContext.from_cluster(build_cluster(objects)), RULES).findings]


GPU_NODE = build_node("n1", {"nvidia.com/gpu": "8", "cpu": "64"}, gpu="a100")
FLAVOR = build_flavor("a100", gpu="a100")
QUEUE = build_queue("batch", {"a100": {"nvidia.com/gpu": 8}})
LOCAL = build_local_queue("train", "batch")
SOUND = (GPU_NODE, FLAVOR, QUEUE, LOCAL)


def test_correct_objects_have_no_findings() -> None:
    fitting = build_workload("w", "train", (4, {"nvidia.com/gpu": "2"}))
    assert find_in_cluster(*SOUND, build_job("j", {QUEUE_LABEL: "train"}), fitting) == []
    assert find_in_cluster(GPU_NODE) == []


def test_missing_objects_are_reported_only_if_their_kind_was_read() -> None:
    queue = build_queue("batch", {"h100": {"nvidia.com/gpu": 8}}, admissionChecks=["prov"])
    flavor = build_object("ResourceFlavor", "a100", {"topologyName": "racks"})
    found = find_in_cluster(queue, flavor)
    assert found == [
        ("kq-missing-reference", x) for x in ("ClusterQueue batch", "ClusterQueue batch", "ResourceFlavor a100")
    ]
    assert find_in_cluster(queue, flavor, gaps=("ResourceFlavor", "AdmissionCheck", "Topology")) == []
    local = build_local_queue("train", "batch")
    assert find_in_cluster(local) == [("kq-no-cluster-queue", "LocalQueue ml/train")]
    assert find_in_cluster(local, gaps=["ClusterQueue"]) == []


def test_cohort_may_name_flavors() -> None:
    groups = build_queue("", {"h100": {"cpu": 1}})["spec"]["resourceGroups"]
    cohort = build_object("Cohort", "all", {"resourceGroups": groups})
    assert find_in_cluster(cohort) == [("kq-missing-reference", "Cohort all")]


def test_manifests_without_a_cluster_are_only_checked_for_misspellings(tmp_path: Path) -> None:
    assert find_in_files(tmp_path, [QUEUE, build_local_queue("x", "inference")]) == []
    assert find_in_files(tmp_path, [QUEUE, build_local_queue("x", "bacth")]) == ["kq-no-cluster-queue"]


def test_manifests_may_name_objects_of_the_cluster(tmp_path: Path) -> None:
    cluster = build_cluster(SOUND)
    assert find_in_files(tmp_path, [build_queue("other", {"a100": {"nvidia.com/gpu": 0}})], cluster) == []
    assert find_in_files(tmp_path, [build_job("j", {QUEUE_LABEL: "train"})], cluster) == []
    assert find_in_files(tmp_path, [build_job("j", {QUEUE_LABEL: "absent"})], cluster) == ["kq-no-local-queue"]


def test_cyclic_cohorts_are_reported() -> None:
    cohorts = [build_object("Cohort", name, {"parentName": parent}) for name, parent in ("ab", "bc", "cb", "de")]
    assert list_messages(*cohorts) == [
        "its parents lead to a cycle: b -> c -> b",
        "its parents form a cycle: b -> c -> b",
        "its parents form a cycle: c -> b -> c",
    ]


def test_flavors_without_nodes_are_not_reported_with_autoscaling() -> None:
    flavor, queue = build_flavor("h100", gpu="h100"), build_queue("batch", {"h100": {"nvidia.com/gpu": 8}})
    assert find_in_cluster(GPU_NODE, flavor, queue) == [("kq-flavor-no-node", "ResourceFlavor h100")]
    pool = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "gpu"}, "spec": {}}
    assert find_in_cluster(GPU_NODE, flavor, queue, pool) == []
    check = build_object("AdmissionCheck", "prov", {"controllerName": "kueue.x-k8s.io/provisioning-request"})
    checked = build_queue("batch", {"h100": {"nvidia.com/gpu": 8}}, admissionChecks=["prov"])
    assert find_in_cluster(GPU_NODE, flavor, checked, check) == []
    assert find_in_cluster(GPU_NODE, flavor, queue, gaps=["Node"]) == []
    assert find_in_cluster(flavor, queue) == []


def test_labels_that_no_node_combines_are_listed() -> None:
    nodes = build_node("n1", {}, gpu="a100", zone="a"), build_node("n2", {}, gpu="h100", zone="b")
    queue = build_queue("batch", {"f": {"cpu": 0}})
    assert list_messages(*nodes, queue, build_flavor("f", gpu="a100", zone="b")) == [
        "no node has all of gpu=a100 and zone=b"
    ]
    assert list_messages(*nodes, queue, build_flavor("f", gpu="b200")) == [
        "no node has the label gpu=b200; nodes have gpu=a100, h100"
    ]


def test_quota_is_summed_over_queues_and_cohorts_and_reported_at_the_largest() -> None:
    groups = build_queue("", {"a100": {"nvidia.com/gpu": 1}})["spec"]["resourceGroups"]
    cohort = build_object("Cohort", "all", {"resourceGroups": groups})
    queues = (
        build_queue("small", {"a100": {"nvidia.com/gpu": 3}}),
        build_queue("large", {"a100": {"nvidia.com/gpu": 5}}),
    )
    assert find_in_cluster(GPU_NODE, FLAVOR, *queues) == []
    assert find_in_cluster(GPU_NODE, FLAVOR, *queues, cohort) == [("kq-quota-over-nodes", "ClusterQueue large")]
    assert list_messages(GPU_NODE, FLAVOR, *queues, cohort) == [
        "the nominal quota in flavor a100 is 9 nvidia.com/gpu in total, but its 1 node has 8 allocatable"
    ]


def test_quota_of_missing_resources_is_reported_only_for_devices() -> None:
    node = build_node("n1", {"cpu": "4"}, gpu="a100")
    assert find_in_cluster(node, FLAVOR, QUEUE) == [("kq-quota-over-nodes", "ClusterQueue batch")]
    device_class = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}}
    assert find_in_cluster(node, FLAVOR, QUEUE, device_class) == []
    assert find_in_cluster(node, FLAVOR, build_queue("batch", {"a100": {"licenses": 8}})) == []


def test_flavor_without_quota_is_reported_if_only_it_covers_nodes() -> None:
    other = build_node("n2", {}, gpu="h100")
    unused = build_flavor("h100", gpu="h100")
    assert find_in_cluster(GPU_NODE, other, FLAVOR, QUEUE, unused) == [
        ("kq-nodes-without-quota", "ResourceFlavor h100")
    ]
    assert find_in_cluster(GPU_NODE, other, FLAVOR, QUEUE, unused, gaps=["Cohort"]) == []
    assert find_in_cluster(GPU_NODE, FLAVOR, QUEUE, build_flavor("again", gpu="a100")) == []


def test_queue_labels_of_the_cluster_are_looked_up() -> None:
    labels = {QUEUE_LABEL: "trian"}
    ended = build_job("ended", labels, status={"conditions": [{"type": "Complete", "status": "True"}]})
    owned = build_job("owned", labels)
    owned["metadata"]["ownerReferences"] = [{"kind": "JobSet", "name": "s", "controller": True}]
    ray = {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "r", "namespace": "ml", "labels": labels}}
    objects = (*SOUND, build_job("j", labels), ended, owned, {**ray, "spec": {}})
    assert find_in_cluster(*objects) == [("kq-no-local-queue", "Job ml/j"), ("kq-no-local-queue", "RayJob ml/r")]
    assert list_messages(*objects)[0] == 'LocalQueue "trian" does not exist in namespace ml, but "train" does'
    assert find_in_cluster(build_job("j", {QUEUE_LABEL: "absent"}), gaps=["LocalQueue"]) == []


def test_workload_is_checked_unless_its_job_is() -> None:
    job = build_job("j", {QUEUE_LABEL: "absent"})
    workload = build_workload("job-j", "absent")
    workload["metadata"]["ownerReferences"] = [{"kind": "Job", "name": "j", "controller": True}]
    assert find_in_cluster(*SOUND, job, workload) == [("kq-no-local-queue", "Job ml/j")]
    assert find_in_cluster(*SOUND, workload) == [("kq-no-local-queue", "Workload ml/job-j")]


def test_workload_without_an_owner_is_checked() -> None:
    assert find_in_cluster(*SOUND, build_workload("w", "absent")) == [("kq-no-local-queue", "Workload ml/w")]
    finished = {"conditions": [{"type": "Finished", "status": "True"}]}
    assert find_in_cluster(*SOUND, build_workload("w", "absent", status=finished)) == []


def test_labels_of_job_templates_and_pod_templates_are_read(tmp_path: Path) -> None:
    template = {"metadata": {"labels": {"kueue.x-k8s.io/queueName": "q"}}, "spec": {"containers": [{"name": "main"}]}}
    job = {"metadata": {"labels": {"kueue.x-k8s.io/local-queue": "q"}}, "spec": {"template": template}}
    cron_job = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c"}}
    found = find_in_files(tmp_path, [{**cron_job, "spec": {"schedule": "* * * * *", "jobTemplate": job}}])
    assert found == ["kq-label-misspelt"] * 2


def test_other_labels_are_not_called_misspelled(tmp_path: Path) -> None:
    names = "kueue.x-k8s.io/pod-group-name", "kueue.x-k8s.io/something", "queue", "app.kubernetes.io/queue-name"
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c", "labels": {"kueue.x-k8s.io/queue": "q"}},
    }
    assert find_in_files(tmp_path, [build_job("j", dict.fromkeys(names, "q")), config]) == []


def test_workloads_above_all_quota_are_reported() -> None:
    flavors = {"a100": {"nvidia.com/gpu": 8}, "h100": {"nvidia.com/gpu": 4}}
    around = (build_queue("batch", flavors), LOCAL, FLAVOR, build_flavor("h100"))

    def run(*pod_sets: tuple[int, JsonObject], **fields: Any) -> list[str]:
        return list_messages(*around, build_workload("w", "train", *pod_sets, **fields))

    start = "ClusterQueue batch can never admit it: "
    assert run((8, {"nvidia.com/gpu": "1"})) == []
    assert run((8, {"nvidia.com/gpu": "1"}), (4, {"nvidia.com/gpu": "1"})) == []
    assert run((9, {"nvidia.com/gpu": "1"})) == [
        f"{start}pod set set0 requests 9 nvidia.com/gpu, but flavor a100 can give at most 8; "
        "pod set set0 requests 9 nvidia.com/gpu, but flavor h100 can give at most 4"
    ]
    assert run((8, {"nvidia.com/gpu": "1"}), (5, {"nvidia.com/gpu": "1"})) == [
        f"{start}it requests 13 nvidia.com/gpu, but all flavors together can give at most 12"
    ]
    assert run((1, {"cpu": "1"})) == [f"{start}there is no quota for cpu"]
    reserved = {"conditions": [{"type": "QuotaReserved", "status": "True"}]}
    assert run((1, {"cpu": "1"}), status=reserved) == []


def test_lent_quota_counts_if_the_whole_cohort_is_known(tmp_path: Path) -> None:
    borrower = build_queue("batch", {"a100": {"nvidia.com/gpu": 0}}, cohortName="all")
    lender = build_queue("lender", {"a100": {"nvidia.com/gpu": 8}}, cohortName="all")
    objects = (FLAVOR, LOCAL, borrower, lender)
    fitting, large = (build_workload("w", "train", (n, {"nvidia.com/gpu": "1"})) for n in (8, 9))
    assert find_in_cluster(*objects, fitting) == []
    assert find_in_cluster(*objects, large) == [("kq-never-admitted", "Workload ml/w")]
    assert find_in_cluster(*objects, large, gaps=["Cohort"]) == []
    assert find_in_files(tmp_path, [*objects, large]) == []
    circle = [build_object("Cohort", name, {"parentName": parent}) for name, parent in (("all", "b"), ("b", "all"))]
    assert "kq-never-admitted" not in dict(find_in_cluster(*objects, large, *circle))


def test_minimum_of_pods_counts_if_the_job_can_start_with_it(tmp_path: Path) -> None:
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    job = build_job("j", {QUEUE_LABEL: "train"})
    job["spec"] |= {"parallelism": 9, "completions": 9, "template": {"spec": {"containers": [container]}}}
    assert find_in_files(tmp_path, [QUEUE, LOCAL, job]) == ["kq-never-admitted"]
    job["metadata"]["annotations"] = {"kueue.x-k8s.io/job-min-parallelism": "4"}
    assert find_in_files(tmp_path, [QUEUE, LOCAL, job]) == []


def test_malformed_quotas_are_no_crash() -> None:
    broken = build_queue("broken", {"a100": {"nvidia.com/gpu": "many"}})
    assert find_in_cluster(*SOUND, broken, build_workload("w", "train", (1, {"nvidia.com/gpu": "x"}))) == []
