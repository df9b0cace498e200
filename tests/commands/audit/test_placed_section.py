"""Check findings about placed pods that violate rules, and the replay against one pod at a time."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kschedctl.cluster import Cluster
from kschedctl.commands.audit.audited_cluster import AuditedCluster
from kschedctl.commands.audit.placed import build_placed_section
from kschedctl.commands.audit.placed.replayed import INTER_POD_AFFINITY, NODE_AFFINITY, PORTS, SPREAD, replay_bound_pods
from kschedctl.commands.audit.placed.report import PlacedSection
from kschedctl.scheduler.scheduler import Scheduler

Json = dict[str, Any]
ZONE = "topology.kubernetes.io/zone"
NOW = "2026-01-31T13:00:00Z"


def build_node(name: str, zone: str = "a", *taints: Json, cpu: str = "4", **labels: str) -> Json:
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, ZONE: zone, **labels}},
        "spec": {"taints": list(taints)} if taints else {},
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "20"}},
    }


def build_pod(name: str, on: str, cpu: str = "1", owner: str = "ReplicaSet", at: str = "", **spec: Any) -> Json:
    conditions = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": at}] if at else []
    app = name.rpartition("-")[0]
    owners = [{"controller": True, "apiVersion": "apps/v1", "kind": owner, "name": app}]
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "d", "labels": {"app": app}, "ownerReferences": owners},
        "spec": {
            "nodeName": on,
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}],
            **spec,
        },
        "status": {"phase": "Running", "conditions": conditions},
    }


def audit_placed_pods(*objects: Json, complete: bool = True) -> PlacedSection:
    cluster = Cluster.from_objects(objects, assume_complete=complete)
    return build_placed_section(AuditedCluster(Scheduler(cluster), NOW))


def get_severities(*objects: Json) -> dict[str, str]:
    """Return the severity of each rule that was found."""
    return {
        finding.rule.removeprefix("audit-placed-"): finding.severity for finding in audit_placed_pods(*objects).findings
    }


def build_taint(key: str, effect: str) -> Json:
    return {"key": key, "effect": effect}


def build_selector(app: str) -> Json:
    return {"matchLabels": {"app": app}}


def build_anti_affinity(app: str, key: str = "kubernetes.io/hostname") -> Json:
    term = {"labelSelector": build_selector(app), "topologyKey": key}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def build_affinity(app: str) -> Json:
    term = {"labelSelector": build_selector(app), "topologyKey": "kubernetes.io/hostname"}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def build_spread(app: str, skew: int = 1) -> list[Json]:
    constraint = {"maxSkew": skew, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    return [constraint | {"labelSelector": build_selector(app)}]


def build_container_with_port(number: int) -> list[Json]:
    return [{"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": number}]}]


N1, N2, N3 = build_node("n1", "a"), build_node("n2", "b"), build_node("n3", "b")
SOUND = (
    *(N1, N2, N3),
    build_pod("web-1", "n1", affinity=build_anti_affinity("web"), topologySpreadConstraints=build_spread("web")),
    build_pod("web-2", "n2", affinity=build_anti_affinity("web"), topologySpreadConstraints=build_spread("web")),
    build_pod("near-1", "n1", affinity=build_affinity("web"), containers=build_container_with_port(8080)),
    build_pod("near-2", "n2", containers=build_container_with_port(8080), nodeSelector={ZONE: "b"}),
    build_pod("own-1", "n2", tolerations=[{"operator": "Exists"}]),
)


def test_correctly_placed_pods_are_no_findings() -> None:
    sound = audit_placed_pods(*SOUND)
    assert (sound.state, sound.findings, sound.undecided) == ("sound", (), False)
    assert sound.headline == "all 5 placed pods comply with the scheduling rules"
    assert (sound.judged, sound.others) == (5, 0)
    with_agent = audit_placed_pods(*SOUND, build_pod("agent-1", "n1", owner="DaemonSet"))
    assert with_agent.headline == f"{sound.headline} (1 DaemonSet, static or terminating not checked)"


@pytest.mark.parametrize(
    ("rule", "severity", "objects"),
    [
        ("node-affinity", "note", (build_pod("gpu-1", "n1", nodeSelector={"gpu": "yes"}),)),
        ("taint", "note", (build_node("t", "a", build_taint("spot", "NoSchedule")), build_pod("plain-1", "t"))),
        (
            "not-evicted",
            "warning",
            (build_node("t", "a", build_taint("broken", "NoExecute")), build_pod("plain-1", "t")),
        ),
        ("anti-affinity", "warning", (build_pod("web-3", "n1", affinity=build_anti_affinity("web")),)),
        ("affinity", "note", (build_pod("near-3", "n3", affinity=build_affinity("web")),)),
        (
            "spread",
            "note",
            (build_pod("one-1", "n1", topologySpreadConstraints=build_spread("one")), build_pod("one-2", "n1")),
        ),
        ("ports", "error", (build_pod("near-3", "n1", containers=build_container_with_port(8080)),)),
        ("overcommitted", "error", (build_pod("big-1", "n3", "3"), build_pod("big-2", "n3", "2"))),
        ("node-gone", "warning", (build_pod("lost-1", "n9"),)),
    ],
)
def test_each_fault_is_found_alone(rule: str, severity: str, objects: tuple[Json, ...]) -> None:
    assert get_severities(*SOUND, *objects) == {rule: severity}


@pytest.mark.parametrize(
    "objects",
    [
        (build_node("t", "a", build_taint("broken", "NoExecute")), build_pod("ds-1", "t", owner="DaemonSet")),
        (build_pod("kube-1", "n1", owner="Node", nodeSelector={"gpu": "yes"}),),
        (
            build_node("t", "a", build_taint("node.kubernetes.io/unschedulable", "NoSchedule")),
            build_pod("plain-1", "t"),
        ),
        (
            build_node("t", "a", build_taint("node.kubernetes.io/memory-pressure", "NoSchedule")),
            build_pod("plain-1", "t"),
        ),
        (
            build_node("t", "a", build_taint("broken", "NoExecute")),
            build_pod("plain-1", "t", tolerations=[{"key": "broken", "operator": "Exists", "tolerationSeconds": 300}]),
        ),
        ({**build_pod("gpu-1", "n1", nodeSelector={"gpu": "yes"}), "status": {"phase": "Succeeded"}},),
        (
            build_pod(
                "soft-1",
                "n1",
                topologySpreadConstraints=[{**build_spread("soft")[0], "whenUnsatisfiable": "ScheduleAnyway"}],
            ),
        ),
    ],
)
def test_allowed_placements_are_no_findings(objects: tuple[Json, ...]) -> None:
    assert get_severities(*SOUND, *objects) == {}


@pytest.mark.parametrize("objects", [(), (N1,), (N1, build_pod("waits-1", ""))])
def test_cluster_without_placed_pods_has_no_findings(objects: tuple[Json, ...]) -> None:
    placed = audit_placed_pods(*objects)
    assert (placed.state, placed.judged, placed.findings) == ("sound", 0, ())
    assert placed.headline == "no pods are on nodes"


def test_terminating_pod_is_not_judged() -> None:
    leaving = build_pod("gpu-1", "n1", nodeSelector={"gpu": "yes"})
    leaving["metadata"]["deletionTimestamp"] = NOW
    lost = build_pod("lost-1", "n9")
    lost["metadata"]["deletionTimestamp"] = NOW
    assert get_severities(*SOUND, leaving) == {}
    assert get_severities(*SOUND, lost) == {"node-gone": "note"}


def test_pods_of_other_schedulers_are_counted() -> None:
    other = audit_placed_pods(*SOUND, build_pod("gpu-1", "n1", nodeSelector={"gpu": "yes"}, schedulerName="mine"))
    assert (other.judged, other.others, other.findings) == (5, 1, ())


def test_overcommitted_node_names_its_latest_pod() -> None:
    """The node has 4 CPUs.

    The pods of 1.5 and 2 CPUs fit, and the pod of 1 CPU, started one second later, makes it 4.5.
    """
    pods = (
        build_pod("a-1", "n1", "1500m", at="2026-01-31T12:00:00Z"),
        build_pod("b-1", "n1", "2", at="2026-01-31T12:30:00Z"),
        build_pod("c-1", "n1", "1", at="2026-01-31T12:30:01Z"),
    )
    (over,) = audit_placed_pods(N1, *pods).overcommitted
    assert (over.node, over.resource, over.requested, over.allocatable) == ("n1", "cpu", 4500, 4000)
    assert [(each.pod, each.requests, each.beyond) for each in over.arrivals] == [
        ("d/a-1", 1500, False),
        ("d/b-1", 2000, False),
        ("d/c-1", 1000, True),
    ]
    assert over.gap == 1.0
    (finding,) = audit_placed_pods(N1, *pods).findings
    assert finding.message == (
        "3 pods request 4.5 of 4 CPUs; d/c-1 was the first that did not fit, started at 2026-01-31T12:30:01Z, 1 s "
        "after the pod before it"
    )
    assert (finding.severity, finding.object) == ("error", "Node n1")


def test_deferred_resize_is_not_overcommitment() -> None:
    """Of 4 CPUs, one pod uses 1.

    The other pod runs with 0.5 CPUs and requests 4 by its resize: 5 are requested, 1.5 allocated.
    """
    grower = build_pod("grower-1", "n1", "4")
    resources = {"requests": {"cpu": "500m"}}
    grower["status"] = {
        "phase": "Running",
        "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}],
        "containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "500m"}, "resources": resources}],
    }
    placed = audit_placed_pods(N1, build_pod("a-1", "n1", "1"), grower)
    (finding,) = placed.findings
    assert (finding.rule, finding.severity) == ("audit-placed-deferred-resize", "warning")
    assert finding.message == (
        "d/grower-1 reserves 4 CPUs for a deferred resize but runs with 0.5: "
        "the scheduler counts 5 of 4 as requested, but the kubelet has allocated 1.5"
    )
    assert finding.fix == "Revert the resize of d/grower-1, or make room for it on the node"
    assert placed.headline == "1 node with a deferred resize that counts as requested"

    # 3.6 more are too much whatever becomes of the resize
    assert get_severities(N1, build_pod("a-1", "n1", "3600m"), grower)["overcommitted"] == "error"


def test_excessive_static_pod_is_not_the_schedulers_fault() -> None:
    pods = (
        build_pod("a-1", "n1", "3", at="2026-01-31T12:00:00Z"),
        build_pod("etcd-1", "n1", "2", "Node", at="2026-01-31T12:30:00Z"),
    )
    assert get_severities(N1, *pods) == {"overcommitted": "warning"}
    unknown = (build_pod("a-1", "n1", "3"), build_pod("etcd-1", "n1", "2", "Node", at="2026-01-31T12:30:00Z"))
    assert get_severities(N1, *unknown) == {"overcommitted": "error"}  # nobody knows who came last
    assert audit_placed_pods(N1, *unknown).overcommitted[0].gap is None


def test_nodes_without_allocatable_amounts_are_left_out() -> None:
    silent = {**N1, "status": {}}
    assert get_severities(silent, build_pod("a-1", "n1", "3")) == {}


def build_failed_pod(name: str, reason: str, on: str, at: str) -> Json:
    """Build a pod that its node's kubelet rejected."""
    failed = build_pod(name, on)
    failed["status"] = {"phase": "Failed", "reason": reason, "message": f"Pod was rejected: {name}", "startTime": at}
    return failed


