"""Check that commands that create pods say if quotas, LimitRanges or Pod Security were not evaluated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import Json, Run, Write, build_node, build_pod

from kschedctl.sources.archive_file import read_archive

MAY_DENY = " by which the API server may deny the pods ("
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
ASKS = {
    "explain": lambda cluster, manifest: ("explain", "-f", manifest, "-f", cluster),
    "simulate": lambda cluster, manifest: ("simulate", "-f", manifest, "-f", cluster),
    "capacity": lambda cluster, manifest: ("capacity", "-f", manifest, "-f", cluster, "--max", "1"),
    "whatif": lambda cluster, manifest: (
        *("whatif", json.dumps({"steps": [{"apply": {"files": [manifest]}}]}), "-f", cluster),
    ),
    "drain": lambda cluster, manifest: ("drain", "n1", "-f", cluster),
    "one more": lambda cluster, manifest: ("explain", "deploy/web", "-n", "shop", "-f", cluster),
}
REPLAYED = {
    "Namespace": ("explain", "simulate", "capacity", "whatif"),
    "LimitRange": ("explain", "simulate", "capacity", "whatif", "drain"),
    "ResourceQuota": (),
}
"""Who has pods pass which: of pods that are there no security context is known; these quotas have no status."""


def build_namespace(**labels: str) -> Json:
    named = {f"pod-security.kubernetes.io/{mode}": level for mode, level in labels.items()}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": named}}


def limit(kind: str, name: str, namespace: str = "shop") -> Json:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": {}}


def build_running_pod() -> Json:
    """Build a pod of the Deployment on n1."""
    found = build_pod("web-5d-x", namespace="shop", uid="u", nodeName="n1")
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d", "controller": True, "uid": "r"}
    found["metadata"] |= {"labels": {"app": "web", "pod-template-hash": "5d"}, "ownerReferences": [owner]}
    return found | {"status": {"phase": "Running"}}


def list_failure_lines(run: Run, arguments: tuple[str, ...]) -> list[str]:
    """Return the lines of the report about the failure, which the page has once."""
    report = json.loads(run(*arguments, "-o", "json").out)
    found = [line for line in report["notReplayed"] if MAY_DENY in line]
    assert " ".join(run(*arguments).out.split()).count(MAY_DENY) == len(found)
    return [line.partition(MAY_DENY)[2].removesuffix(")") for line in found]


@pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS)
@pytest.mark.parametrize(
    ("besides", "told"),
    [
        ([limit("ResourceQuota", "gold")], ["namespace shop has ResourceQuota gold"]),
        ([limit("LimitRange", "sizes")], ["namespace shop has LimitRange sizes"]),
        ([build_namespace(enforce="restricted")], ["namespace shop has Pod Security restricted"]),
        ([build_namespace(enforce="privileged", warn="restricted")], []),
        ([limit("ResourceQuota", "gold", "elsewhere")], []),
    ],
    ids=["quota", "limits", "policy", "no policy", "of another namespace"],
)
def test_limits_of_the_namespace_are_named(
    run: Run, write: Write, ask: Any, besides: list[Json], told: list[str]
) -> None:
    besides = [*besides, *([] if any(each["kind"] == "Namespace" for each in besides) else [build_namespace()])]
    cluster = write(build_node("n1"), build_node("n2"), build_running_pod(), *besides)
    replayed = REPLAYED[besides[0]["kind"]]
    told = [] if any(ask is ASKS[name] for name in replayed) else told
    assert list_failure_lines(run, ask(cluster, write(DEPLOYMENT, name="web.json"))) == told


def test_several_limits_are_named_in_one_line(run: Run, write: Write) -> None:
    many = [limit("ResourceQuota", name) for name in "abcde"]
    cluster = write(build_node("n1"), build_namespace(enforce="baseline"), *many, limit("LimitRange", "l"))
    (told,) = list_failure_lines(run, ("simulate", "-f", write(DEPLOYMENT, name="web.json"), "-f", cluster))
    assert told == "namespace shop has ResourceQuota a, ResourceQuota b, ResourceQuota c and 2 more"


def test_unread_limits_are_named(run: Run, write: Write) -> None:
    cluster, manifest = write(build_node("n1"), build_namespace(), whole=False), write(DEPLOYMENT, name="web.json")
    for command in ("simulate", "capacity", "explain"):
        (told,) = list_failure_lines(run, (command, "-f", manifest, "-f", cluster))
        kinds = "ResourceQuotas, LimitRanges, ServiceAccounts, admission webhooks or admission policies"
        assert told == f"the files may lack {kinds}"


def test_limits_are_not_mentioned_for_existing_pods(run: Run, write: Write) -> None:
    cluster = write(
        build_node("n1"), build_running_pod(), build_pod("waits", "99", "shop", uid="w"), limit("ResourceQuota", "gold")
    )
    assert list_failure_lines(run, ("explain", "waits", "-n", "shop", "-f", cluster)) == []
    assert list_failure_lines(run, ("explain", "-n", "shop", "-f", cluster)) == []
    assert list_failure_lines(run, ("simulate", "--pending", "-f", cluster)) == []
    cordon = json.dumps({"steps": [{"cordon": {"nodes": ["n1"]}}]})
    assert list_failure_lines(run, ("whatif", cordon, "-f", cluster)) == []


@pytest.mark.parametrize("command", ["explain", "simulate"])
@pytest.mark.parametrize("kind", ["LimitRange", "ResourceQuota"])
def test_limits_in_files_are_read(run: Run, write: Write, command: str, kind: str) -> None:
    """They are not reported as kinds that scheduling does not read, although they are not evaluated either."""
    cluster, manifest = write(build_node("n1"), build_namespace()), write(DEPLOYMENT, limit(kind, "l"), name="web.json")
    arguments = (command, "-f", manifest, "--snapshot", _save_snapshot(run, cluster))
    replayed = kind == "LimitRange"
    assert list_failure_lines(run, arguments) == ([] if replayed else [f"namespace shop has {kind} l"])
    assert kind not in run(*arguments).err


def _save_snapshot(run: Run, cluster: str) -> str:
    path = f"{cluster}.ksnap"
    assert run("snapshot", "save", "-f", cluster, "-o", path).code == 0
    return path


def test_anonymized_policy_is_still_reported(run: Run, write: Write, tmp_path: Path) -> None:
    """It is no secret that a namespace restricts its pods."""
    for level, told in (("privileged", []), ("baseline", ["Pod Security baseline"])):
        path = str(tmp_path / f"{level}.ksnap")
        cluster = write(build_node("n1"), build_node("n2"), build_running_pod(), build_namespace(enforce=level))
        assert run("snapshot", "save", "-f", cluster, "-o", path, "--anonymize").code == 0
        (moved,) = read_archive(path).pods
        found = list_failure_lines(run, ("drain", moved.spec.node_name, "--snapshot", path))
        assert [line.partition(" has ")[2] for line in found] == told


def test_simulation_begins_with_the_pods_that_a_quota_denies(run: Run, write: Write) -> None:
    """3 of 4 pods are in use, so only one of the two new pods is created."""
    quota_status = {"status": {"hard": {"pods": "4"}, "used": {"pods": "3"}}}
    cluster = write(build_node("n1"), build_namespace(), limit("ResourceQuota", "gold") | quota_status)
    result = run("simulate", "-f", write(DEPLOYMENT, name="web.json"), "-f", cluster)
    assert result.code == 1
    counts = "1 of 2 pods (2 wanted, 1 can be created)"
    said = f"{counts}: exceeded quota: gold, requested: pods=1, used: pods=4, limited: pods=4"
    assert " ".join(result.out.split()).startswith(f"Not created: {said}; 1 of 2 pods gets a node")

    # If the manifests have several workloads, the headline names the workload whose pods are missing
    free_namespace = build_namespace() | {"metadata": {"name": "free"}}
    other_deployment = DEPLOYMENT | {"metadata": {"name": "api", "namespace": "free"}}
    other = write(free_namespace, other_deployment, name="api.json")
    result = run("simulate", "-f", write(DEPLOYMENT, name="web.json"), "-f", other, "-f", cluster)
    assert " ".join(result.out.split()).startswith(f"Not created: Deployment shop/web: {said}; ")


def test_only_what_is_not_replayed_is_named(run: Run, write: Write) -> None:
    """The files contain neither quotas nor LimitRanges, which may exist nevertheless.

    Pod Security is enforced by a policy.
    """
    cluster = write(build_node("n1"), build_node("n2"), build_running_pod(), build_namespace(enforce="restricted"))
    report = json.loads(run("drain", "n1", "-f", cluster, "-o", "json").out)
    assert f"webhooks and policies{MAY_DENY}namespace shop has Pod Security restricted)" in report["notReplayed"]
