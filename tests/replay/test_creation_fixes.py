"""Check that the printed fixes for denied pods let all of them be created and scheduled."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, NamedTuple

import pytest
from control_plane import kubectl
from control_plane.patches import apply_json_patch
from control_plane.store import Store
from test_admitted_again import build_cluster, build_running_pod
from test_counted_pods import NODE, Json, build_deployment, build_quota, simulate_manifests

import kschedctl
from kschedctl.cli.inquiry import Inquiry
from kschedctl.cli.options import Scope, Source
from kschedctl.cli.subjects import find_named_targets
from kschedctl.commands.explain.one_pod import explain, explain_target
from kschedctl.commands.remedies import remedies
from kschedctl.commands.remedies.pod_fixes import find_pod_remedies
from kschedctl.replay.controllers.creation_fix_steps import StepKind
from kschedctl.reports.not_created import CreationFix, NotCreated

RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
HARDENED = "runAsNonRoot=true and seccompProfile.type=RuntimeDefault of the pod, allowPrivilegeEscalation=false"


def build_pods(replicas: int, requests: Json | None = None, limits: Json | None = None, **spec: Any) -> Json:
    """Build a Deployment with one container."""
    resources = {name: given for name, given in (("requests", requests), ("limits", limits)) if given}
    made = build_deployment(replicas, None)
    made["spec"]["template"]["spec"] |= {"containers": [{"name": "c", "image": "c", "resources": resources}], **spec}
    return made


def build_limit_range(kind: str = "Container", name: str = "l", **item: Json) -> Json:
    metadata = {"name": name, "namespace": "shop"}
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": metadata,
        "spec": {"limits": [{"type": kind, **item}]},
    }


def build_shop(**labels: str) -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "uid": "n", "labels": labels}}


def build_account(name: str = "default") -> Json:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "shop"}}


BARE: Json = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "c", "image": "c"}]}}


def build_priority_class(name: str) -> Json:
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": 9}


LABELLED: Json = {**NODE, "metadata": {"name": "n", "labels": {"rt": "kata"}}}
KATA: Json = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "kata"},
    "handler": "kata",
    "overhead": {"podFixed": {"cpu": "250m"}},
    "scheduling": {"nodeSelector": {"rt": "kata"}},
}
POOLED: Json = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {
        "name": "shop",
        "uid": "n",
        "annotations": {"scheduler.alpha.kubernetes.io/node-selector": "rt=kata"},
    },
}
SERVER: Json = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "kube-apiserver-n", "namespace": "kube-system", "uid": "a"},
    "spec": {
        "nodeName": "n",
        "containers": [
            {"name": "s", "image": "kube-apiserver:v1", "args": ["--enable-admission-plugins=PodNodeSelector"]}
        ],
    },
    "status": {"phase": "Running"},
}


class World(NamedTuple):
    """The objects around a Deployment, and the expected fixes, the best first."""

    objects: list[Json]
    manifest: Json
    fixes: tuple[str, ...]


WORLDS = {
    "pods": World(
        [build_quota("q", {"pods": "1"}, {"pods": "2"})],
        build_pods(6),
        ("set replicas to 1 instead of 6", "raise ResourceQuota q to pods=7"),
    ),
    "cpu": World(
        [build_quota("q", {"pods": "0", "requests.cpu": "900m"}, {"pods": "9", "requests.cpu": "1"})],
        build_pods(6, {"cpu": "100m"}),
        ("set replicas to 1 instead of 6", "raise ResourceQuota q to requests.cpu=1500m"),
    ),
    "both": World(
        [build_quota("q", {"pods": "0", "requests.cpu": "0"}, {"pods": "1", "requests.cpu": "250m"})],
        build_pods(6, {"cpu": "100m"}),
        ("set replicas to 1 instead of 6", "raise ResourceQuota q to pods=6, requests.cpu=600m"),
    ),
    "two quotas": World(
        [build_quota("a", {"pods": "0"}, {"pods": "1"}), build_quota("b", {"pods": "0"}, {"pods": "2"})],
        build_pods(3),
        ("set replicas to 1 instead of 3", "raise ResourceQuota a to pods=3 and ResourceQuota b to pods=3"),
    ),
    "demanded": World(
        [build_quota("q", {"requests.cpu": "0"}, {"requests.cpu": "1"})], build_pods(2), ("set requests.cpu for: c",)
    ),
    "demanded and used up": World(
        [build_quota("q", {"pods": "0", "limits.memory": "0"}, {"pods": "1", "limits.memory": "9Gi"})],
        build_pods(2, {"memory": "1Gi"}),
        ("set limits.memory for: c, and raise ResourceQuota q to pods=2",),
    ),
    "above the most": World(
        [build_limit_range(max={"cpu": "50m"})], build_pods(1, {"cpu": "100m"}), ("request 0.05 CPUs instead of 0.1",)
    ),
    "above the most, both": World(
        [build_limit_range(max={"cpu": "1"})],
        build_pods(1, {"cpu": "2"}, {"cpu": "4"}),
        ("request 1 CPU instead of 2, limit CPU to 1 instead of 4",),
    ),
    "above a default limit": World(
        [build_limit_range(default={"memory": "1Gi"})],
        build_pods(1, {"memory": "2Gi"}),
        ("limit memory to 2 GiB instead of the default of 1 GiB",),
    ),
    "below the least": World(
        [build_limit_range(min={"memory": "64Mi"})],
        build_pods(1, {"memory": "32Mi"}, {"memory": "32Mi"}),
        ("request 64 MiB of memory instead of 32 MiB, limit memory to 64 MiB instead of 32 MiB",),
    ),
    "ratio": World(
        [build_limit_range(maxLimitRequestRatio={"cpu": "4"})],
        build_pods(1, {"cpu": "100m"}, {"cpu": "1"}),
        ("request 0.25 CPUs instead of 0.1",),
    ),
    "pod as a whole": World(
        [build_limit_range("Pod", max={"cpu": "1"}, min={"memory": "1Gi"})],
        build_pods(1, {"cpu": "500m"}),
        ("request 1 GiB of memory, limit CPU to 0.5",),
    ),
    "two LimitRanges": World(
        [build_limit_range(max={"cpu": "4"}), build_limit_range(name="m", max={"cpu": "2"})],
        build_pods(1, {"cpu": "3"}, {"cpu": "3"}),
        ("request 2 CPUs instead of 3, limit CPU to 2 instead of 3",),
    ),
    "LimitRange, then quota": World(
        [build_quota("q", {"pods": "0"}, {"pods": "0"}), build_limit_range(max={"cpu": "50m"})],
        build_pods(1, {"cpu": "100m"}),
        ("request 0.05 CPUs instead of 0.1, and raise ResourceQuota q to pods=1",),
    ),
    "account": World(
        [build_shop(), build_account()],
        build_pods(1, serviceAccountName="robot"),
        ("create ServiceAccount shop/robot",),
    ),
    "priority class": World(
        [build_priority_class("urgent")],
        build_pods(1, priorityClassName="ugrent"),
        (
            "use PriorityClass urgent instead of ugrent, which does not exist",
            "create PriorityClass ugrent, here with value 0, which pods without a class have",
        ),
    ),
    "priority class that resembles none": World(
        [build_priority_class("urgent")],
        build_pods(2, priorityClassName="gold"),
        (
            "leave out priorityClassName gold, so that the priority is 0, or name a class that exists: urgent (9)",
            "create PriorityClass gold, here with value 0, which pods without a class have",
        ),
    ),
    "runtime class": World(
        [],
        build_pods(1, runtimeClassName="kata"),
        (
            "create RuntimeClass kata, here with a handler of that name, which the container runtimes of the nodes have"
            " to know",
        ),
    ),
    "system's priority class": World(
        [],
        build_pods(1, priorityClassName="system-cluster-critcal"),
        ("use PriorityClass system-cluster-critical instead of system-cluster-critcal, which does not exist",),
    ),
    "misspelled runtime class": World(
        [LABELLED, KATA],
        build_pods(1, runtimeClassName="katta"),
        (
            "use RuntimeClass kata instead of katta, which does not exist",
            "create RuntimeClass katta, here with a handler of that name, which the container runtimes of the nodes "
            "have to know",
        ),
    ),
    "Pod Security": World(
        [build_shop(**RESTRICTED)],
        build_pods(2),
        (
            f"set securityContext: {HARDENED} and capabilities.drop=[ALL] of c"
            " (the image has to run as a user other than root)",
            "enforce Pod Security baseline in namespace shop instead of restricted",
        ),
    ),
    "Pod Security, not to be had": World(
        [build_shop(**RESTRICTED)],
        build_pods(1, hostNetwork=True),
        (
            f"drop hostNetwork, and set securityContext: {HARDENED} and capabilities.drop=[ALL] of c"
            " (the image has to run as a user other than root)",
            "drop hostNetwork, and enforce Pod Security baseline in namespace shop instead of restricted",
            "enforce Pod Security privileged in namespace shop instead of restricted",
        ),
    ),
    "access to the host": World(
        [build_shop(**{"pod-security.kubernetes.io/enforce": "baseline"})],
        build_pods(1, hostPID=True, containers=[{"name": "c", "image": "c", "securityContext": {"privileged": True}}]),
        (
            "drop hostPID and privileged",
            "enforce Pod Security privileged in namespace shop instead of baseline",
        ),
    ),
    "less for each": World(
        [build_quota("q", {"requests.cpu": "0"}, {"requests.cpu": "400m"})],
        build_pods(6, {"cpu": "100m"}),
        (
            "request 0.066 CPUs instead of 0.1",
            "set replicas to 4 instead of 6",
            "raise ResourceQuota q to requests.cpu=600m",
        ),
    ),
    "less than the LimitRange allows": World(
        [
            build_quota("q", {"requests.memory": "0"}, {"requests.memory": "4Gi"}),
            build_limit_range(max={"memory": "2Gi"}),
        ],
        build_pods(4, {"memory": "3Gi"}),
        (
            "request 1 GiB of memory instead of 3 GiB",
            "request 2 GiB of memory instead of 3 GiB, and raise ResourceQuota q to requests.memory=8Gi",
        ),
    ),
    "namespace": World(
        [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}],
        build_pods(2),
        ("create Namespace shop",),
    ),
    "runtime class of other nodes": World(
        [LABELLED, KATA],
        build_pods(1, runtimeClassName="kata", nodeSelector={"rt": "runc"}),
        ("set nodeSelector rt=kata to match RuntimeClass kata",),
    ),
    "overhead": World(
        [LABELLED, KATA],
        build_pods(1, runtimeClassName="kata", overhead={"cpu": "1"}),
        ("leave overhead to the RuntimeClass",),
    ),
    "namespace of other nodes": World(
        [LABELLED, POOLED, SERVER],
        build_pods(1, nodeSelector={"rt": "runc"}),
        ("set nodeSelector rt=kata to match the namespace",),
    ),
    "all at once": World(
        [
            build_shop(),
            build_account(),
            build_quota("q", {"pods": "0"}, {"pods": "1"}),
            build_limit_range(max={"cpu": "1"}),
        ],
        build_pods(2, {"cpu": "2"}, serviceAccountName="robot"),
        ("create ServiceAccount shop/robot, and request 1 CPU instead of 2, and raise ResourceQuota q to pods=2",),
    ),
}


def apply_fix(store: Store, fix: CreationFix) -> None:
    """Run the commands of a fix, followed by the quota controller."""
    for command in fix.commands:
        kubectl.run(store, command)
    for found in store.of_kind("ResourceQuota"):
        found["status"]["hard"] = found["spec"]["hard"]


def edit_manifest(manifest: Json, fix: CreationFix) -> Json:
    """Return the manifest with the changes that its author makes."""
    found = deepcopy(manifest)
    for change in fix.changes:
        if change.get("kind") == "Deployment":
            found = apply_json_patch(found, change["patch"])
    return found


def report_not_created(world: World) -> NotCreated:
    """Return the report on the pods that could not be created."""
    (lacking,) = simulate_manifests(world.objects, world.manifest).not_created
    return lacking


@pytest.mark.parametrize("name", WORLDS)
def test_printed_fixes_let_all_pods_be_created_and_placed(name: str) -> None:
    world = WORLDS[name]
    lacking = report_not_created(world)
    assert tuple(fix.what for fix in lacking.fixes) == world.fixes
    for fix in lacking.fixes:
        store = Store(world.objects)
        apply_fix(store, fix)
        report = simulate_manifests(store.documents(), edit_manifest(world.manifest, fix))
        assert report.good, fix.what
        assert fix.opens == ("n",)
    told = explain(build_cluster(*world.objects), world.manifest).not_created
    assert told is not None
    assert tuple(fix.what for fix in told.fixes) == world.fixes


def test_every_kind_of_change_occurs() -> None:
    assert {kind for world in WORLDS.values() for fix in report_not_created(world).fixes for kind in fix.kinds} == set(
        StepKind
    )


NO_REMEDIES = ("demanded", "demanded and used up", "namespace of other nodes")
"""Cases without fixes: unknown amounts, and a pod that fits no node as it is written."""


@pytest.mark.parametrize("name", [name for name in WORLDS if name not in NO_REMEDIES])
def test_remedies_show_these_fixes(name: str) -> None:
    report = remedies(build_cluster(*WORLDS[name].objects), WORLDS[name].manifest)
    assert report.verdict == "NotCreated"
    assert sorted(r.summary.lower() for r in report.remedies) == sorted(what.lower() for what in WORLDS[name].fixes)


def test_no_fix_if_limit_ranges_contradict_each_other() -> None:
    objects = [build_limit_range(min={"cpu": "2"}), build_limit_range(name="m", max={"cpu": "1"})]
    assert not report_not_created(World(objects, build_pods(1, {"cpu": "1"}), ())).fixes


def test_created_pods_that_stay_pending_are_reported() -> None:
    """The quota is 0, and no node has the 99 CPUs of the pods. Raising the quota alone gives no pod a node."""
    world = World([build_quota("q", {"pods": "0"}, {"pods": "0"})], build_pods(1, {"cpu": "99"}), ())
    (fix,) = report_not_created(world).fixes
    assert fix.then.startswith("0/1 nodes are available: 1 Insufficient cpu")
    report = remedies(kschedctl.Cluster.from_objects([NODE, *world.objects]), world.manifest)
    assert report.verdict == "NotCreated"
    assert report.impossible[0] == f"raise ResourceQuota q to pods=1: the pod is then created but waits: {fix.then}"
    assert all(remedy.summary.startswith("Raise ResourceQuota q to pods=1, and ") for remedy in report.remedies)


# -- workloads of the cluster ----------------------------------------------------------------------------------------


def build_stored_deployment(manifest: Json, there: int) -> list[Json]:
    """Build an existing Deployment with its ReplicaSet and some of the pods."""
    labels = {"app": "web", "pod-template-hash": "5d"}
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "controller": True, "uid": "d"}
    spec = deepcopy(manifest["spec"])
    spec["template"]["metadata"]["labels"] = labels
    metadata = {"name": "web-5d", "namespace": "shop", "uid": "r", "labels": labels, "ownerReferences": [owner]}
    status = {"replicas": there}
    sets = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec, "status": status}
    made = {**manifest, "metadata": {**manifest["metadata"], "uid": "d"}, "status": {"replicas": there}}
    return [made, sets, *(build_running_pod(f"web-5d-{number}") for number in range(there))]


def find_web_target(documents: list[Json]) -> Any:
    """Return the target pod of Deployment web."""
    inquiry = Inquiry(kschedctl.Cluster.from_objects(documents), now="2026-05-06T09:12:00Z")
    return find_named_targets(inquiry, ["deploy/web"], Scope("shop"), Source())[0]


@pytest.mark.parametrize("name", ["pods", "cpu", "above the most", "above the most, both", "ratio", "priority class"])
def test_workload_with_fewer_pods_than_desired(name: str) -> None:
    """The commands are enough, and change the Deployment, not its ReplicaSet."""
    world = WORLDS[name]
    found = find_web_target([NODE, *world.objects, *build_stored_deployment(world.manifest, 0)])
    report = find_pod_remedies(found)
    assert (report.verdict, len(report.remedies)) == ("NotCreated", len(world.fixes))
    assert explain_target(found).not_created.fixes  # type: ignore[union-attr]
    for fix in found.not_created.fixes:
        store = Store([*world.objects, *build_stored_deployment(world.manifest, 0)])
        assert fix.commands
        apply_fix(store, fix)
        manifest = next(iter(store.of_kind("Deployment")))
        around = [each for each in store.documents() if each["kind"] not in ("Deployment", "ReplicaSet")]
        written = {**world.manifest, "spec": manifest["spec"]}
        assert simulate_manifests(around, written).good, fix.what


def test_pods_that_run_and_would_be_replaced_are_counted() -> None:
    """One of three pods runs, and a changed template restarts it."""
    world = WORLDS["above the most"]
    found = find_web_target([NODE, *world.objects, *build_stored_deployment(build_pods(3, {"cpu": "100m"}), 1)])
    assert [fix.restarts for fix in found.not_created.fixes] == [1]


def test_equal_bare_pods_share_a_fix() -> None:
    """Two of five bare pods are created, for a quota of two. Three pods of a Deployment come after them."""
    bare = [{**BARE, "metadata": {"name": f"p{number}", "namespace": "shop"}} for number in range(5)]
    world = [build_quota("q", {"pods": "0"}, {"pods": "2"})]
    *alone, web = simulate_manifests(world, *bare, build_pods(3)).not_created
    assert [[fix.what for fix in each.fixes] for each in alone] == [["raise ResourceQuota q to pods=5"]] * 3
    (last,) = web.fixes
    assert last.what == "raise ResourceQuota q to pods=8"
    store = Store(world)
    apply_fix(store, last)
    assert simulate_manifests(store.documents(), *bare, build_pods(3)).good


@pytest.mark.parametrize("most", ["3", "4"], ids=["both claims are missing", "one of them was created"])
def test_quotas_of_claims_of_a_stateful_set(most: str) -> None:
    """Each of three pods has two claims, and one claim is of another workload: seven in all."""
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    templates = [{"metadata": {"name": name}, "spec": claim} for name in ("data", "log")]
    template = {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "c", "image": "c"}]}}
    spec = {"replicas": 3, "selector": {"matchLabels": {"app": "db"}}, "template": template, "serviceName": "db"}
    metadata = {"name": "db", "namespace": "shop"}
    db: Json = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata}
    db["spec"] = {**spec, "volumeClaimTemplates": templates}
    used = {"persistentvolumeclaims": "1", "requests.storage": "1Gi"}
    found = build_quota("q", used, {"persistentvolumeclaims": most, "requests.storage": "9Gi"})
    lacking = report_not_created(World([found], db, ()))
    assert (lacking.creatable, lacking.missing) == (1, 2)
    (fix,) = lacking.fixes
    assert fix.what == "raise ResourceQuota q to persistentvolumeclaims=7"
    store = Store([found])
    apply_fix(store, fix)
    assert not simulate_manifests(store.documents(), db).not_created