def build_event(name: str, reason: str) -> Json:
    return {
        "kind": "Event",
        "apiVersion": "v1",
        "metadata": {"name": f"{name}.{reason}", "namespace": "d"},
        "involvedObject": {"kind": "Pod", "namespace": "d", "name": name},
        "reason": reason,
        "message": "gone",
    }


def test_pods_rejected_by_kubelets() -> None:
    objects = (
        build_failed_pod("a-1", "OutOfcpu", "n1", "2026-01-31T12:00:00Z"),
        build_failed_pod("a-2", "OutOfcpu", "n2", "2026-01-31T12:30:00Z"),
        build_failed_pod("a-3", "Evicted", "n2", "2026-01-31T12:30:00Z"),
        *(build_event("a-2", "OutOfcpu"), build_event("a-7", "OutOfcpu"), build_event("a-8", "OutOfexample.com/fpga")),
        build_event("a-9", "FailedScheduling"),
    )
    made = audit_placed_pods(*SOUND, *objects)
    assert [(each.reason, each.pods, each.gone) for each in made.refused] == [
        ("OutOfcpu", 2, 1),
        ("OutOfexample.com/fpga", 0, 1),
    ]
    assert made.refused[0].message == "Pod was rejected: a-2"
    first, second = made.findings
    assert first.message == (
        "2 pods failed, the last 30 min ago, on n1, n2; 1 pod more known only from events; Pod was rejected: a-2"
    )
    assert (first.severity, second.message) == ("warning", "1 pod known only from events")
    assert get_severities(*SOUND, build_failed_pod("a-1", "NodeShutdown", "n1", NOW)) == {"refused": "note"}


