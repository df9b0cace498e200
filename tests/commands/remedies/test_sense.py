"""Check that fixes that do harm are not offered, and which alternatives come first."""

from __future__ import annotations

import pytest
from small import HOSTNAME, Json, build_node, build_pod, build_replica

from kschedctl import Cluster, remedies
from kschedctl.fixes.search import RemedyCriteria
from kschedctl.render.page import Style
from kschedctl.render.renderers import RENDERERS
from kschedctl.reports.placements import EvictionChain
from kschedctl.reports.remedy import Remedy, sort_incomplete_and_costly_fixes_last

ARCH, OS = "kubernetes.io/arch", "kubernetes.io/os"
TAINT = "node.kubernetes.io/"


def list_offered_fixes(*documents: Json, most: int = 1) -> list[Remedy]:
    return list(remedies(Cluster.from_objects(list(documents)), "d/p", RemedyCriteria(most)).remedies)


def list_kinds(*documents: Json, most: int = 1) -> list[str]:
    return ["+".join(each.kinds) for each in list_offered_fixes(*documents, most=most)]


def build_labelled_node(name: str, **labels: str) -> Json:
    found = build_node(name)
    found["metadata"]["labels"] |= labels
    return found


def build_node_of_architecture(name: str, arch: str, os: str = "linux") -> Json:
    found = build_node(name)
    found["metadata"]["labels"] |= {ARCH: arch, OS: os}
    return found


@pytest.mark.parametrize(("key", "value"), [(ARCH, "arm64"), (OS, "windows")])
def test_image_architecture_is_no_typo(key: str, value: str) -> None:
    """arm64 is as similar to amd64 as a typo would be."""
    found = list_offered_fixes(build_node_of_architecture("n1", "amd64"), build_pod("p", nodeSelector={key: value}))
    assert {each.kinds for each in found} == {("OtherSelector",), ("DropSelector",)}
    assert {each.weakens for each in found} == {
        f"its image could run on nodes that are not {value}: it must be built for those as well; "
        "pod d/p is deleted and recreated"
    }
    expression = {"key": key, "operator": "In", "values": [value]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    found = list_offered_fixes(build_node_of_architecture("n1", "amd64"), build_pod("p", affinity=affinity))
    assert {each.kinds[0] for each in found} == {"WidenNodeAffinity", "DropNodeAffinity", "SoftenNodeAffinity"}
    assert all(each.weakens and "must be built for those" in each.weakens for each in found)


def test_other_name_of_the_same_architecture_is_corrected() -> None:
    first = list_offered_fixes(
        build_node_of_architecture("n1", "amd64"),
        build_node_of_architecture("n2", "arm64"),
        build_pod("p", nodeSelector={ARCH: "x86_64"}),
    )[0]
    assert (first.kinds, first.opens) == (("CorrectSelector",), ("n1",))
    assert first.drawbacks == ("pod d/p is deleted and recreated",)


@pytest.mark.parametrize(
    "state", ["not-ready", "unreachable", "out-of-service", "network-unavailable", "disk-pressure"]
)
def test_unready_node_is_repaired(state: str) -> None:
    broken = build_node("n1", taints=[{"key": TAINT + state, "effect": "NoSchedule"}])
    (repair, add) = list_offered_fixes(broken, build_pod("p"))
    assert (repair.kinds, repair.summary) == (("RepairNode",), f"Make node n1 ready again ({state})")
    assert repair.commands == ("kubectl describe node n1",)
    assert add.kinds == ("AddNode",)


@pytest.mark.parametrize(
    "key",
    ["node.cloudprovider.kubernetes.io/uninitialized", "node.cilium.io/agent-not-ready", "karpenter.sh/unregistered"],
)
def test_starting_node_is_waited_for(key: str) -> None:
    taints = [{"key": key, "effect": "NoSchedule"}, {"key": TAINT + "not-ready", "effect": "NoSchedule"}]
    first = list_offered_fixes(build_node("n1", taints=taints), build_node("n2", unschedulable=True), build_pod("p"))[0]
    assert (first.kinds, first.summary) == (
        ("Wait",),
        f"Wait until node n1 is set up ({key.partition('/')[2]}, not-ready)",
    )


def test_uninitialized_nodes_wait_for_the_cloud_controller_manager() -> None:
    taint = {"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"}
    nodes = [build_node(name, taints=[taint]) for name in ("n1", "n2")]
    assert list_kinds(*nodes, build_pod("p")) == ["StartCloudController"]


def test_toleration_of_one_pool_is_not_corrected_to_another() -> None:
    """The pod tolerates pool db, which is full. Pool web is a different pool."""
    pools = [
        build_node(name, taints=[{"key": "dedicated", "value": name, "effect": "NoSchedule"}]) for name in ("db", "web")
    ]
    full = build_pod("full", "db", "4")
    asked = build_pod("p", tolerations=[{"key": "dedicated", "value": "db", "effect": "NoSchedule"}])
    assert not [each for each in list_offered_fixes(*pools, full, asked) if "correct" in each.summary.lower()]


def test_selected_pool_is_tolerated_first() -> None:
    taint = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}
    pool = build_labelled_node("n1", pool="db")
    pool["spec"]["taints"] = [taint]
    assert list_kinds(pool, build_node("n2"), build_pod("p", nodeSelector={"pool": "db"}))[0] == "Tolerate"
    assert "RemoveTaint" not in list_kinds(pool, build_node("n2"), build_pod("p", nodeSelector={"pool": "db"}))


