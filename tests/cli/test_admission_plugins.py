"""Check which admission plugins are enabled by an option or by the flags of kube-apiserver's pod."""

from __future__ import annotations

import json
from typing import Any

import pytest
from command_line import Json, Run, Write, build_node, build_pod

import kschedctl

FLAGS = ("--enable-admission-plugins=NodeRestriction,PodNodeSelector", "--default-not-ready-toleration-seconds", "30")
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "shop"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": build_pod("web")["spec"]},
    },
}
SHOP = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {
        "name": "shop",
        "uid": "s",
        "annotations": {"scheduler.alpha.kubernetes.io/node-selector": "pool=gold"},
    },
}
ACCOUNT = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "shop"}}


def build_api_server_pod(*flags: str) -> Json:
    found = build_pod("kube-apiserver-cp", namespace="kube-system", uid="a", nodeName="silver")
    command = {"image": "registry.k8s.io/kube-apiserver:v1.36.2", "command": ["kube-apiserver", *flags]}
    found["spec"]["containers"] = [{"name": "kube-apiserver", **command}]
    return found | {"status": {"phase": "Running"}}


def build_labelled_node(name: str) -> Json:
    found = build_node(name)
    found["metadata"]["labels"] = {"pool": name}
    return found


CLUSTER = (build_labelled_node("silver"), SHOP, ACCOUNT)
ASKS: dict[str, Any] = {
    "explain": lambda manifest: ("explain", "-f", manifest),
    "simulate": lambda manifest: ("simulate", "-f", manifest),
    "capacity": lambda manifest: ("capacity", "-f", manifest, "--max", "2"),
    "whatif": lambda manifest: ("whatif", json.dumps({"steps": [{"apply": {"files": [manifest]}}]})),
}


def is_rejected_by_affinity(out: str) -> bool:
    return "node(s) didn't match Pod's node affinity/selector" in out or "node affinity/selector" in out


@pytest.mark.parametrize("ask", ASKS)
def test_option_enables_plugins(run: Run, write: Write, ask: str) -> None:
    """The namespace's pool does not include the only node."""
    words = (*ASKS[ask](write(DEPLOYMENT, name="web.json")), "-f", write(*CLUSTER))
    assert not is_rejected_by_affinity(run(*words).out)
    shown = run(*words, "--admission-plugins", "PodNodeSelector,NodeRestriction")
    assert is_rejected_by_affinity(shown.out)
    assert shown.code == 1


@pytest.mark.parametrize("ask", ASKS)
def test_flags_of_the_api_server_enable_plugins(run: Run, write: Write, ask: str) -> None:
    """An explicit option takes precedence over the flags."""
    words = (*ASKS[ask](write(DEPLOYMENT, name="web.json")), "-f", write(*CLUSTER, build_api_server_pod(*FLAGS)))
    assert is_rejected_by_affinity(run(*words).out)
    assert not is_rejected_by_affinity(run(*words, "--admission-plugins", "AlwaysPullImages").out)


def test_denial_is_reported_once_per_workload_with_its_plugin(run: Run, write: Write) -> None:
    words = (
        "simulate",
        "-f",
        write(DEPLOYMENT, name="web.json"),
        "-f",
        write(*CLUSTER, build_api_server_pod(*FLAGS)),
        "-o",
        "json",
    )
    notes = " ".join(json.loads(run(*words).out)["assumed"])
    by = "--enable-admission-plugins of Pod kube-system/kube-apiserver-cp"
    assert notes.count(f"nodeSelector pool=gold by Namespace shop (PodNodeSelector is on: {by})") == 1


def test_pod_of_another_pool_is_denied_in_the_plugins_words(run: Run, write: Write) -> None:
    other = json.loads(json.dumps(DEPLOYMENT))
    other["spec"]["template"]["spec"]["nodeSelector"] = {"pool": "silver"}
    words = ("simulate", "-f", write(other, name="web.json"), "-f", write(*CLUSTER))
    assert run(*words).code in (0, 5)
    shown = run(*words, "--admission-plugins", "PodNodeSelector")
    assert "pod node label selector conflicts with its namespace node label selector" in " ".join(shown.out.split())
    assert "2 of 2 pods" in shown.out.splitlines()[0]
    assert shown.code == 1


REMADE = {
    "drain": ("drain", "silver"),
    "whatif": ("whatif", json.dumps({"steps": [{"drain": {"nodes": ["silver"]}}]})),
    "failures": ("failures", "--nodes"),
}


@pytest.mark.parametrize("ask", REMADE)
def test_recreated_pods_pass_the_plugins(run: Run, write: Write, ask: str) -> None:
    """The running pod is older than the namespace's node selector, which denies its replacement."""
    more = build_labelled_node("silver-2")
    more["metadata"]["labels"]["pool"] = "silver"
    by = {"kind": "ReplicaSet", "name": "web", "uid": "r", "controller": True, "apiVersion": "apps/v1"}
    old = build_pod("web-1", namespace="shop", uid="w", nodeName="silver", nodeSelector={"pool": "silver"})
    old["metadata"]["ownerReferences"] = [by]
    files = ("-f", write(*CLUSTER, more, old | {"status": {"phase": "Running"}}), "--assume-complete")
    said = "conflicts with its namespace node label selector"
    assert said not in " ".join(run(*REMADE[ask], *files).out.split())
    shown = run(*REMADE[ask], *files, "--admission-plugins", "PodNodeSelector")
    assert said in " ".join(shown.out.split())
    assert shown.code == 1