def build_claim(name: str, **fields: Any) -> Json:
    device = {"request": "r", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0", **fields}
    return {
        "kind": "ResourceClaim",
        "apiVersion": "resource.k8s.io/v1",
        "metadata": {"name": name, "namespace": "d"},
        "status": {"allocation": {"devices": {"results": [device]}}},
    }


def test_device_of_two_claims() -> None:
    (shared,) = audit_placed_pods(*SOUND, build_claim("one"), build_claim("two")).shared_devices
    assert (shared.device, shared.claims) == ("gpu.example.com/n1/gpu-0", ("d/one", "d/two"))
    assert get_severities(*SOUND, build_claim("one"), build_claim("two")) == {"shared-device": "error"}
    assert get_severities(*SOUND, build_claim("one"), build_claim("two", adminAccess=True)) == {}
    assert get_severities(*SOUND, build_claim("one", shareID="a"), build_claim("two", shareID="b")) == {}


def test_volume_in_another_zone() -> None:
    term = {"key": ZONE, "operator": "In", "values": ["b"]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [term]}]}
    volume = {
        "kind": "PersistentVolume",
        "metadata": {"name": "v"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "claimRef": {"namespace": "d", "name": "c"},
            "nodeAffinity": {"required": required},
        },
        "status": {"phase": "Bound"},
    }
    bound = {
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": "c",
            "namespace": "d",
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
        },
        "spec": {
            "volumeName": "v",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
        "status": {"phase": "Bound"},
    }
    using = [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]
    assert get_severities(*SOUND, volume, bound, build_pod("db-1", "n1", volumes=using)) == {"volumes": "warning"}
    assert get_severities(*SOUND, volume, bound, build_pod("db-1", "n2", volumes=using)) == {}
    made = audit_placed_pods(*SOUND, build_pod("db-1", "n2", volumes=using), complete=False)
    assert (made.state, made.undecided) == ("unknown", True)
    assert {"Node", "Pod", "PersistentVolumeClaim"} <= {each.kind for each in made.unknown}


