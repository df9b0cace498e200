"""Check fixes for unapplied manifests in clusters where other pods wait for a node."""

from __future__ import annotations

import json
from typing import Any

import pytest
from command_line import Outcome, Run, Write, build_node, build_pod

CONTAINERS = [{"name": "c", "image": "web", "resources": {"requests": {"cpu": "3"}}}]


def _build_workload(kind: str, name: str, namespace: str, containers: list[Any] = CONTAINERS) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": containers}}
    if kind == "Pod":
        return {"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": template["spec"]}
    if kind == "Job":
        template["spec"] = {**template["spec"], "restartPolicy": "Never"}
        return {"apiVersion": "batch/v1", "kind": kind, "metadata": metadata, "spec": {"template": template}}
    spec: dict[str, Any] = {"selector": {"matchLabels": {"app": name}}, "template": template}
    if kind == "StatefulSet":
        spec["serviceName"] = name
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}


@pytest.mark.parametrize("command", ["explain", "remedies"])
@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "Job", "Pod"])
@pytest.mark.parametrize("namespace", ["default", "shop", "not-there"])
def test_fixes_of_a_manifest_are_checked_with_waiting_pods(
    run: Run, write: Write, command: str, kind: str, namespace: str
) -> None:
    """Fixes that leave the pod as it is, such as one more node, are tried with the pod in the cluster, too.

    A node takes one pod, and the two pods that wait in the namespace shop are ahead of the new one.
    """
    namespaces = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in ("default", "shop")]
    waiting = [build_pod(f"old-{number}", cpu="3", namespace="shop", priority=1000) for number in range(2)]
    full = build_pod("full", cpu="3", namespace="shop", nodeName="n1", priority=1000)
    cluster = write(*namespaces, build_node("n1", cpu="4"), full, *waiting)
    manifest = write(_build_workload(kind, "redis", namespace), name="redis.json")
    fix = _find_holding_new_nodes(run(command, "-f", cluster, "-f", manifest, "-o", "json"))
    assert fix["summary"].startswith("Add 3 nodes")


@pytest.mark.parametrize("command", ["explain", "remedies"])
def test_fixes_of_a_manifest_are_checked_with_the_demos_waiting_pods(run: Run, write: Write, command: str) -> None:
    assert _find_holding_new_nodes(
        run(command, "-f", write(_build_workload("Deployment", "redis", "shop")), "--demo", "-o", "json")
    )


def _find_holding_new_nodes(outcome: Outcome) -> Any:
    """Return the first fix that adds nodes and holds while all others wait."""
    assert outcome.code == 1, outcome.err
    return next(fix for fix in json.loads(outcome.out)["remedies"] if fix["kinds"] == ["AddNode"] and fix["holds"])


def test_fixes_are_chosen_for_the_pods_of_the_files(run: Run, write: Write) -> None:
    """A node of 4 CPUs takes one pod of 3. Two pods of the cluster are ahead, so the two new ones need four nodes."""
    waiting = [build_pod(f"old-{number}", cpu="3", priority=1000) for number in range(2)]
    cluster = write(build_node("n1", cpu="4"), build_pod("full", nodeName="n1", cpu="3", priority=1000), *waiting)
    chart = write(
        _build_workload("Deployment", "web", "d"), _build_workload("Deployment", "api", "d"), name="chart.json"
    )
    outcome = run("remedies", "-f", cluster, "-f", chart, "--only", "AddNode", "-o", "json")
    report = json.loads(outcome.out)
    assert (report["waiting"], report["cleared"]) == (2, 2)
    (chosen,) = report["chosen"]
    assert chosen["remedy"]["summary"].startswith("Add 4 nodes")
    assert chosen["clears"] == ["d/api-new-0", "d/web-new-0"]
    assert chosen["remedy"]["alsoPlaces"] == ["default/old-0", "default/old-1"]


def test_remedies_mention_pods_that_wait_in_other_namespaces(run: Run) -> None:
    """In the demo 10 pods wait, none of them in the namespace default."""
    outcome = run("remedies", "-n", "default", "--demo")
    assert outcome.code == 0
    text = " ".join(outcome.out.split())
    assert "Nothing is pending in namespace default; 10 pods are pending in other namespaces" in text
    assert outcome.commands == ["kschedctl remedies -A --demo"]
    assert json.loads(run("remedies", "-n", "default", "--demo", "-o", "json").out)["elsewhere"] == 10


KAFKA = {
    "apiVersion": "kafka.strimzi.io/v1beta2",
    "kind": "Kafka",
    "metadata": {"name": "events", "namespace": "shop"},
    "spec": {"kafka": {"replicas": 3}},
}
SMALL = [{"name": "c", "image": "web", "resources": {"requests": {"cpu": "10m"}}}]


