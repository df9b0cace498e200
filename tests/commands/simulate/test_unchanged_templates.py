"""Check that applying an unchanged pod template changes only the number of pods, whatever admission added."""

from __future__ import annotations

import copy

import pytest
from small import ZONE, Json, build_node, build_pod, build_pod_spec, build_workload

from kschedctl.cluster import Cluster
from kschedctl.commands.simulate import simulate
from kschedctl.commands.simulate.report import WorkloadPlacement

REGION = "topology.kubernetes.io/region"
NODES = [build_node("n1", "a", cpu="40", pods="90"), build_node("n2", "b", cpu="40", pods="90")]


def simulate_placement(objects: list[Json], manifest: Json) -> WorkloadPlacement:
    """Return the placement of the manifest's workload."""
    (found,) = simulate(Cluster.from_objects([*NODES, *objects]), [manifest]).workloads
    return found


def build_running_pods(name: str, number: int, kind: str, owner: str, **labels: str) -> list[Json]:
    """Build pods to which admission added the labels of their node and a sidecar's request."""
    pods = []
    for count in range(number):
        made = build_pod(f"{name}-{count}", "n1", owner={"kind": kind, "name": owner})
        made["metadata"]["labels"] = {"app": "web", ZONE: "a", REGION: "r", **labels}
        made["spec"]["containers"].append({"name": "proxy", "resources": {"requests": {"cpu": "100m"}}})
        pods.append(made)
    return pods


