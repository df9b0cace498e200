"""Check which admission plugins are enabled by an option or by the flags of kube-apiserver's pod."""

from __future__ import annotations

import json
from typing import Any

import pytest
from command_line import Json, Run, Write, node, pod

import kschedctl

FLAGS = ("--enable-admission-plugins=NodeRestriction,PodNodeSelector", "--default-not-ready-toleration-seconds", "30")
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "shop"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod("web")["spec"]},
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


def server(*flags: str) -> Json:
    found = pod("kube-apiserver-cp", namespace="kube-system", uid="a", nodeName="silver")
    command = {"image": "registry.k8s.io/kube-apiserver:v1.36.2", "command": ["kube-apiserver", *flags]}
    found["spec"]["containers"] = [{"name": "kube-apiserver", **command}]
    return found | {"status": {"phase": "Running"}}


def labelled(name: str) -> Json:
    found = node(name)
    found["metadata"]["labels"] = {"pool": name}
    return found


CLUSTER = (labelled("silver"), SHOP, ACCOUNT)
ASKS: dict[str, Any] = {
    "explain": lambda manifest: ("explain", "-f", manifest),
    "simulate": lambda manifest: ("simulate", "-f", manifest),
    "capacity": lambda manifest: ("capacity", "-f", manifest, "--max", "2"),
    "whatif": lambda manifest: ("whatif", json.dumps({"steps": [{"apply": {"files": [manifest]}}]})),
}


def wants_gold(out: str) -> bool:
    return "node(s) didn't match Pod's node affinity/selector" in out or "node affinity/selector" in out


@pytest.mark.parametrize("ask", ASKS)
def test_an_option_turns_them_on(run: Run, write: Write, ask: str) -> None:
    """The only node is not of the namespace's pool."""
    words = (*ASKS[ask](write(DEPLOYMENT, name="web.json")), "-f", write(*CLUSTER))
    assert not wants_gold(run(*words).out)
    shown = run(*words, "--admission-plugins", "PodNodeSelector,NodeRestriction")
    assert wants_gold(shown.out)
    assert shown.code == 1


@pytest.mark.parametrize("ask", ASKS)
def test_the_flags_of_the_server_do(run: Run, write: Write, ask: str) -> None:
    """And an explicit option wins over them."""
    words = (*ASKS[ask](write(DEPLOYMENT, name="web.json")), "-f", write(*CLUSTER, server(*FLAGS)))
    assert wants_gold(run(*words).out)
    assert not wants_gold(run(*words, "--admission-plugins", "AlwaysPullImages").out)


def test_it_is_told_once_a_workload_and_by_whom(run: Run, write: Write) -> None:
    words = ("simulate", "-f", write(DEPLOYMENT, name="web.json"), "-f", write(*CLUSTER, server(*FLAGS)), "-o", "json")
    notes = " ".join(json.loads(run(*words).out)["assumed"])
    by = "--enable-admission-plugins of Pod kube-system/kube-apiserver-cp"
    assert notes.count(f"nodeSelector pool=gold by Namespace shop (PodNodeSelector is on: {by})") == 1


def test_a_pod_of_another_pool_is_refused_in_the_plugin_s_words(run: Run, write: Write) -> None:
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
def test_pods_that_controllers_make_anew_meet_them(run: Run, write: Write, ask: str) -> None:
    """The one that runs came before the namespace asked for another pool: it is not created again."""
    more = labelled("silver-2")
    more["metadata"]["labels"]["pool"] = "silver"
    by = {"kind": "ReplicaSet", "name": "web", "uid": "r", "controller": True, "apiVersion": "apps/v1"}
    old = pod("web-1", namespace="shop", uid="w", nodeName="silver", nodeSelector={"pool": "silver"})
    old["metadata"]["ownerReferences"] = [by]
    files = ("-f", write(*CLUSTER, more, old | {"status": {"phase": "Running"}}), "--assume-complete")
    said = "conflicts with its namespace node label selector"
    assert said not in " ".join(run(*REMADE[ask], *files).out.split())
    shown = run(*REMADE[ask], *files, "--admission-plugins", "PodNodeSelector")
    assert said in " ".join(shown.out.split())
    assert shown.code == 1


def test_what_is_no_plugin(run: Run) -> None:
    found = run("explain", "--demo", "--admission-plugins", "PodNodeSelektor")
    assert found.code == 2
    assert 'kube-apiserver has no admission plugin "PodNodeSelektor"' in found.err


