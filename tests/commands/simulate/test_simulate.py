"""Check `simulate`: created pods, the queue, preemption, rollouts, and runs with several seeds."""

from __future__ import annotations

import pytest
from small import (
    HOSTNAME,
    ZONE,
    Json,
    build_budget,
    build_node,
    build_pod,
    build_pod_spec,
    build_replica,
    build_spread,
    build_workload,
)

from kschedctl.cluster import Cluster
from kschedctl.commands.simulate import simulate
from kschedctl.commands.simulate.report import SimulationReport
from kschedctl.replay.parallel import Workers

THREE_ZONES = [build_node("n1", "a"), build_node("n2", "b"), build_node("n3", "c")]

NIGHTLY: Json = {"schedule": "0 3 * * *"}


def run(objects: list[Json], *manifests: Json, **options: object) -> SimulationReport:
    return simulate(Cluster.from_objects(objects), manifests, **options)  # type: ignore[arg-type]


def test_deployment_spread_over_zones() -> None:
    report = run(
        THREE_ZONES, build_workload("Deployment", spec={"replicas": 6}, template=build_pod_spec(**build_spread()))
    )
    (found,) = report.workloads
    assert (found.workload, found.desired, found.running, found.pending) == ("Deployment d/web", 6, 6, 0)
    assert found.domains == {ZONE: {"a": 2, "b": 2, "c": 2}}
    assert found.nodes == {"n1": 2, "n2": 2, "n3": 2}
    cpu = next(r for r in report.headroom if r.resource == "cpu")
    assert (cpu.requested_before, cpu.requested_after, cpu.largest_free_after) == (0, 6000, 2000)


@pytest.mark.parametrize(
    ("manifest", "names"),
    [
        (build_workload("ReplicaSet", spec={"replicas": 2}), ["web-0", "web-1"]),
        (build_workload("ReplicationController", spec={"replicas": 1, "selector": {"app": "web"}}), ["web-0"]),
        (build_workload("StatefulSet", spec={"replicas": 2, "ordinals": {"start": 3}}), ["web-3", "web-4"]),
        (build_workload("DaemonSet"), ["web-n1", "web-n2", "web-n3"]),
        (build_workload("Job", spec={"parallelism": 3, "completions": 2}), ["web-0", "web-1"]),
        (build_workload("Job", spec={"suspend": True}), []),
        (build_pod("bare"), ["bare"]),
        (
            {**build_workload("CronJob"), "spec": {**NIGHTLY, "jobTemplate": {"spec": build_workload("Job")["spec"]}}},
            ["web-0-0"],
        ),
        (
            {
                **build_workload("CronJob"),
                "spec": {**NIGHTLY, "suspend": True, "jobTemplate": {"spec": build_workload("Job")["spec"]}},
            },
            [],
        ),
        ({**build_workload("Job"), "metadata": {"generateName": "run-", "namespace": "d"}}, ["run-0-0"]),
        ({**build_workload("ReplicaSet"), "metadata": {"generateName": "rs-", "namespace": "d"}}, ["rs-0-0"]),
        ({**build_workload("Job"), "apiVersion": "batch.volcano.sh/v1alpha1"}, []),
    ],
    ids=[
        "ReplicaSet",
        "ReplicationController",
        "StatefulSet",
        "DaemonSet",
        "Job",
        "suspended",
        "Pod",
        "CronJob",
        "suspended CronJob",
        "generated name",
        "generated name of a ReplicaSet",
        "another vendor's Job",
    ],
)
def test_pods_that_controllers_create(manifest: Json, names: list[str]) -> None:
    assert sorted(run(THREE_ZONES, manifest).placements) == [f"d/{name}" for name in names]


def test_pods_without_a_node_are_explained_in_full_on_request() -> None:
    """Four cores have room for one pod of three cores. The other pods are equal to it."""
    manifest = build_workload("ReplicaSet", spec={"replicas": 3}, template=build_pod_spec("3"))
    assert run([build_node("n1")], manifest).explained == ()
    (found,) = run([build_node("n1")], manifest, in_full=9).explained
    assert found.pods == ("d/web-1", "d/web-2")
    (alone,) = found.explanation.nodes
    assert (alone.name, [refusal.reason for refusal in alone.refusals]) == ("n1", ["Insufficient cpu"])