def test_unknown_plugin_is_an_error(run: Run) -> None:
    found = run("explain", "--demo", "--admission-plugins", "PodNodeSelektor")
    assert found.code == 2
    assert 'kube-apiserver has no admission plugin "PodNodeSelektor"' in found.err


def test_suggested_command_repeats_the_option(run: Run, write: Write) -> None:
    words = ("simulate", "-f", write(DEPLOYMENT, name="web.json"), "-f", write(*CLUSTER))
    shown = run(*words, "--admission-plugins", "PodNodeSelector")
    assert "--admission-plugins PodNodeSelector" in shown.out.partition("\nNext (")[2]


def test_extended_resource_toleration_plugin(run: Run, write: Write) -> None:
    accelerated = build_labelled_node("gpu")
    accelerated["spec"]["taints"] = [{"key": "example.com/gpu", "effect": "NoSchedule"}]
    accelerated["status"]["allocatable"]["example.com/gpu"] = "1"
    asking = build_pod("train", namespace="shop")
    asking["spec"]["containers"][0]["resources"] = {"limits": {"example.com/gpu": "1"}}
    cluster, manifest = write(accelerated, SHOP, ACCOUNT), write(asking, name="train.json")
    assert run("explain", "-f", manifest, "-f", cluster).code == 1
    on = ("--admission-plugins", "ExtendedResourceToleration")
    assert run("explain", "-f", manifest, "-f", cluster, *on).code == 0


def test_snapshots_keep_the_flags_of_the_api_server(run: Run, write: Write, tmp_path: Any) -> None:
    """The flags are read from single documents, and from a long JSON list, whose pods are not decoded completely."""
    saved = str(tmp_path / "saved.ksnap")
    pods = {
        "apiVersion": "v1",
        "kind": "PodList",
        "items": [build_api_server_pod(*FLAGS), build_pod("other", namespace="shop")],
    }
    run("snapshot", "save", "-f", write(*CLUSTER), "-f", write(pods, name="pods.json"), "-o", saved)
    of_file = kschedctl.Cluster.from_snapshot(saved)
    of_objects = kschedctl.Cluster.from_objects([*CLUSTER, build_api_server_pod(*FLAGS)])
    for cluster in (of_file, of_objects):
        assert cluster.api_server.enabled_optional_plugins == ("PodNodeSelector",)
        assert (cluster.api_server.not_ready_seconds, cluster.api_server.unreachable_seconds) == (30, 300)
    asked = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "shop"},
        "spec": build_pod("p")["spec"],
    }
    made = kschedctl.admit(of_objects, asked)
    assert made.object is not None
    seconds = [each["tolerationSeconds"] for each in made.object["spec"]["tolerations"]]
    assert seconds == [30, 300]
    assert "toleration of node.kubernetes.io/not-ready for 30 s by Pod kube-system/kube-apiserver-cp" in made.changed


def test_disabled_plugins_have_no_effect() -> None:
    """The server runs without a default plugin, so LimitRanges have no effect."""
    spec = {"limits": [{"type": "Container", "max": {"cpu": "1m"}}]}
    limit = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l", "namespace": "shop"}, "spec": spec}
    asking = build_pod("p", namespace="shop")
    asking["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}
    on = kschedctl.Cluster.from_objects([*CLUSTER, limit])
    off = kschedctl.Cluster.from_objects(
        [*CLUSTER, limit, build_api_server_pod("--disable-admission-plugins=LimitRanger")]
    )
    assert not kschedctl.admit(on, asking).allowed
    assert kschedctl.admit(off, asking).allowed


def test_anonymized_snapshot_keeps_no_other_names(run: Run, write: Write, tmp_path: Any) -> None:
    saved = str(tmp_path / "saved.ksnap")
    named = build_api_server_pod("--enable-admission-plugins=OurOwnPlugin,PodNodeSelector")
    run("snapshot", "save", "--anonymize", "-f", write(*CLUSTER, named), "-o", saved)
    kept = kschedctl.Cluster.from_snapshot(saved).api_server
    assert (kept.enabled, kept.where, kept.told_by) == (("PodNodeSelector",), "", "")


def test_limit_becomes_the_request_before_a_limit_range_applies(run: Run, write: Write) -> None:
    """The remaining room is enough for the limit."""
    spec = {"limits": [{"type": "Container", "defaultRequest": {"cpu": "100m"}}]}
    limit = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l", "namespace": "shop"}, "spec": spec}
    asking = build_pod("p", namespace="shop")
    asking["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "200m"}}
    (line,) = [
        line.split()
        for line in run("simulate", "-f", write(asking, name="p.json"), "-f", write(*CLUSTER, limit)).out.splitlines()
        if line.split()[:1] == ["cpu"]
    ]
    assert "0.2" in line