@pytest.mark.parametrize("command", ["explain", "remedies", "simulate"])
@pytest.mark.parametrize("names", [["tiny"], ["tiny", "small"]])
def test_custom_resource_beside_workloads_makes_the_answer_undecided(
    run: Run, write: Write, command: str, names: list[str]
) -> None:
    """All pods of the Deployments fit, but the pods of the custom resource are unknown."""
    chart = write(KAFKA, *(_build_workload("Deployment", name, "shop", SMALL) for name in names))
    outcome = run(command, "-f", chart, "--demo")
    assert outcome.code == 5
    assert "1 custom resource not checked" in " ".join(outcome.out.split())
    (waiting,) = json.loads(run(command, "-f", chart, "--demo", "-o", "json").out)["waitingElsewhere"]
    assert waiting["resource"] == "Kafka shop/events"


@pytest.mark.parametrize("command", ["explain", "remedies", "simulate"])
def test_workload_that_does_not_fit_decides_despite_a_custom_resource(run: Run, write: Write, command: str) -> None:
    chart = write(KAFKA, _build_workload("Deployment", "redis", "shop"))
    assert run(command, "-f", chart, "--demo").code == 1


@pytest.mark.parametrize(("name", "is_read_from_cluster"), [("new", False), ("recommend", False), ("recommend", True)])
def test_unapplied_manifest_is_edited_and_not_patched(
    run: Run, write: Write, name: str, is_read_from_cluster: bool
) -> None:
    """`kubectl patch` would fail with NotFound for a Deployment that the cluster does not have.

    A patch of Deployment recommend, which the cluster has, would be undone once the manifest is applied.
    """
    manifest = _build_workload("Deployment", name, "shop")
    if is_read_from_cluster:
        manifest["metadata"]["uid"] = "1"
    manifest["spec"]["template"]["spec"] = {
        "nodeSelector": {"example.com/pool": "genral"},
        "containers": [{"name": "c", "image": "web", "resources": {"requests": {"cpu": "100m"}}}],
    }
    outcome = run("remedies", "-f", write(manifest), "--demo", "-o", "json")
    fix = next(fix for fix in json.loads(outcome.out)["remedies"] if fix["by"] == "author")
    if is_read_from_cluster:
        assert fix["commands"][0].startswith("kubectl patch deployment -n shop recommend ")
        assert not fix.get("edits")
    else:
        assert fix["commands"] == []
        assert fix["edits"] == ['spec.template.spec.nodeSelector["example.com/pool"]: general']


def _build_batch_workload(kind: str) -> dict[str, Any]:
    manifest = _build_workload("Job" if kind == "CronJob" else kind, "big", "d")
    if kind == "CronJob":
        manifest |= {"kind": kind, "spec": {"schedule": "0 3 * * *", "jobTemplate": {"spec": manifest["spec"]}}}
    return manifest


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob", "Pod"])
@pytest.mark.parametrize("further", [False, True], ids=["one workload", "two workloads"])
@pytest.mark.parametrize("command", ["explain", "remedies"])
def test_fixes_for_a_manifest_name_its_fields_and_give_no_commands(
    run: Run, write: Write, command: str, kind: str, further: bool
) -> None:
    """A pod of 3 CPUs gets 2. No command can change a workload that the cluster does not have."""
    cluster = write(build_node("n1", cpu="2"), build_node("n2", cpu="2"))
    others = [_build_workload("Deployment", "other", "d")] if further else []
    chart = write(_build_batch_workload(kind), *others, name="chart.json", whole=False)
    options = ["-f", cluster, "-f", chart, *(["--only", "LowerRequest"] if command == "remedies" else [])]
    document = json.loads(run(command, *options, "-o", "json").out)
    if command == "remedies":
        fixes = [entry["remedy"] for entry in document["chosen"]] if further else document["remedies"]
    else:
        fixes = [fix for entry in document.get("explanations", [document]) for fix in entry["remedies"]]
    owner = f"{kind} d/big"
    (fix,) = [fix for fix in fixes if fix["kinds"] == ["LowerRequest"] and fix["owner"] == owner]
    path = {"Pod": "spec", "CronJob": "spec.jobTemplate.spec.template.spec"}.get(kind, "spec.template.spec")
    assert fix["edits"] == [f"{path}.containers[0].resources.requests.cpu: 2"]
    assert fix["commands"] == []
    assert [change["kind"] for change in fix["changes"]] == [kind]
    assert not [cost for cost in fix["costs"] if cost["kind"] == "Deletes"]
    in_manifest = f"in the manifest: {fix['edits'][0]}"
    for form in ((), ("-o", "markdown")):
        shown = " ".join(run(command, *options, *form).out.split())
        assert in_manifest in shown
        assert "kubectl patch" not in shown


def test_fix_sets_only_the_class_in_a_manifest(run: Run, write: Write) -> None:
    """Admission sets priority and preemptionPolicy, and denies pods that disagree with their class."""
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 10}
    cluster = write(build_node("n1", cpu="4"), build_pod("old", "3", nodeName="n1", uid="1"), high)
    chart = write(_build_batch_workload("CronJob"), name="chart.json", whole=False)
    report = json.loads(run("remedies", "-f", cluster, "-f", chart, "--only", "UsePriorityClass", "-o", "json").out)
    (fix,) = report["remedies"]
    assert fix["edits"] == ["spec.jobTemplate.spec.template.spec.priorityClassName: high"]