def test_generated_names_differ() -> None:
    manifest = {"kind": "Pod", "metadata": {"generateName": "p-", "namespace": "d"}, "spec": build_pod_spec()}
    assert sorted(run(THREE_ZONES, manifest, manifest).placements) == ["d/p-0", "d/p-1"]


def test_template_with_a_node_name_bypasses_the_scheduler() -> None:
    """The pods request three of two cores, but kube-scheduler never sees them."""
    manifest = build_workload("ReplicaSet", spec={"replicas": 3}, template=build_pod_spec(nodeName="n2"))
    report = run([build_node("n1"), build_node("n2", cpu="2")], manifest)
    assert set(report.placements.values()) == {"n2"}
    assert (report.placed, report.unplaced) == (3, 0)
    cpu = next(r for r in report.headroom if r.resource == "cpu")
    assert cpu.requested_after == 3000


def test_missing_namespace_is_reported() -> None:
    there = {"kind": "Namespace", "metadata": {"name": "shop"}}
    assert run([*THREE_ZONES, there], build_pod("p")).assumed == ("namespace d is created, without labels",)
    assert not run(THREE_ZONES, build_pod("p")).assumed


def test_daemon_set_pods_run_on_matching_tolerated_nodes() -> None:
    taint = [{"key": "gpu", "effect": "NoSchedule"}]
    nodes = [
        build_node("n1"),
        build_node("n2", taints=taint),
        build_node("n3", unschedulable=True),
        build_node("n4", "z"),
    ]
    manifest = build_workload("DaemonSet", template=build_pod_spec(nodeSelector={ZONE: "a"}))
    assert run(nodes, manifest).placements == {"d/web-n1": "n1", "d/web-n3": "n3"}


