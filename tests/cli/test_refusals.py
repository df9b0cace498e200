"""Check that manifests that the API server would deny are rejected by every command that would place their pods."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Json, Run, Write, build_node, build_pod

from kschedctl.api.events import shorten_api_message

GPU = "nvidia.com/gpu"
NAMESPACES = [
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in ("default", "kube-system")
]
CLASSES = [
    {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "kata"},
        "handler": "kata",
        "overhead": {"podFixed": {"cpu": "250m"}},
        "scheduling": {"nodeSelector": {"sandboxed": "true"}},
    }
]
WORLD = [*(build_node(f"n{i}") for i in range(3)), *NAMESPACES, *CLASSES]
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}


def build_requesting_spec(**resources: Json) -> Json:
    return {"containers": [{"name": "c", "image": "web", "resources": resources}]}


CASES: dict[str, tuple[Json, str]] = {
    "whenUnsatisfiable": (
        {"topologySpreadConstraints": [{**SPREAD, "whenUnsatisfiable": "DoNotschedule"}]},
        'spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: "DoNotschedule": supported values: '
        '"DoNotSchedule", "ScheduleAnyway"',
    ),
    "maxSkew": (
        {"topologySpreadConstraints": [{**SPREAD, "maxSkew": 0}]},
        "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
    ),
    "hostPort": (
        {"containers": [{"name": "c", "image": "web", "ports": [{"containerPort": 80, "hostPort": 99999}]}]},
        "spec.containers[0].ports[0].hostPort: Invalid value: 99999: must be between 1 and 65535, inclusive",
    ),
    "request above limit": (
        build_requesting_spec(requests={"cpu": "2"}, limits={"cpu": "1"}),
        'spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
    ),
    "half a device": (
        build_requesting_spec(requests={GPU: "500m"}, limits={GPU: "500m"}),
        f'spec.containers[0].resources.limits[{GPU}]: Invalid value: "500m": must be an integer',
    ),
    "duplicate containers": (
        {"containers": [{"name": "c", "image": "web"}] * 2},
        'spec.containers[1].name: Duplicate value: "c"',
    ),
    "toleration operator": (
        {"tolerations": [{"key": "a", "operator": "Equals"}]},
        'spec.tolerations[0].operator: Unsupported value: "Equals": supported values: "Equal", "Exists"',
    ),
}


@pytest.mark.parametrize("command", ["explain", "simulate", "capacity"])
@pytest.mark.parametrize(("spec", "said"), CASES.values(), ids=CASES)
def test_pod_is_denied_in_the_words_of_the_api_server(
    run: Run, write: Write, command: str, spec: Json, said: str
) -> None:
    path = write(build_pod("web", **spec), name="pod.json")
    found = run(command, "-f", write(*WORLD), "-f", path)
    assert (found.code, found.out) == (2, "")
    assert found.err.splitlines()[0] == f'error: {path}: document 1, items[0]: The Pod "web" is invalid: {said}'


@pytest.mark.parametrize(("spec", "said"), CASES.values(), ids=CASES)
def test_denied_template_is_named_by_its_workload(run: Run, write: Write, spec: Json, said: str) -> None:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": build_pod("web", **spec)["spec"]}
    inner = {"selector": {"matchLabels": {"app": "web"}}, "template": template}
    workload = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": inner}
    said = said.replace("spec.", "spec.template.spec.", 1)
    for command in ("explain", "simulate"):
        found = run(command, "-f", write(*WORLD), "-f", write(workload, name="web.json"))
        assert (found.code, found.out) == (2, "")
        assert f': The Deployment "web" is invalid: {said}\n' in found.err


@pytest.mark.parametrize(("spec", "said"), CASES.values(), ids=CASES)
def test_scenario_with_a_denied_manifest_is_an_error(
    run: Run, write: Write, tmp_path: Path, spec: Json, said: str
) -> None:
    scenario = tmp_path / "scenario.json"
    steps = [{"apply": {"manifests": [build_pod("web", **spec)]}}]
    scenario.write_text(json.dumps({"apiVersion": "kschedctl.dev/v1", "kind": "Scenario", "steps": steps}))
    found = run("whatif", str(scenario), "-f", write(*WORLD))
    assert (found.code, found.out) == (2, "")
    where = f"{scenario}: step 1 (apply): manifests[0], Pod default/web"
    assert found.err.splitlines()[0] == f'error: {where}: The Pod "web" is invalid: {said}'


def test_every_fault_is_located_at_its_line(run: Run, write: Write, tmp_path: Path) -> None:
    path = tmp_path / "pods.yaml"
    path.write_text(
        """\
