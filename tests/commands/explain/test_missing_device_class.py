"""Check in all commands that a pod waits if the DeviceClass of its claim does not exist."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Json, Run, Write, build_node, build_pod

REASON = "request r: device class gone does not exist"
GATES = ("", "DRANodeAllocatableResources=true")


def build_claim() -> Json:
    request = {"name": "r", "exactly": {"deviceClassName": "gone"}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "default"},
        "spec": {"devices": {"requests": [request]}},
    }


@pytest.mark.parametrize("gates", GATES)
@pytest.mark.parametrize("command", ["explain", "simulate", "capacity", "whatif", "drain", "failures"])
def test_missing_device_class_is_the_reason(run: Run, write: Write, tmp_path: Path, command: str, gates: str) -> None:
    waiting = {"apiVersion": "v1", **build_pod("p", resourceClaims=[{"name": "d", "resourceClaimName": "c"}])}
    manifest = write(waiting, name="pod.json")
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(f"steps:\n- apply: {{files: [{manifest}]}}\n")
    asked = {
        "simulate": ("-f", manifest),
        "capacity": ("-f", manifest),
        "whatif": (str(scenario),),
        "drain": ("w1",),
        "failures": ("--nodes",),
        "explain": ("p",),
    }
    there = (waiting,) if command in ("explain", "drain", "failures") else ()
    cluster = write(build_node("w1"), build_node("w2"), build_claim(), *there)
    options = ("--feature-gates", gates) if gates else ()
    code, out, err = run(command, *asked[command], "-f", cluster, "--assume-complete", *options, "-o", "json")
    assert code in ((1,) if command in ("explain", "simulate", "whatif") else (0, 1)), err
    assert command in ("drain", "failures") or REASON in json.dumps(json.loads(out))


def test_missing_claim_template_is_named_first(run: Run, write: Write) -> None:
    """kube-scheduler only says that the claim is not created yet; the command shows the templates, too."""
    waiting = build_pod("p", resourceClaims=[{"name": "d", "resourceClaimTemplateName": "gone"}])
    waiting["metadata"]["uid"] = "p"
    message = 'pod "default/p": ResourceClaim not created yet'
    found = run("explain", "p", "-f", write(build_node("w1"), waiting))
    text = " ".join(found.out.split())
    assert text.startswith(f"default/p Held back: ResourceClaimTemplate default/gone does not exist: {message}")
    assert "kubectl get resourceclaimtemplates,resourceclaims,deviceclasses,resourceslices -n default" in text
    found = run("explain", "-A", "-f", write(build_node("w1"), waiting))
    assert "ResourceClaimTemplate default/gone does not exist" in " ".join(found.out.split())

    # simulate names it as the cause, and the template of another namespace does not count
    spec = {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}}
    metadata = {"name": "gone", "namespace": "other"}
    template = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": metadata, "spec": spec}
    found = run("simulate", "--pending", "-f", write(build_node("w1"), waiting, template))
    cause = "ResourceClaimTemplate default/gone does not exist, so its ResourceClaim is not created"
    assert cause in " ".join(found.out.split())
    metadata["namespace"] = "default"
    found = run("explain", "p", "-f", write(build_node("w1"), waiting, template))
    assert f"Held back: {message}" in " ".join(found.out.split())
