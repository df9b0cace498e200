"""Check that ``simulate --autoscale`` with NodePools adds nodes for pods without room, round by round."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from command_line import Run

Json = dict[str, Any]
TERMS = [
    {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]},
    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
]


def build_instance_type(name: str, cpu: int) -> Json:
    """Build an instance type. 100m of CPU are not available to pods."""
    resources = {"cpu": str(cpu), "memory": "16Gi"}
    offerings = [{"Price": cpu / 10, "Requirements": TERMS}]
    return {
        "name": name,
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        "resources": resources,
        "offerings": offerings,
    }


TYPES = [build_instance_type("c.large", 2), build_instance_type("c.xlarge", 4)]
NODE: Json = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "full"},
    "status": {"allocatable": {"cpu": "1", "pods": "0"}},
}


def build_pool(**spec: object) -> Json:
    reference = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
    template = {"spec": {"requirements": [], "nodeClassRef": reference}}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "general"},
        "spec": {"template": template, **spec},
    }


def build_web(replicas: int, **spec: object) -> Json:
    container = {"name": "c", "image": "web", "resources": {"requests": {"cpu": "1800m"}}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container], **spec}}
    body = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "d"}, "spec": body}


def simulate_growth(run: Run, tmp_path: Path, *objects: Json, types: list[Json] | None = TYPES) -> tuple[int, Json]:
    (tmp_path / "c.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [NODE, *objects]}))
    (tmp_path / "t.json").write_text(json.dumps(types))
    of_types = ["--instance-types", str(tmp_path / "t.json")] if types else []
    done = run("simulate", "-f", str(tmp_path / "c.json"), "--autoscale", "--assume-complete", "-o", "json", *of_types)
    assert not done.err or done.code
    return done.code, json.loads(done.out)


def test_as_many_nodes_as_needed(run: Run, tmp_path: Path) -> None:
    """Two of three pods of 1800m fit on a node of 4 cores, of which 3900m are for pods.

    The third pod needs another node.
    """
    code, report = simulate_growth(run, tmp_path, build_pool(), build_web(3))
    growth = report["growth"]
    assert code == 0
    assert growth["autoscaler"] == "Karpenter"
    assert len(growth["placements"]) == 3
    assert len(set(growth["placements"].values())) == 2
    assert all(name.startswith("general-new-") for name in growth["placements"].values())


def test_pool_at_its_limit_launches_nothing(run: Run, tmp_path: Path) -> None:
    """A limit of one core is below both types."""
    code, report = simulate_growth(run, tmp_path, build_pool(limits={"cpu": "1"}), build_web(1))
    assert code == 1
    assert report["growth"]["placements"] == {}
    assert "all available instance types exceed limits for nodepool (NodePool=general)" in json.dumps(report["growth"])


def test_pods_with_anti_affinity_get_a_node_each(run: Run, tmp_path: Path) -> None:
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    code, report = simulate_growth(run, tmp_path, build_pool(), build_web(3, affinity=apart))
    assert code == 0
    assert len(set(report["growth"]["placements"].values())) == 3


def test_types_of_existing_nodes_decide_nothing(run: Run, tmp_path: Path) -> None:
    code, report = simulate_growth(run, tmp_path, build_pool(), build_web(1), types=None)
    assert code == 5
    assert "--instance-types" in report["growth"]["doubts"][0]


def test_steps_of_a_scenario(run: Run, tmp_path: Path) -> None:
    """With a limit of one core, the pool launches nothing.

    Once the limit is removed, it launches a node for the pod.
    """
    spec = build_web(1)["spec"]["template"]["spec"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "d", "uid": "1"}, "spec": spec}
    objects = [NODE, build_pool(limits={"cpu": "1"}), {**pod, "status": {"phase": "Pending"}}]
    (tmp_path / "c.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    types = {"instanceTypes": {"types": TYPES}}
    steps = [types, {"nodePool": {"name": "general", "spec": {"limits": None}}}, types]
    asked = ("whatif", json.dumps({"steps": steps}), "-f", str(tmp_path / "c.json"), "--assume-complete", "-o", "json")
    done = run(*asked)
    report = json.loads(done.out)
    limited, edited, launched = report["steps"]
    assert any("exceed limits" in note for note in limited["notes"])
    assert "the edit alone launches no nodes" in edited["notes"][0]
    assert launched["notes"] == ["general launches 1 node"]
    assert (launched["placed"], launched["pending"]) == (1, 0)
    assert "general-new-1" in json.dumps(report)
    (tmp_path / "types.json").write_text(json.dumps(TYPES))
    (tmp_path / "scenario.json").write_text(
        json.dumps({"steps": [*steps[:2], {"instanceTypes": {"files": ["types.json"]}}]})
    )
    with_types_of_file = json.loads(run(asked[0], str(tmp_path / "scenario.json"), *asked[2:]).out)["steps"][2]
    assert with_types_of_file == {**launched, "subject": "types.json"}
    wrong = run("whatif", json.dumps({"steps": [{"nodePool": {"name": "no", "spec": {}}}]}), *asked[2:4])
    assert (wrong.code, 'NodePool "no" not found' in wrong.err) == (2, True)