def test_control_planes_are_tolerated_only_by_pods_that_select_nodes() -> None:
    control_plane = build_node("cp", taints=[{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}])
    full = build_pod("full", "n1", "4")
    assert "Tolerate" not in list_kinds(control_plane, build_node("n1"), full, build_pod("p"))
    assert "Tolerate" in list_kinds(control_plane, build_pod("p"))
    assert "Tolerate" in list_kinds(control_plane, build_node("n1"), build_pod("p", nodeSelector={HOSTNAME: "cp"}))


def test_uncordoning_advises_to_find_the_reason_first() -> None:
    (first, add) = list_offered_fixes(build_node("n1", unschedulable=True), build_pod("p"))
    assert first.summary == "Find out why node n1 is cordoned, then uncordon it"
    assert first.commands == ("# first find out why: kubectl describe node n1", "kubectl uncordon n1")
    assert add.kinds == ("AddNode",)


def build_gpu_node(**spec: object) -> Json:
    found = build_node("gpu", taints=[{"key": "nvidia.com/gpu", "effect": "NoSchedule"}], **spec)
    found["status"]["allocatable"]["nvidia.com/gpu"] = "1"
    return found


def test_nodes_with_devices_are_kept_for_pods_that_request_them() -> None:
    assert list_kinds(build_gpu_node(), build_pod("p")) == []
    (last,) = list_offered_fixes(build_gpu_node(), build_pod("p", nodeSelector={HOSTNAME: "gpu"}))
    assert (last.kinds, last.weakens) == (
        ("Tolerate",),
        "the pod takes capacity from pods that need the devices of the tainted nodes",
    )
    asks = build_pod("p")
    asks["spec"]["containers"][0]["resources"] = {
        "requests": {"nvidia.com/gpu": "1"},
        "limits": {"nvidia.com/gpu": "1"},
    }
    assert list_kinds(build_gpu_node(), build_node("n1"), asks)[0] == "Tolerate"
    assert "RemoveTaint" not in list_kinds(build_gpu_node(), build_node("n1"), asks)


def test_label_is_added_only_if_it_is_a_role_of_other_nodes() -> None:
    plain, edge, disk = build_node("n1"), build_labelled_node("n2", edge="true"), build_labelled_node("n3", disk="ssd")
    for each in (edge, disk):
        each["spec"]["unschedulable"] = True
    assert "LabelNode" in list_kinds(plain, edge, build_pod("p", nodeSelector={"edge": "true"}))
    assert "LabelNode" not in list_kinds(plain, disk, build_pod("p", nodeSelector={"disk": "ssd"}))
    assert "LabelNode" not in list_kinds(plain, disk, build_pod("p", nodeSelector={"disk": "floppy"}))
    assert "LabelNode" not in list_kinds(plain, build_pod("p", nodeSelector={"edge": "true"}))


def test_names_that_differ_in_a_number_are_no_typos() -> None:
    assert list_kinds(build_labelled_node("n1", rack="k7"), build_pod("p", nodeSelector={"rack": "k9"})) == [
        "OtherSelector",
        "DropSelector",
    ]
    assert (
        list_kinds(build_labelled_node("n1", pool2="blue"), build_pod("p", nodeSelector={"pool2": "bleu"}))[0]
        == "CorrectSelector"
    )