def build_replica_set(template: Json, hash_label: str = "5f", kind: str = "ReplicaSet", name: str = "web-5f") -> Json:
    """Build the stored object, with the API server's defaults in its template."""
    template = copy.deepcopy(template)
    template["spec"] |= {"restartPolicy": "Always", "schedulerName": "default-scheduler", "dnsPolicy": "ClusterFirst"}
    metadata: Json = {"name": name, "namespace": "d", "labels": {"app": "web"}}
    if kind == "ReplicaSet":
        template["metadata"]["labels"] = template["metadata"]["labels"] | {"pod-template-hash": hash_label}
        metadata["labels"]["pod-template-hash"] = hash_label
        metadata["ownerReferences"] = [
            {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u", "controller": True}
        ]
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": {"replicas": 18, "template": template}}


def test_growing_deployment_gets_only_new_pods() -> None:
    manifest = build_workload("Deployment", spec={"replicas": 20})
    pods = build_running_pods("web-5f", 18, "ReplicaSet", "web-5f", **{"pod-template-hash": "5f"})
    found = simulate_placement([build_replica_set(manifest["spec"]["template"]), *pods], manifest)
    assert (found.desired, found.created, found.removed, found.running) == (20, 2, 0, 20)


def test_node_labels_make_no_difference_without_a_template() -> None:
    manifest = build_workload("Deployment", spec={"replicas": 20})
    pods = build_running_pods("web-5f", 18, "ReplicaSet", "web-5f", **{"pod-template-hash": "5f"})
    for made in pods:
        del made["spec"]["containers"][1]
    found = simulate_placement(pods, manifest)
    assert (found.created, found.removed) == (2, 0)


def test_pods_of_an_older_template_are_replaced() -> None:
    """Of two ReplicaSets, one has 3 pods of the manifest's template, and the other has 2 of an older template with
    larger requests."""
    manifest = build_workload("Deployment", spec={"replicas": 5})
    older: Json = {"metadata": {"labels": {"app": "web"}}, "spec": build_pod_spec("2")}
    old_pods = build_running_pods("web-3c", 2, "ReplicaSet", "web-3c", **{"pod-template-hash": "3c"})
    for made in old_pods:
        made["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2"
    objects = [
        build_replica_set(manifest["spec"]["template"]),
        build_replica_set(older, "3c", name="web-3c"),
        *build_running_pods("web-5f", 3, "ReplicaSet", "web-5f", **{"pod-template-hash": "5f"}),
        *old_pods,
    ]
    found = simulate_placement(objects, manifest)
    assert (found.desired, found.created, found.removed) == (5, 2, 2)


@pytest.mark.parametrize("kind", ["StatefulSet", "DaemonSet"])
def test_stateful_set_and_daemon_set_that_lack_pods(kind: str) -> None:
    """The StatefulSet has two of three pods, and the DaemonSet has a pod on one of the two nodes."""
    manifest = build_workload(kind, spec={"replicas": 3} if kind == "StatefulSet" else {})
    pods = build_running_pods("web", 2, kind, "web", **{"controller-revision-hash": "web-77"})
    if kind == "DaemonSet":
        pods[1]["spec"]["nodeName"] = "n2"
    found = simulate_placement(
        [build_replica_set(manifest["spec"]["template"], kind=kind, name="web"), *pods], manifest
    )
    assert (found.created, found.removed) == ((1, 0) if kind == "StatefulSet" else (0, 0))


def test_job_with_more_parallelism_gets_the_missing_pods() -> None:
    """1 of 6 completions is done. 5 pods may run in parallel, and 2 do. The failed pod counts for neither."""
    manifest = build_workload("Job", spec={"parallelism": 5, "completions": 6})
    pods = build_running_pods("run", 4, "Job", "web")
    pods[2]["status"]["phase"], pods[3]["status"]["phase"] = "Succeeded", "Failed"
    found = simulate_placement(pods, manifest)
    assert (found.created, found.removed, found.desired) == (3, 0, 5)


def test_job_with_less_parallelism_removes_pods() -> None:
    found = simulate_placement(
        build_running_pods("run", 4, "Job", "web"), build_workload("Job", spec={"parallelism": 1})
    )
    assert (found.created, found.removed, found.running) == (0, 3, 1)


@pytest.mark.parametrize("cpu", ["1", "2"])
def test_rollout_that_may_replace_no_pod_is_noted(cpu: str) -> None:
    """Fields that scheduling does not read may differ. The rollout is replayed although there may be none."""
    manifest = build_workload("Deployment", spec={"replicas": 18})
    pods = build_running_pods("web-5f", 18, "ReplicaSet", "web-5f", **{"pod-template-hash": "5f"})
    stored = build_replica_set(manifest["spec"]["template"])
    changed = build_workload("Deployment", spec={"replicas": 18}, template=build_pod_spec(cpu))
    report = simulate(Cluster.from_objects([*NODES, stored, *pods]), [changed], rollout=True)
    assert report.workloads[0].removed == 18
    note = (
        "Deployment d/web: its 18 pods have this template already, as far as it matters for scheduling; if nothing "
        "else in"
        " it changes, applying it replaces no pod (leave out --rollout)"
    )
    assert (note in report.assumed) is (cpu == "1")

    # The first line and the short forms say so as well
    may_be_none = ("Deployment d/web",) if cpu == "1" else ()
    assert report.unchanged_workloads == may_be_none
    assert (", 1 rollout that may replace no pod" in str(report)) is (cpu == "1")
    warnings = [warning for warning in report.summary().warnings if warning.startswith("Deployment d/web has its")]
    assert len(warnings) == len(may_be_none)


@pytest.mark.parametrize(
    ("kind", "replicas", "created", "removed"),
    [("Deployment", 20, 2, 0), ("Deployment", 17, 0, 1), ("StatefulSet", 20, 2, 0)],
)
def test_rollout_replaces_no_pod_if_only_the_replicas_change(
    kind: str, replicas: int, created: int, removed: int
) -> None:
    manifest = build_workload(kind, spec={"replicas": replicas})
    if kind == "Deployment":
        stored = build_replica_set(manifest["spec"]["template"])
        pods = build_running_pods("web-5f", 18, "ReplicaSet", "web-5f", **{"pod-template-hash": "5f"})
    else:
        stored = build_replica_set(manifest["spec"]["template"], kind=kind, name="web")
        pods = build_running_pods("web", 18, kind, "web", **{"controller-revision-hash": "web-77"})
    report = simulate(Cluster.from_objects([*NODES, stored, *pods]), [manifest], rollout=True)
    (found,) = report.workloads
    assert (found.desired, found.created, found.removed, found.rollout) == (replicas, created, removed, "")
    assert "rollout" not in str(report)
    assert report.assumed[-1].startswith(f"{kind} d/web: only the number of its pods changes")


def test_rollout_of_a_workload_that_lacks_a_pod() -> None:
    """One of the 18 replicas is missing, so the number of replicas does not change."""
    manifest = build_workload("Deployment", spec={"replicas": 18})
    pods = build_running_pods("web-5f", 17, "ReplicaSet", "web-5f", **{"pod-template-hash": "5f"})
    stored = build_replica_set(manifest["spec"]["template"])
    report = simulate(Cluster.from_objects([*NODES, stored, *pods]), [manifest], rollout=True)
    assert report.workloads[0].removed == 17
    assert report.unchanged_workloads == ("Deployment d/web",)