def build_random_cluster(seed: int) -> list[Json]:
    """Build six nodes of two zones and fourteen pods on any nodes with all kinds of constraints."""
    pick = random.Random(seed)
    nodes = [build_node(f"n{i}", pick.choice("ab"), pool=pick.choice(["x", "y"])) for i in range(6)]
    pods = []
    for i in range(14):
        app = pick.choice(["web", "db"])
        spec: Json = {}
        if pick.random() < 0.3:
            spec["nodeSelector"] = {"pool": pick.choice("xy")}
        if pick.random() < 0.5:
            spec["affinity"] = pick.choice([build_anti_affinity, build_affinity])(pick.choice(["web", "db"]))
        if pick.random() < 0.4:
            spec["topologySpreadConstraints"] = build_spread(app, pick.choice([1, 2]))
        if pick.random() < 0.3:
            spec["containers"] = build_container_with_port(pick.choice([80, 81]))
        pods.append(build_pod(f"{app}-{i}", f"n{pick.randrange(6)}", **spec))
    return [*nodes, *pods]


@pytest.mark.parametrize("seed", range(8))
def test_replay_equals_that_of_single_pods(seed: int) -> None:
    """Each pod is taken out of the cluster and scheduled separately."""
    objects = build_random_cluster(seed)
    scheduler = Scheduler(Cluster.from_objects(objects))
    view = scheduler.view
    ours = {
        (each.rejected_by, view.pods.objects[position].metadata.name)
        for each in replay_bound_pods(scheduler).misplaced
        for position in each.positions.tolist()
    }
    expected = set()
    for one in (each for each in objects if each["kind"] == "Pod"):
        others = Scheduler(Cluster.from_objects([each for each in objects if each is not one]))
        (alone,) = Cluster.from_objects([{**one, "spec": {**one["spec"], "nodeName": ""}}]).pods
        framework = others.find_framework("default-scheduler")
        assert framework is not None
        cycle = others.run_cycle(framework, others.view.build_stored_pod(alone))
        row = others.view.nodes.index[one["spec"]["nodeName"]]
        for name, verdict in cycle.filter.verdicts.items():
            speaks = name in (NODE_AFFINITY, PORTS, SPREAD) or (
                name == INTER_POD_AFFINITY and "affinity" in one["spec"]
            )
            if verdict.rejected[row] and speaks:  # that others repel a pod is told of the others, which say so
                expected.add((name, one["metadata"]["name"]))
    assert ours == expected
    assert ours