def build_requesting_pod(**resources: str) -> Json:
    asked = build_pod("p")
    asked["spec"]["containers"][0]["resources"] = {"requests": dict(resources), "limits": dict(resources)}
    return asked


GPU = "nvidia.com/gpu"


def test_no_node_is_invented_for_an_implausible_request() -> None:
    """500 CPUs were probably meant to be 500m. No node has 8 GPUs if the largest one has 1."""
    asked = build_requesting_pod(cpu="500")
    first, *others = list_offered_fixes(build_node("n1"), asked)
    assert (first.kinds, first.summary) == (("LowerRequest",), "Request 500m cpu instead of 500 in container c")
    assert "AddNode" not in [kind for each in others for kind in each.kinds]
    gpus = build_requesting_pod(**{GPU: "8"})
    gpus["spec"]["tolerations"] = [{"key": GPU, "operator": "Exists"}]
    report = remedies(Cluster.from_objects([build_gpu_node(), build_node("n1"), gpus]), "d/p", RemedyCriteria(1))
    assert "AddNode" not in [kind for each in report.remedies for kind in each.kinds]
    assert "the request looks wrong" in report.impossible[0]


def test_device_plugin_of_a_node_without_its_devices_is_checked() -> None:
    marked = build_labelled_node("g1", **{f"{GPU}.present": "true"})
    first = list_offered_fixes(marked, build_node("n1"), build_requesting_pod(**{GPU: "1"}))[0]
    assert (first.kinds, first.opens) == (("PublishResource",), ("g1",))
    assert first.summary == (
        f"Check the device plugin of {GPU} on node g1, which publishes none despite the label {GPU}.present=true"
    )


def test_device_of_one_node_is_not_expected_in_its_pool() -> None:
    pool = [build_labelled_node(name, pool="general") for name in ("n1", "n2", "n3")]
    pool[2]["status"]["allocatable"][GPU] = "1"
    holder = build_pod("holder", "n3")
    holder["spec"]["containers"][0]["resources"] = {"requests": {GPU: "1"}, "limits": {GPU: "1"}}
    adds = [
        each.summary
        for each in list_offered_fixes(*pool, holder, build_requesting_pod(**{GPU: "1"}))
        if each.kinds == ("AddNode",)
    ]
    assert adds == ["Add a node like n3 (most nodes of pool general lack its devices)"]


def test_files_on_a_missing_host_are_not_abandoned() -> None:
    files = {"volumes": [{"name": "v", "hostPath": {"path": "/data"}}]}
    affinity = {"key": "metadata.name", "operator": "In", "values": ["gone"]}
    required = {"nodeSelectorTerms": [{"matchFields": [affinity]}]}
    pinned = {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}
    for pin in ({"nodeSelector": {HOSTNAME: "gone"}}, pinned):
        report = remedies(
            Cluster.from_objects([build_node("n1"), build_pod("p", **files, **pin)]), "d/p", RemedyCriteria(2)
        )
        assert not report.remedies
        assert any(line.startswith("another host: gone is gone") for line in report.impossible)
        assert list_kinds(build_node("n1"), build_pod("p", **pin))[0] in ("DropSelector", "DropNodeAffinity")


def test_no_node_is_added_in_a_failed_zone() -> None:
    zone = "topology.kubernetes.io/zone"
    out = build_labelled_node("n1", **{zone: "a"})
    out["spec"]["taints"] = [{"key": f"{TAINT}unreachable", "effect": "NoSchedule"}]
    healthy = build_labelled_node("n2", **{zone: "b"})
    assert list_kinds(out, healthy, build_pod("p", nodeSelector={zone: "a"}))[0] == "RepairNode"
    assert "AddNode" not in list_kinds(out, healthy, build_pod("p", nodeSelector={zone: "a"}))