apiVersion: v1
kind: Pod
metadata:
  name: a
spec:
  priority: 0
  containers:
  - name: c
    image: web
    ports:
    - hostPort: 70000
      containerPort: 80
---
# another one
apiVersion: v1
kind: Pod
metadata:
  name: b
spec:
  nodeSelector:
    disk type: ssd
  tolerations:
  - key: a
    effect: NoRun
  containers:
  - name: c
    image: web
"""
    )
    found = run("simulate", "-f", write(*WORLD), "-f", str(path))
    lines = [line.partition(": Invalid")[0].partition(": Unsupported")[0] for line in found.err.splitlines()]
    assert lines == [
        f'error: {path}: document 1 (line 11): The Pod "a" is invalid: spec.containers[0].ports[0].hostPort',
        f'error: {path}: document 2 (line 21): The Pod "b" is invalid: spec.nodeSelector',
        f'error: {path}: document 2 (line 24): The Pod "b" is invalid: spec.tolerations[0].effect',
    ]


DECLINED = "--assume-namespaces=false"
"""Missing namespaces are missing, as the API server says."""


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        (build_pod("web", namespace="shop"), 'namespaces "shop" not found'),
        (
            build_pod("web", runtimeClassName="gvisor"),
            'pods "web" is forbidden: pod rejected: RuntimeClass "gvisor" not found',
        ),
        (
            build_pod("web", overhead={"cpu": "1"}),
            'pods "web" is forbidden: pod rejected: Pod Overhead set without corresponding RuntimeClass defined '
            "Overhead",
        ),
        (
            build_pod("web", runtimeClassName="kata", overhead={"cpu": "1"}),
            "pods \"web\" is forbidden: pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
        ),
        (
            build_pod("web", runtimeClassName="kata", nodeSelector={"sandboxed": "false"}),
            'pods "web" is forbidden: conflict: runtimeClass.scheduling.nodeSelector[sandboxed] = true; '
            "pod.spec.nodeSelector[sandboxed] = false",
        ),
    ],
    ids=["namespace", "class", "overhead", "other overhead", "other nodes"],
)
@pytest.mark.parametrize("command", ["explain", "simulate"])
def test_denials_by_admission(run: Run, write: Write, command: str, manifest: Json, said: str) -> None:
    """All commands that ask about the pod have the same text and the same exit code."""
    path = write(manifest, name="pod.json")
    found = run(command, "-f", write(*WORLD), "-f", path, DECLINED)
    assert (found.code, found.err) == (1, "")
    assert f"Not created: 1 of 1 pod: {shorten_api_message(said)}" in " ".join(found.out.split())
    asked = run(command, "-f", write(*WORLD), "-f", path, DECLINED, "-o", "json")
    report = json.loads(asked.out)
    (lacking,) = report["notCreated"] if command == "simulate" else [report["notCreated"]]
    assert [each["message"] for each in lacking["failures"]] == [said]
    for other in ("wakes", "sampling", "remedies"):
        in_namespace = ("-n", manifest["metadata"]["namespace"])
        found = run(other, "pod/web", *in_namespace, "-f", write(*WORLD), "-f", path, DECLINED)
        assert (found.code, found.err) == (1, "")
        assert f"Not created: 1 of 1 pod: {shorten_api_message(said)}" in " ".join(found.out.split())


def test_objects_that_may_exist_are_not_reported_missing(run: Run, write: Write, tmp_path: Path) -> None:
    """The files contain no namespaces or classes except for one namespace that is applied."""
    shop = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    wanted = build_pod("web", namespace="lab", runtimeClassName="gvisor")
    path = tmp_path / "apply.yaml"
    path.write_text(f"{json.dumps(shop)}\n---\n{json.dumps(wanted)}\n")
    found = run("simulate", "-f", write(build_node("n1"), whole=False), "-f", str(path))
    assert "not found" not in found.err


def test_applied_namespace_exists(run: Run, write: Write) -> None:
    shop = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    found = run("simulate", "-f", write(*WORLD), "-f", write(shop, build_pod("web", namespace="shop"), name="pod.json"))
    assert found.code == 0


def test_pods_of_a_cluster_are_not_validated(run: Run, write: Write) -> None:
    """One pod has a UID, and the other one is bound."""
    wrong = {"tolerations": [{"key": "a", "operator": "Equals"}]}
    path = write(
        build_pod("a", uid="1", **wrong), build_pod("b", nodeName="n1", **wrong), build_pod("c"), name="pods.json"
    )
    assert run("simulate", "-f", write(*WORLD), "-f", path).code == 0


def test_template_whose_pods_would_be_denied(run: Run, write: Write) -> None:
    """The API server rejects white space around an image only when it creates the pods."""
    template = {"metadata": {"labels": {"app": "web"}}, "spec": build_pod("web")["spec"]}
    template["spec"]["containers"][0]["image"] = " web"
    inner = {"selector": {"matchLabels": {"app": "web"}}, "template": template}
    workload = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": inner}
    found = run("simulate", "-f", write(*WORLD), "-f", write(workload, name="web.json"))
    said = (
        'The Deployment "web" is accepted, but not its pods: Pod "web-" is invalid: spec.containers[0].image: Invalid '
        'value: " web": must not have leading or trailing whitespace'
    )
    assert found.err.endswith(f"items[0]: {said}\n")


def test_comparison_operators_need_their_feature_gate(run: Run, write: Write) -> None:
    wanted = build_pod("web", tolerations=[{"key": "a", "operator": "Gt", "value": "1"}])
    arguments = ("simulate", "-f", write(*WORLD), "-f", write(wanted, name="pod.json"))
    assert run(*arguments).code == 2
    assert run(*arguments, "--feature-gates", "TaintTolerationComparisonOperators=true").code == 0


@pytest.mark.parametrize("command", ["simulate", "capacity", "explain"])
def test_manifests_added_to_a_cluster_are_validated(run: Run, tmp_path: Path, command: str) -> None:
    path = tmp_path / "budget.yaml"
    path.write_text(
        """\
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: web, image: web}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec:
  minAvailable: "2"