def test_higher_priority_goes_first() -> None:
    classes = [{"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 100}]
    low = build_workload("Deployment", "low", {"replicas": 4})
    high = build_workload("Deployment", "high", {"replicas": 4}, build_pod_spec(priorityClassName="high"))
    report = run([build_node("n1"), *classes], low, high)
    assert set(report.placements) == {f"d/high-new-{i}" for i in range(4)}
    (pending,) = report.pending
    assert (pending.workload, len(pending.pods)) == ("Deployment d/low", 4)
    assert pending.message.startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert not report.evicted


def test_preemptor_gets_the_room_of_its_victim() -> None:
    classes = [{"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 100}]
    running = [build_replica(f"r{i}", "n1") for i in range(4)]
    report = run([build_node("n1"), *classes, *running], build_pod("urgent", cpu="3", priorityClassName="high"))
    assert report.placements == {"d/urgent": "n1"}
    assert len(report.evicted) == 3
    assert {(e.by, e.node, e.priority, e.workload) for e in report.evicted} == {
        ("d/urgent", "n1", 0, "Deployment d/web")
    }


def test_fate_of_evicted_pods() -> None:
    """Each pod needs 2 cores, and 3 are left. One of the recreated pods fits, and the bare pod is not recreated."""
    classes = [{"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 100}]
    owned = [build_replica(f"r{i}", "n1", "2") for i in range(2)]
    there = {"nodeSelector": {"kubernetes.io/hostname": "n1"}, "priorityClassName": "high"}
    report = run(
        [build_node("n1", cpu="6"), build_node("n2", cpu="3"), *classes, *owned, build_pod("bare", "n1", "2")],
        build_pod("u", cpu="6", **there),
    )
    assert sorted((e.pod, e.fate, e.target) for e in report.evicted if e.pod == "d/bare") == [("d/bare", "Lost", "")]
    assert sorted((e.fate, e.target) for e in report.evicted if e.pod != "d/bare") == [("Moved", "n2"), ("Pending", "")]
    assert (report.placed, report.unplaced, report.placements) == (1, 0, {"d/u": "n1"})


def test_preemption_uses_up_budgets() -> None:
    """The first victim uses up the budget, so the second preemptor prefers the pod without a budget."""
    budget = {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "d"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": 1},
    }
    classes = [{"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 100}]
    other = build_pod("other", "n2", cpu="4", priority=50)
    other["metadata"]["labels"] = {}
    objects = [build_node("n1"), build_node("n2"), build_node("n3"), budget, *classes, other]
    objects += [build_replica("r1", "n1", cpu="4"), build_replica("r2", "n3", cpu="4")]
    urgent = build_workload("Deployment", "urgent", {"replicas": 2}, build_pod_spec("4", priorityClassName="high"))
    report = run(objects, urgent)
    assert len(report.evicted) == 2
    assert report.evicted[1].pod == "d/other"


def test_pod_of_a_missing_priority_class_is_not_created() -> None:
    (lacking,) = run(THREE_ZONES, build_pod("p", priorityClassName="gold")).not_created
    said = 'pods "p" is forbidden: no PriorityClass with name gold was found'
    assert [failure.message for failure in lacking.failures] == [said]


def test_gated_pods_and_pods_of_other_schedulers() -> None:
    report = run(THREE_ZONES, build_pod("g", schedulingGates=[{"name": "x"}]), build_pod("f", schedulerName="other"))
    assert {(group.verdict, group.pods) for group in report.pending} == {
        ("Gated", ("d/g",)),
        ("NotResponsible", ("d/f",)),
    }


def test_pod_that_fits_only_after_another_is_retried() -> None:
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "db"}}}
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    report = run(THREE_ZONES, build_pod("first", affinity=near), build_workload("ReplicaSet", "db", {"replicas": 1}))
    assert list(report.placements) == ["d/db-0", "d/first"]
    assert report.placements["d/first"] == report.placements["d/db-0"]


# -- volumes and devices ------------------------------------------------------------------------------------------


def build_storage_class(name: str, mode: str, provisioner: str = "csi.example.com") -> Json:
    return {"kind": "StorageClass", "metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode}


def build_local_volume(name: str, zone: str) -> Json:
    expression = {"key": ZONE, "operator": "In", "values": [zone]}
    terms = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "local"}
    return {"kind": "PersistentVolume", "metadata": {"name": name}, "spec": {**spec, "nodeAffinity": terms}}


def build_stateful_set(storage: str, replicas: int) -> Json:
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    return build_workload("StatefulSet", spec={"replicas": replicas, "volumeClaimTemplates": [claim]})


def test_each_pod_of_a_stateful_set_takes_a_volume() -> None:
    local = build_storage_class("local", "WaitForFirstConsumer", "kubernetes.io/no-provisioner")
    volumes = [build_local_volume("pv1", "a"), build_local_volume("pv2", "b")]
    report = run([*THREE_ZONES, local, *volumes], build_stateful_set("local", 3))
    assert sorted(report.placements.values()) == ["n1", "n2"]
    (pending,) = report.pending
    assert "3 node(s) didn't find available persistent volumes to bind" in pending.message


def test_claims_of_an_immediate_class_count_as_provisioned() -> None:
    report = run([*THREE_ZONES, build_storage_class("fast", "Immediate")], build_stateful_set("fast", 2))
    assert report.placed == 2
    assert len(report.assumed) == 2


def test_devices_are_allocated_once() -> None:
    devices = [{"name": f"gpu{i}"} for i in range(2)]
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d.example.com", "nodeName": "n2", "pool": pool, "devices": devices}
    slice_ = {"kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": spec}
    device_class = {"kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}}
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}
    template = {
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "one", "namespace": "d"},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }
    wants = build_pod_spec(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one"}])
    manifest = build_workload("Deployment", spec={"replicas": 3}, template=wants)
    report = run([*THREE_ZONES, slice_, device_class, template], manifest)
    assert list(report.placements.values()) == ["n2", "n2"]
    assert report.unplaced == 1
    assert "cannot allocate all claims" in report.pending[0].message


# -- workloads that exist -----------------------------------------------------------------------------------------


def test_more_replicas_of_an_unchanged_template() -> None:
    running = [build_replica(f"web-5f-{i}", "n1") for i in range(2)]
    report = run([*THREE_ZONES, *running], build_workload("Deployment", spec={"replicas": 3}))
    (found,) = report.workloads
    assert (found.desired, found.created, found.running, found.removed) == (3, 1, 3, 0)


def test_fewer_replicas() -> None:
    running = [build_replica(f"web-5f-{i}", "n1") for i in range(3)]
    (found,) = run([*THREE_ZONES, *running], build_workload("Deployment", spec={"replicas": 1})).workloads
    assert (found.desired, found.created, found.running, found.removed) == (1, 0, 1, 2)


def test_new_template_replaces_the_old_pods() -> None:
    running = [build_replica(f"web-5f-{i}", "n1") for i in range(4)]
    manifest = build_workload("Deployment", spec={"replicas": 4}, template=build_pod_spec("3"))
    (found,) = run([*THREE_ZONES, *running], manifest).workloads
    assert (found.created, found.running, found.pending, found.removed) == (4, 3, 1, 4)


def test_rollout_respects_surge_and_unavailability() -> None:
    """All four cores are used.

    Without surge, an old pod is removed for each new one. With surge, the new pod has no room.
    """
    running = [build_replica(f"web-5f-{i}", "n1") for i in range(4)]

    def rolled(surge: int, unavailable: int) -> tuple[int, int, str]:
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
        manifest = build_workload("Deployment", spec={"replicas": 4, "strategy": strategy})
        (found,) = run([build_node("n1"), *running], manifest, rollout=True).workloads
        return found.running, found.removed, found.rollout

    assert rolled(0, 1) == (4, 4, "complete")
    assert rolled(1, 0) == (4, 0, "stuck: 0 of 4 new pods run, 4 old pods are left")


def test_rollout_of_a_stateful_set_begins_with_the_last_pod() -> None:
    owner = {"kind": "StatefulSet", "name": "web"}
    running = [build_pod(f"web-{i}", "n1", owner=owner) for i in range(3)]
    manifest = build_workload("StatefulSet", spec={"replicas": 3}, template=build_pod_spec("2"))
    (found,) = run([build_node("n1"), *running], manifest, rollout=True).workloads
    assert found.rollout == "stuck: 1 of 3 new pods runs, 1 old pod is left"
    assert found.removed == 2


# -- runs ---------------------------------------------------------------------------------------------------------


def build_tied_cluster() -> tuple[list[Json], Json]:
    """Build two equal nodes, one of which a pod of lower score cannot use, so that ties decide."""
    return [build_node("n1", "a"), build_node("n2", "b")], build_workload("Deployment", spec={"replicas": 1})


@pytest.mark.parametrize("important", [False, True])
def test_stateful_set_continues_once_its_first_pod_has_a_node(important: bool) -> None:
    """The Job's three pods are created meanwhile, whatever the order of the manifests, so that one of 4 places is left.

    If the StatefulSet has a higher priority, its second pod evicts one of the Job's pods.
    """
    template = build_pod_spec(**({"priorityClassName": "high"} if important else {}))
    high: Json = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 100}
    manifests = [
        build_workload("StatefulSet", "db", {"replicas": 2}, template),
        build_workload("Job", "run", {"parallelism": 3}),
    ]
    for order in (manifests, manifests[::-1]):
        report = run([build_node("n1"), high], *order)
        waiting = [pod for group in report.pending for pod in group.pods]
        assert len(waiting) == 1
        assert (waiting == ["d/db-1"]) == (not important)
        assert len(report.evicted) == int(important)


def test_several_runs_show_the_effect_of_ties() -> None:
    objects, manifest = build_tied_cluster()
    report = run(objects, manifest, runs=8)
    assert report.variation is not None
    assert (report.variation.runs, report.variation.outcomes) == (8, 2)
    zones = report.variation.workloads[0].domains[ZONE]
    assert {zone: (s.least, s.most) for zone, s in zones.items()} == {"a": (0, 1), "b": (0, 1)}


def test_processes_give_the_same_results() -> None:
    objects, manifest = build_tied_cluster()
    alone = run(objects, manifest, runs=6)
    assert run(objects, manifest, runs=6, workers=Workers(2)).to_dict() == alone.to_dict()


def test_pods_that_wait_already_are_left_out_and_named() -> None:
    """The cluster's waiting pod takes part only on request, and the first line says so."""
    waiting = build_pod("waiting")
    alone = run([*THREE_ZONES, waiting], build_pod("new"))
    assert alone.left_out == 1
    assert " ".join(alone.build_headline_parts()).endswith(
        "gets a node. 1 pending pod was left out of the simulation and may take the room first (include it with "
        "--pending)"
    )
    together = simulate(Cluster.from_objects([*THREE_ZONES, waiting]), [build_pod("new")], pending=True)
    assert (together.left_out, together.placed) == (0, 2)


@pytest.mark.parametrize(
    ("requests", "clause"),
    [
        (("64",), "1 pending pod was left out of the simulation: it fits on no node (include it with --pending)"),
        (
            ("64", "64"),
            "2 pending pods were left out of the simulation: none of them fits (include them with --pending)",
        ),
        (
            ("1", "64"),
            "2 pending pods were left out of the simulation, but 1 of them fits and may take the room first (include "
            "them with --pending)",
        ),
        (
            ("3", "3", "3", "3"),
            "4 pending pods were left out of the simulation, but 3 of them fit and may take the room first (include "
            "them with --pending)",
        ),
    ],
)
def test_first_line_counts_omitted_pods_that_fit(requests: tuple[str, ...], clause: str) -> None:
    """Each of the three nodes has 4 CPUs, so three pods of 3 CPUs fit, one after another."""
    waiting = [build_pod(f"waiting-{number}", cpu=cpu) for number, cpu in enumerate(requests)]
    assert " ".join(run([*THREE_ZONES, *waiting], build_pod("new")).build_headline_parts()).endswith(clause)


@pytest.mark.parametrize(
    ("waiting_cpus", "clause"),
    [
        (
            ("4",),
            "1 pending pod was left out of the simulation: it fits on no node now, but it gets a node by preemption",
        ),
        (
            ("4", "64"),
            "2 pending pods were left out of the simulation: none of them fits now, but 1 of them gets a node by "
            "preemption",
        ),
        (
            ("4", "2"),
            "2 pending pods were left out of the simulation, but 1 of them fits and may take the room first, and 1 of "
            "them gets a node by preemption",
        ),
    ],
)
def test_first_line_counts_omitted_pods_that_preempt(waiting_cpus: tuple[str, ...], clause: str) -> None:
    """Pods low and high are on nodes of their own. A waiting pod of 4 CPUs comes first and evicts pod low."""
    running = [build_pod("low", "n0", "1"), build_pod("high", "n1", "2", priority=100)]
    waiting = [build_pod(f"waiting-{cpu}", cpu=cpu, priority=int(cpu)) for cpu in waiting_cpus]
    report = run([build_node("n0"), build_node("n1"), *running, *waiting], build_pod("new", cpu="100m"))
    assert f"{clause} (include" in " ".join(report.build_headline_parts())


def test_omitted_pod_may_take_the_room_of_an_old_pod() -> None:
    """The old pod leaves no room for the waiting pod until it is replaced."""
    manifest = build_workload("Deployment", template=build_pod_spec("1"))
    objects = [build_node("n1"), build_replica("web-5f-0", "n1", "2"), build_pod("waiting", cpu="3")]
    assert run(objects, manifest).left_out_fitting == 1


def test_first_line_names_a_violated_budget_and_a_workload_without_pods() -> None:
    """The only pod of ReplicaSet web is evicted, although its budget allows no disruption."""
    report = run(
        [build_node("n1"), build_replica("r1", "n1", "1", priority=-5), build_budget(0)], build_pod("large", cpu="4")
    )
    assert report.violated_budgets == {"d/b": 0}
    (outage,) = report.outages
    _, sentence = report.build_headline_parts()
    assert "1 PodDisruptionBudget violated, 1 workload left without a running pod" in sentence
    assert list(report.iter_harm_warnings()) == [
        "violates PodDisruptionBudget d/b: it allows 0 disruptions now, and preemption evicts 1 pod",
        f"leaves {outage} without a running pod",
    ]


def build_autoscaler(least: int, most: int) -> Json:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"scaleTargetRef": target, "minReplicas": least, "maxReplicas": most}
    metadata = {"name": "web", "namespace": "d"}
    return {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": metadata, "spec": spec}


@pytest.mark.parametrize(("bounds", "pods", "verb"), [((4, 9), 4, "raises"), ((1, 1), 1, "lowers"), ((1, 9), 2, "")])
def test_autoscaler_brings_the_replicas_within_its_bounds(bounds: tuple[int, int], pods: int, verb: str) -> None:
    report = run([*THREE_ZONES, build_autoscaler(*bounds)], build_workload("Deployment", spec={"replicas": 2}))
    assert report.placed + report.unplaced == pods
    assert [verb in note for note in report.autoscaled] == ([True] if verb else [])


def test_autoscaler_alone_scales_the_workload_of_the_cluster() -> None:
    """The claims of a StatefulSet's new pods are like those of its existing pods."""
    claim = {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data-db-0", "namespace": "d", "uid": "c"},
        "spec": {"storageClassName": "fast", "volumeName": "pv", "resources": {"requests": {"storage": "1Gi"}}},
    }
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}}]
    owner = {"kind": "StatefulSet", "name": "db"}
    stored = build_workload("StatefulSet", "db", {"replicas": 1, "podManagementPolicy": "Parallel"})
    scaler = build_autoscaler(3, 5)
    scaler["spec"]["scaleTargetRef"] = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db"}
    db = build_pod("db-0", "n1", owner=owner, volumes=volumes)
    db["metadata"]["labels"] = {"app": "db"}
    report = run([*THREE_ZONES, stored, claim, db], scaler)
    assert report.autoscaled == (
        "HorizontalPodAutoscaler web raises StatefulSet d/db from 1 to 3 replicas at once (minReplicas)",
    )
    assert report.unplaced == 2  # no class named fast provisions their claims
    (group,) = report.pending
    assert group.cause == "StorageClass fast does not exist, so claim d/data-db-1 gets no volume"


@pytest.mark.parametrize(("is_important", "for_waiting"), [(False, ("d/low",)), (True, ())])
def test_pods_evicted_for_waiting_pods_are_not_held_against_the_manifests(
    is_important: bool, for_waiting: tuple[str, ...]
) -> None:
    """The waiting pod of priority 10 evicts the low pod, and the new pod only with a higher priority."""
    low = [build_replica("low", "n1", "3", priority=-5)]
    waiting = build_pod("waiting", cpu="3", priority=10, nodeSelector={HOSTNAME: "n1"})
    high = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 20}
    new = build_pod("new", cpu="3", nodeSelector={HOSTNAME: "n2"})
    if is_important:
        new = build_pod("new", cpu="3", nodeSelector={HOSTNAME: "n1"}, priorityClassName="high")
    other_node = build_node("n2", cpu="2" if is_important else "3")  # has no room for the low pod in the end
    report = run([high, build_node("n1"), other_node, *low, waiting], new, pending=True)
    assert (report.evicted_pods, report.evicted_for_waiting) == (1, for_waiting)
    assert report.new_evicted_pods == (0 if for_waiting else 1)
    assert report.new_homeless_pods == (0 if for_waiting else 1)
    assert (", 1 pod evicted for waiting pods" in " ".join(report.build_headline_parts())) == bool(for_waiting)
    assert bool([problem for problem in report.find_ci_gate_problems() if "low" in str(problem)]) != bool(for_waiting)