def test_permanently_tainted_domain_is_left_out_of_the_spread() -> None:
    spread = {
        "maxSkew": 1,
        "topologyKey": HOSTNAME,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "p"}},
    }
    running, asked = build_pod("q", "n1"), build_pod("p", topologySpreadConstraints=[spread])
    for each in (running, asked):
        each["metadata"]["labels"] = {"app": "p"}
    lasting = build_node("n2", taints=[{"key": "dedicated", "value": "db", "effect": "NoSchedule"}])
    assert list_kinds(build_node("n1"), lasting, running, asked)[0] == "NodeTaintsPolicy"
    assert list_kinds(build_node("n1"), build_node("n2", unschedulable=True), running, asked)[0] == "Uncordon"


def build_spec_with_port() -> Json:
    return {"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]}


def test_changed_port_and_fewer_replicas_come_last() -> None:
    owner = {"kind": "ReplicaSet", "name": "other"}
    found = list_kinds(
        build_node("n1"),
        build_pod("holder", "n1", owner=owner, **build_spec_with_port()),
        build_pod("p", **build_spec_with_port()),
    )
    assert found == ["AddNode", "OtherHostPort", "DropHostPort", "ScaleDown"]


def test_waiting_for_a_terminating_victim_comes_first() -> None:
    leaves = build_pod("leaves", "n1", "4")
    leaves["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    (first, *_) = list_offered_fixes(build_node("n1"), leaves, build_pod("p", cpu="2"))
    assert (first.kinds, first.summary) == (("Wait",), "Wait until 1 terminating pod leaves n1: d/leaves")
    assert first.commands == ("kubectl wait -n d --for=delete pod/leaves --timeout=5m",)


def test_local_data_of_a_moved_pod_is_mentioned() -> None:
    owner = {"kind": "ReplicaSet", "name": "other"}
    told = {}
    for name, volume in {"nothing": None, "scratch": {"emptyDir": {}}, "files": {"hostPath": {"path": "/x"}}}.items():
        volumes = [{"name": "v", **volume}] if volume else []
        moved = build_pod("other", "n1", "3", owner=owner, volumes=volumes)
        found = list_offered_fixes(
            build_node("n1"), build_node("n2", cpu="3"), moved, build_pod("p", nodeSelector={HOSTNAME: "n1"}, cpu="2")
        )
        told[name] = next(each.weakens for each in found if each.kinds == ("MovePod",))
    outage = "ReplicaSet d/other has no running pod until the replacement runs"
    uncordon = f"{outage}; uncordon n1 only once the replacements of evicted pods run"
    assert told == {
        "nothing": f"evicts d/other; {uncordon}",
        "scratch": f"evicts d/other, which loses the data in its emptyDir volumes; {uncordon}",
        "files": f"evicts d/other, which leaves the files of its hostPath volumes behind; {uncordon}",
    }


def test_node_stays_cordoned_while_two_pods_leave() -> None:
    """Otherwise, a waiting pod could take the room of the first pod before the second has left."""
    owner = {"kind": "ReplicaSet", "name": "other"}
    movable = [build_pod(f"o{i}", "n1", "2", owner=owner) for i in (1, 2)]
    waiting = build_pod("p", nodeSelector={HOSTNAME: "n1"}, cpu="4")
    found = list_offered_fixes(build_node("n1"), build_node("n2", cpu="4"), *movable, waiting, most=2)
    commands = next(each.commands for each in found if each.kinds == ("MovePod", "MovePod"))
    assert [command.split()[1] for command in commands if "cordon" in command] == ["cordon", "uncordon"]
    assert (commands[0], commands[-1]) == ("kubectl cordon n1", "kubectl uncordon n1")


@pytest.mark.parametrize("sibling", ["", "waits", "is not ready", "is on an unreachable node"])
def test_node_stays_cordoned_until_the_replacement_runs(sibling: str) -> None:
    """``kubectl rollout status`` waits until all pods of a Deployment are available, so it would end with an error."""
    documents = [
        build_node("n1"),
        build_node("n2", cpu="3"),
        build_replica("moved", "n1", cpu="3"),
        build_pod("p", nodeSelector={HOSTNAME: "n1"}, cpu="2"),
    ]
    if sibling == "waits":
        documents.append(build_replica("sibling", cpu="64"))
    elif sibling == "is not ready":
        documents += [build_node("n3", cpu="1"), build_replica("sibling", "n3")]
        documents[-1]["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    elif sibling == "is on an unreachable node":
        documents += [build_node("n3", cpu="1"), build_replica("sibling", "n3")]
        documents[-2]["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    found = list_offered_fixes(*documents)
    move = next(each for each in found if each.kinds == ("MovePod",))
    assert ("other pods of Deployment d/web are not available either" in (move.weakens or "")) == bool(sibling)
    commands = move.commands
    prompt = "echo 'Press Enter once the replacement of d/moved runs' && read -r REPLY"
    status = "kubectl rollout status -n d deployment/web --timeout=5m"
    assert commands[-2:] == (prompt if sibling else status, "kubectl uncordon n1")


def test_pod_of_the_lowest_priority_is_moved_first() -> None:
    """Both nodes are like each other, and the pod of the higher priority has the smaller name."""
    documents = [build_node("n1"), build_node("n2"), build_node("n3", cpu="3")]
    for name, node, priority in (("a", "n1", 1000), ("b", "n2", 10)):
        owner = {"kind": "ReplicaSet", "name": name}
        documents.append(build_pod(name, node, "3", owner=owner, priority=priority))
    documents.append(build_pod("p", cpu="4", priority=100, preemptionPolicy="Never"))
    found = list_offered_fixes(*documents)
    move = next(each for each in found if each.kinds == ("MovePod",))
    assert move.summary == "Move d/b from n2 to n3"
    assert move.alternatives == ("d/a",)


def test_commands_wait_for_the_grace_period() -> None:
    leaving = build_pod("leaves", "n1", "4", terminationGracePeriodSeconds=7200)
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T02:00:00Z"
    first = list_offered_fixes(build_node("n1"), leaving, build_pod("p"))[0]
    assert first.summary == (
        "Wait until 1 terminating pod leaves n1 (grace period 2 h, until 2026-01-01T02:00:00Z): d/leaves"
    )
    assert first.commands == ("kubectl wait -n d --for=delete pod/leaves --timeout=7260s",)


def test_scratch_data_of_removed_replicas_is_named() -> None:
    """Each of the two replicas on the only node has data on disk, which is deleted with the replica."""
    owner = {"kind": "ReplicaSet", "name": "other"}
    scratch = [{"name": "v", "emptyDir": {}}]
    running = [build_pod(f"o{number}", "n1", "2", owner=owner, volumes=scratch) for number in (1, 2)]
    for cpu, weakens in (
        ("2", "ReplicaSet d/other loses one replica; the emptyDir data of d/o1 is deleted"),
        ("4", "ReplicaSet d/other loses all 2 replicas; the emptyDir data of d/o1, d/o2 is deleted"),
    ):
        criteria = RemedyCriteria(2, only=frozenset({"ScaleDown"}))
        cluster = Cluster.from_objects([build_node("n1"), *running, build_pod("p", cpu=cpu)])
        assert remedies(cluster, "d/p", criteria).remedies[0].weakens == weakens


def test_last_replica_is_not_removed() -> None:
    owner = {"kind": "ReplicaSet", "name": "other"}
    running = [build_pod(f"o{i}", f"n{i}", "4", owner=owner) for i in (1, 2)]
    asked = build_pod("p", cpu="2", nodeSelector={HOSTNAME: "n1"})
    one = next(each for each in list_offered_fixes(build_node("n1"), running[0], asked) if each.kinds == ("ScaleDown",))
    assert one.weakens == "ReplicaSet d/other loses its last replica"
    two = next(
        each
        for each in list_offered_fixes(build_node("n1"), build_node("n2"), *running, asked)
        if each.kinds == ("ScaleDown",)
    )
    assert two.weakens == "ReplicaSet d/other loses one replica"


def test_terminating_victim_is_no_loss() -> None:
    """ownerReferences names its ReplicaSet, so the answer must not say that no controller recreates it."""
    high = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}
    owned, bare = (
        build_pod("owned", "n1", "2", owner={"kind": "ReplicaSet", "name": "other"}),
        build_pod("bare", "n1", "2"),
    )
    owned["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    asked = build_pod("p", cpu="4", nodeSelector={HOSTNAME: "n1"})
    told = [
        each
        for each in list_offered_fixes(build_node("n1"), high, owned, bare, asked)
        if "UsePriorityClass" in each.kinds
    ]
    assert told
    assert all("no controller recreates d/bare" in (each.weakens or "") for each in told)
    assert not any("d/owned (no" in (each.weakens or "") or "owns d/owned" in (each.weakens or "") for each in told)


@pytest.mark.parametrize(("cpu", "count", "lost"), [("3", 2, "2 of its 3 replicas"), ("4", 3, "all 3 replicas")])
def test_workload_is_scaled_down_once(cpu: str, count: int, lost: str) -> None:
    """Each of three replicas uses one of four CPUs."""
    owner = {"kind": "Deployment", "name": "other"}
    others = [build_pod(f"o{number}", "n1", "1", owner=owner) for number in range(3)]
    documents = [build_node("n1", cpu="4"), *others, build_pod("r", cpu=cpu)]
    criteria = RemedyCriteria(3, only=frozenset({"ScaleDown"}))
    (remedy, *_) = remedies(Cluster.from_objects(documents), "d/r", criteria).remedies
    assert remedy.kinds == ("ScaleDown",) * count
    remaining = 3 - count
    assert remedy.summary.startswith(f"Scale Deployment d/other down to {remaining}, which removes ")
    assert remedy.weakens == f"Deployment d/other loses {lost}"
    *costs, scale = remedy.commands
    assert scale == f"kubectl scale deployment -n d other --replicas={remaining}"
    assert len(costs) == (count if remaining else 0)
    assert all("pod-deletion-cost" in command for command in costs)


def test_fix_that_costs_more_pods_than_it_places_comes_last() -> None:
    def fix(name: str, pending: int = 0, *, also: int = 0, holds: bool = True) -> Remedy:
        chain = EvictionChain(evicted=pending, moved=0, returned=0, pending=pending, lost=0) if pending else None
        places = tuple(f"d/{number}" for number in range(also))
        return Remedy(
            name, "author", None, opens=(), commands=(), changes=(), chain=chain, holds=holds, also_places=places
        )

    costly, even, gainful = fix("costly", 2), fix("even", 1), fix("gainful", 2, also=1)
    plain, failing = fix("plain"), fix("failing", holds=False)
    assert sort_incomplete_and_costly_fixes_last([costly, even, gainful, plain, failing]) == (
        even,
        gainful,
        plain,
        failing,
        costly,
    )


@pytest.mark.parametrize(
    ("when_scaled", "clause"),
    [
        (None, "; its persistentVolumeClaimRetentionPolicy may delete the claims of that replica"),
        ("Retain", ""),
        ("Delete", "; its persistentVolumeClaimRetentionPolicy deletes the claims of that replica"),
    ],
)
def test_claims_of_a_removed_replica_follow_the_retention_policy(when_scaled: str | None, clause: str) -> None:
    owner = {"kind": "StatefulSet", "name": "db"}
    documents = [
        build_node("n1", cpu="2"),
        build_pod("db-0", "n1", "1", owner=owner),
        build_pod("db-1", "n1", "1", owner=owner),
        build_pod("p"),
    ]
    if when_scaled is not None:
        spec = {"replicas": 2, "persistentVolumeClaimRetentionPolicy": {"whenScaled": when_scaled}}
        stored = {"metadata": {"name": "db", "namespace": "d", "uid": "1"}, "spec": spec}
        documents.append({"apiVersion": "apps/v1", "kind": "StatefulSet", **stored})
    criteria = RemedyCriteria(1, only=frozenset({"ScaleDown"}))
    (remedy,) = remedies(Cluster.from_objects(documents), "d/p", criteria).remedies
    assert remedy.weakens == f"StatefulSet d/db loses one replica{clause}"


@pytest.mark.parametrize("by", ["author", "operator", ""])
def test_answer_without_fixes_says_so(by: str) -> None:
    """Only the operator can uncordon the node or add one."""
    cordoned = build_node("n1")
    cordoned["spec"]["unschedulable"] = True
    criteria = RemedyCriteria(1, by=by, without=frozenset({"Tolerate"}))
    report = remedies(Cluster.from_objects([cordoned, build_pod("p")]), "d/p", criteria)
    assert report.lacks_fixes is (by == "author")
    sentence = "no fix was found; others may help, since --by, --only or --without left some out"
    assert (sentence in report.summary().warnings) is (by == "author")
    for name in ("table", "markdown"):
        shown = " ".join(RENDERERS[name](report, Style()).split()).lower()
        assert ("others may help" in shown) is (by == "author")
        assert ("no fix was found" in shown) is (by == "author")