"""
    )
    found = run(command, "-f", str(path), "--demo")
    said = 'The PodDisruptionBudget "web" is invalid: spec.minAvailable: Invalid value: "2": a valid percent string'
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith(f"error: {path}: document 2 (line 10): {said}")


AROUND = {
    "budget": (
        {"kind": "PodDisruptionBudget", "apiVersion": "policy/v1", "spec": {"minAvailable": 1, "maxUnavailable": 1}},
        "minAvailable and maxUnavailable cannot be both set",
    ),
    "priority": (
        {"kind": "PriorityClass", "apiVersion": "scheduling.k8s.io/v1", "value": 2_000_000_000},
        "maximum allowed value of a user defined priority is 1000000000",
    ),
    "claim": (
        {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "spec": {"resources": {"requests": {"storage": "1"}}}},
        "spec.accessModes: Required value",
    ),
    "storage": (
        {"kind": "StorageClass", "apiVersion": "storage.k8s.io/v1"},
        "provisioner: Required value",
    ),
}


@pytest.mark.parametrize("command", ["simulate", "capacity", "explain"])
@pytest.mark.parametrize(("manifest", "said"), AROUND.values(), ids=AROUND)
def test_manifests_among_nodes_are_validated_unless_from_a_server(
    run: Run, write: Write, command: str, manifest: Json, said: str
) -> None:
    """The manifests are in the file with the nodes, and in another file."""
    wrong = {**manifest, "metadata": {"name": "x"}}
    asked = write(build_pod("web"), name="pod.json")
    for files in ((write(*WORLD, wrong),), (write(*WORLD, name="w.json"), "-f", write(wrong, name="x.json"))):
        found = run(command, "-f", *files, "-f", asked)
        assert (found.code, found.out) == (2, "")
        assert f'The {manifest["kind"]} "x" is invalid: ' in found.err
        assert said in found.err
    stored = {**wrong, "metadata": {"name": "x", "uid": "1"}}
    assert run(command, "-f", write(*WORLD, stored), "-f", asked).code == 0


def test_invalid_budget_in_a_scenario_is_an_error(run: Run, write: Write, tmp_path: Path) -> None:
    scenario = tmp_path / "scenario.json"
    steps = [{"apply": {"manifests": [{**AROUND["budget"][0], "metadata": {"name": "x"}}]}}]
    scenario.write_text(json.dumps({"apiVersion": "kschedctl.dev/v1", "kind": "Scenario", "steps": steps}))
    found = run("whatif", str(scenario), "-f", write(*WORLD))
    assert (found.code, found.out) == (2, "")
    where = f"{scenario}: step 1 (apply): manifests[0], PodDisruptionBudget x"
    assert found.err.startswith(f'error: {where}: The PodDisruptionBudget "x" is invalid: spec: Invalid value')


def test_denials_are_certain_without_the_cluster(run: Run, write: Write) -> None:
    """Unread nodes and pods do not matter for a pod that is not created."""
    full = {"hard": {"pods": "1"}, "used": {"pods": "1"}}
    metadata = {"name": "q", "namespace": "default"}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {}, "status": full}
    cluster, manifest = write(build_node("n1"), quota, whole=False), write(build_pod("web"), name="web.json")
    for command in ("explain", "simulate"):
        found = run(command, "-f", cluster, "-f", manifest, "-o", "json")
        assert (found.code, json.loads(found.out).get("undecided", False)) == (1, False)
    assert run("simulate", "-f", write(build_node("n1"), whole=False), "-f", manifest).code == 5


FULL = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"}}
SOME = FULL | {"status": {"hard": {"pods": "3"}, "used": {"pods": "1"}}}


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ((), 5, "2 more until the quota is used up; the nodes have room for 4"),
        ((), 5, "The next one is not created: exceeded quota: q"),
        (("--max", "2"), 5, "Not certain: the files may lack Nodes"),
        (("--max", "3"), 1, "The next one is not created: exceeded quota: q, requested: pods=1, used: pods=3"),
    ],
)
def test_capacity_is_certain_if_admission_decides(
    run: Run, tmp_path: Path, options: tuple[str, ...], code: int, said: str
) -> None:
    """The files may lack nodes and pods, so it is open if two more pods fit.

    It is certain that no third is created.
    """
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    node["status"] = {"allocatable": {"cpu": "4", "memory": "4Gi", "pods": "9"}}  # type: ignore[assignment]
    for name, document in (("node.json", node), ("quota.json", SOME), ("pod.json", build_pod("web"))):
        (tmp_path / name).write_text(json.dumps(document))
    found = run("capacity", "-f", str(tmp_path), *options)
    assert found.code == code
    assert said in " ".join(found.out.split())


def test_denied_pods_come_first(run: Run, write: Write) -> None:
    full = FULL | {"status": {"hard": {"pods": "1"}, "used": {"pods": "1"}}}
    found = run("wakes", "-f", write(*WORLD, full), "-f", write(build_pod("web"), build_pod("db"), name="pods.json"))
    assert found.code == 1
    assert found.out.startswith(
        "Not created: 2 of 2 pods; 0 pods wait for a change that makes the scheduler retry them"
    )