def test_the_next_command_has_the_option(run: Run, write: Write) -> None:
    words = ("simulate", "-f", write(DEPLOYMENT, name="web.json"), "-f", write(*CLUSTER))
    shown = run(*words, "--admission-plugins", "PodNodeSelector")
    assert "--admission-plugins PodNodeSelector" in shown.out.partition("\nNext\n")[2]


def test_extended_resources_are_tolerated(run: Run, write: Write) -> None:
    accelerated = labelled("gpu")
    accelerated["spec"]["taints"] = [{"key": "example.com/gpu", "effect": "NoSchedule"}]
    accelerated["status"]["allocatable"]["example.com/gpu"] = "1"
    asking = pod("train", namespace="shop")
    asking["spec"]["containers"][0]["resources"] = {"limits": {"example.com/gpu": "1"}}
    cluster, manifest = write(accelerated, SHOP, ACCOUNT), write(asking, name="train.json")
    assert run("explain", "-f", manifest, "-f", cluster).code == 1
    on = ("--admission-plugins", "ExtendedResourceToleration")
    assert run("explain", "-f", manifest, "-f", cluster, *on).code == 0


def test_the_seconds_and_plugins_of_the_server_are_kept_in_snapshots(run: Run, write: Write, tmp_path: Any) -> None:
    """From a long JSON list, whose pods are not read whole, as from single documents."""
    saved = str(tmp_path / "saved.ksnap")
    pods = {"apiVersion": "v1", "kind": "PodList", "items": [server(*FLAGS), pod("other", namespace="shop")]}
    run("snapshot", "save", "-f", write(*CLUSTER), "-f", write(pods, name="pods.json"), "-o", saved)
    of_file = kschedctl.Cluster.from_snapshot(saved)
    of_objects = kschedctl.Cluster.from_objects([*CLUSTER, server(*FLAGS)])
    for cluster in (of_file, of_objects):
        assert cluster.api_server.enabled_optional_plugins == ("PodNodeSelector",)
        assert (cluster.api_server.not_ready_seconds, cluster.api_server.unreachable_seconds) == (30, 300)
    asked = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "shop"},
        "spec": pod("p")["spec"],
    }
    made = kschedctl.admit(of_objects, asked)
    assert made.object is not None
    seconds = [each["tolerationSeconds"] for each in made.object["spec"]["tolerations"]]
    assert seconds == [30, 300]
    assert "toleration of node.kubernetes.io/not-ready for 30 s by Pod kube-system/kube-apiserver-cp" in made.changed


def test_what_is_disabled_does_nothing() -> None:
    """A default plugin that the server runs without: no LimitRange is looked at."""
    spec = {"limits": [{"type": "Container", "max": {"cpu": "1m"}}]}
    limit = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l", "namespace": "shop"}, "spec": spec}
    asking = pod("p", namespace="shop")
    asking["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}
    on = kschedctl.Cluster.from_objects([*CLUSTER, limit])
    off = kschedctl.Cluster.from_objects([*CLUSTER, limit, server("--disable-admission-plugins=LimitRanger")])
    assert not kschedctl.admit(on, asking).allowed
    assert kschedctl.admit(off, asking).allowed


def test_no_names_of_others_stay_in_a_snapshot_under_pseudonyms(run: Run, write: Write, tmp_path: Any) -> None:
    saved = str(tmp_path / "saved.ksnap")
    named = server("--enable-admission-plugins=OurOwnPlugin,PodNodeSelector")
    run("snapshot", "save", "--anonymize", "-f", write(*CLUSTER, named), "-o", saved)
    kept = kschedctl.Cluster.from_snapshot(saved).api_server
    assert (kept.enabled, kept.where, kept.told_by) == (("PodNodeSelector",), "", "")


def test_a_limit_is_a_request_before_a_limit_range_gives_one(run: Run, write: Write) -> None:
    """The room that is left is for the limit."""
    spec = {"limits": [{"type": "Container", "defaultRequest": {"cpu": "100m"}}]}
    limit = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l", "namespace": "shop"}, "spec": spec}
    asking = pod("p", namespace="shop")
    asking["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "200m"}}
    (line,) = [
        line.split()
        for line in run("simulate", "-f", write(asking, name="p.json"), "-f", write(*CLUSTER, limit)).out.splitlines()
        if line.split()[:1] == ["cpu"]
    ]
    assert "0.2" in line
