"""Check every kind of `whatif` step, its effect, and errors that name the step."""

from __future__ import annotations

import json
from html import unescape
from typing import Any

import jsonschema
import pytest
import yaml
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
from kschedctl.commands.drain import drain
from kschedctl.commands.failures import simulate_failures
from kschedctl.commands.help.command import read_topics
from kschedctl.commands.schema import build_schema
from kschedctl.commands.whatif import build_configuration_settings, whatif
from kschedctl.commands.whatif.one_more_node import is_harmless
from kschedctl.commands.whatif.report import WhatIf
from kschedctl.errors import InputError, KschedctlError
from kschedctl.render.page import Style
from kschedctl.render.renderers import RENDERERS
from kschedctl.replay.parallel import Workers
from kschedctl.replay.scenarios import STEPS, get_step_name_and_parameters, load_scenario
from kschedctl.reports.lost_nodes import LateReason
from kschedctl.reports.placements import Spread
from kschedctl.reports.scenario import build_scenario_schema

PIN = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}
PINNED = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": PIN}}
DAEMON = build_pod("agent-n1", "n1", "100m", {"kind": "DaemonSet", "name": "agent"}, affinity=PINNED)
CLUSTER = [
    build_node("n1", "a"),
    build_node("n2", "b", "2"),
    build_replica("r1", "n1"),
    build_replica("r2", "n1"),
    DAEMON,
]
DRAIN_N1 = {"drain": {"nodes": ["n1"]}}
DRAIN_N2 = {"drain": {"nodes": ["n2"]}}
UNCORDON_N1 = {"uncordon": {"nodes": ["n1"]}}


def run(*steps: Json, objects: list[Json] = CLUSTER, **options: Any) -> WhatIf:
    return whatif(Cluster.from_objects(objects), load_scenario({"steps": list(steps)}), **options)


def changes(report: WhatIf) -> set[tuple[str, str, str, str]]:
    return {(c.pod.removeprefix("d/"), c.change, c.before, c.after) for c in report.changes}


def test_cordon_and_uncordon() -> None:
    wants = build_pod("p", cpu="3")
    assert changes(run({"cordon": {"nodes": ["n1"]}}, objects=[*CLUSTER, wants])) == set()
    objects = [build_node("n1", unschedulable=True), wants]
    assert changes(run({"uncordon": {"nodes": ["n1"]}}, objects=objects)) == {("p", "NewlyScheduled", "", "n1")}


def test_no_execute_taint_evicts_pods() -> None:
    step = {"taint": {"selector": f"{ZONE}=a", "add": [{"key": "k", "effect": "NoExecute"}]}}
    found = run(step)
    assert changes(found) == {("r1", "Moved", "n1", "n2"), ("r2", "Moved", "n1", "n2"), ("agent-n1", "Gone", "n1", "")}
    step_report = found.steps[0]
    assert (step_report.displaced, step_report.ending, step_report.placed) == (2, 1, 2)


def test_labels_let_a_pod_fit() -> None:
    waiting = build_pod("p", nodeSelector={"disk": "ssd"})
    report = run({"label": {"nodes": ["n2"], "labels": {"disk": "ssd"}}}, objects=[*CLUSTER, waiting])
    assert changes(report) == {("p", "NewlyScheduled", "", "n2")}
    assert report.pending == (1, 0)


def test_new_nodes_get_daemon_set_pods() -> None:
    report = run({"addNodes": {"count": 2, "like": "n1", "name": "new", "labels": {ZONE: "c"}}})
    assert changes(report) == {("agent-n1-new-0", "Created", "", "new-0"), ("agent-n1-new-1", "Created", "", "new-1")}
    (zone,) = (domain for domain in report.balance if domain.domain == "c")
    assert zone.nodes == (0, 2)


def test_daemon_set_pods_come_first_on_a_new_node() -> None:
    """The waiting pod needs a node without other pods, which a new node never is because of its DaemonSet pod."""
    alone = {"labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}, "topologyKey": HOSTNAME}
    anti_affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [alone]}}
    wants = build_pod("p", priority=10, preemptionPolicy="Never", affinity=anti_affinity)
    daemon = {**DAEMON, "metadata": {**DAEMON["metadata"], "labels": {"app": "agent"}}}
    report = run({"addNodes": {"like": "n1", "name": "new"}}, objects=[build_node("n1", "a"), daemon, wants])
    assert changes(report) == {("agent-n1-new-0", "Created", "", "new-0")}


def test_new_nodes_like_a_cordoned_one_take_pods() -> None:
    cordoned = build_node("n1", "a", unschedulable=True)
    report = run({"addNodes": {"like": "n1", "name": "new"}}, objects=[cordoned, build_pod("p")])
    assert changes(report) == {("p", "NewlyScheduled", "", "new-0")}


def test_new_nodes_by_a_template() -> None:
    step = {"addNodes": {"template": build_node("x", cpu="16"), "name": "big"}}
    assert changes(run(step, objects=[*CLUSTER, build_pod("p", cpu="10")])) == {("p", "NewlyScheduled", "", "big-0")}


@pytest.mark.parametrize("steps", [("removeNodes",), ("fail",), ("drain", "removeNodes")])
def test_deleted_nodes_lose_the_data_of_local_volumes(steps: tuple[str, ...]) -> None:
    """The data is lost even if the pod left the node in an earlier step and is pending."""
    claim = {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c", "namespace": "d", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"volumeName": "v"},
    }
    expression = {"key": HOSTNAME, "operator": "In", "values": ["n1"]}
    terms = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    volume_spec = {"nodeAffinity": terms, "local": {"path": "/data"}}
    volume = {"kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": volume_spec}
    mounted = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    objects = [
        build_node("n1"),
        build_node("n2"),
        claim,
        volume,
        build_replica("db", "n1", volumes=mounted),
        build_replica("r2", "n2"),
    ]

    report = run(*({step: {"nodes": ["n1"]}} for step in steps), objects=objects)
    lost_data = "the data of local volume v (d/db) is lost if n1 is deleted"
    assert report.summary().warnings == (lost_data,)
    assert lost_data in " ".join(RENDERERS["table"](report, Style()).split())
    assert [volume.volume for volume in report.pinned_volumes] == ["v"]

    assert run({"removeNodes": {"nodes": ["n2"]}}, objects=objects).pinned_volumes == ()
    assert run({"cordon": {"nodes": ["n1"]}}, objects=objects).pinned_volumes == ()


def test_removed_nodes() -> None:
    report = run({"removeNodes": {"nodes": ["n1"]}})
    assert changes(report) == {("r1", "Moved", "n1", "n2"), ("r2", "Moved", "n1", "n2"), ("agent-n1", "Gone", "n1", "")}


def test_failed_zone() -> None:
    report = run({"fail": {"zone": "b"}}, objects=[*CLUSTER, build_replica("r3", "n2", "2")])
    assert changes(report) == {("r3", "NewlyPending", "n2", "")}
    assert "Insufficient cpu" in report.changes[0].message


def test_newly_pending_pods_are_explained_in_full_on_request() -> None:
    """r3 of n2 finds no node, since the remaining one is full. For the second run, nothing is explained."""
    step, objects = {"fail": {"zone": "b"}}, [*CLUSTER, build_replica("r3", "n2", "2")]
    assert run(step, objects=objects).explained == ()
    (found,) = run(step, objects=objects, in_full=9, runs=2).explained
    assert [pod.rpartition("/")[2] for pod in found.pods] == ["r3"]
    assert [(node.name, node.feasible) for node in found.explanation.nodes] == [("n1", False)]


def test_drain_waits_for_budgets() -> None:
    report = run({"drain": {"nodes": ["n1"]}}, objects=[*CLUSTER, build_budget(0)])
    assert changes(report) == set()
    assert len(report.steps[0].notes) == 2


def test_pods_of_a_drained_unreachable_node_stay_terminating() -> None:
    down = build_node("n1")
    down["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    stateful = build_pod("db-0", "n1", owner={"kind": "StatefulSet", "name": "db"})
    report = run({"drain": {"nodes": ["n1"]}}, objects=[down, build_node("n2"), stateful])
    text = "n1 is unreachable: its 1 pod stays Terminating until its kubelet returns"
    assert text in " ".join(report.build_headline_parts())
    assert "d/db-0 gets no replacement until then" in report.steps[0].notes[0]
    assert text in report.summary().headline
    assert not is_harmless(report)
    assert [problem.rule for problem in report.find_ci_gate_problems()] == ["eviction-blocked"]


def test_new_node_like_an_unreachable_node_is_ready() -> None:
    down = build_node("n1", taints=[{"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}, {"key": "own"}])
    down["spec"]["taints"][1]["effect"] = "NoSchedule"
    down["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    tolerations = [{"key": "own", "operator": "Exists"}]
    step = {"addNodes": {"like": "n1", "count": 1}}
    assert run(step, objects=[down, build_pod("p", tolerations=tolerations)]).pending == (1, 0)
    assert run(step, objects=[down, build_pod("p")]).pending == (1, 1)  # the taint of its own stays


JOB_WITHOUT_RETRIES = {"kind": "Job", "metadata": {"name": "j", "namespace": "d"}, "spec": {"backoffLimit": 0}}


def test_every_form_says_that_an_autoscaler_undoes_a_scale_step() -> None:
    spec = {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "minReplicas": 2, "maxReplicas": 5}
    scaler = {"kind": "HorizontalPodAutoscaler", "metadata": {"name": "scaler", "namespace": "d"}, "spec": spec}
    objects = [build_node("n1"), build_replica("web-5f-a", "n1"), build_replica("web-5f-b", "n1"), scaler]
    report = run({"scale": {"namespace": "d", "name": "web", "replicas": 1}}, objects=objects)
    note = (
        "HorizontalPodAutoscaler scaler raises Deployment d/web from 1 to 2 replicas at once (minReplicas), which is "
        "not replayed"
    )
    assert report.steps[0].notes == (note,)
    for output in ("table", "brief"):
        assert note in RENDERERS[output](report, Style(width=300))
    assert run({"scale": {"namespace": "d", "name": "web", "replicas": 0}}, objects=objects).steps[0].notes == ()


def test_pods_of_a_failing_job_are_lost_with_it() -> None:
    """The Job allows no failed pod, so the loss of j-1 also ends j-2 on the other node."""
    owner = {"kind": "Job", "name": "j"}
    pods = [build_pod("j-1", "n1", owner=owner), build_pod("j-2", "n2", owner=owner), build_pod("alone", "n1")]
    objects = [build_node("n1"), build_node("n2"), *pods, JOB_WITHOUT_RETRIES]
    report = run({"fail": {"nodes": ["n1"]}}, objects=objects)
    text = "3 pods are lost for good: d/alone (no controller recreates it) and d/j-1, d/j-2 (Job d/j fails)"
    assert " ".join(report.build_headline_parts()).startswith(text)

    failure = simulate_failures(Cluster.from_objects(objects), "node").failures[0]
    assert (failure.name, failure.lost, failure.lost_without_controller) == ("n1", 3, ("d/alone",))
    assert (failure.displaced, report.steps[0].displaced) == (0, 0)  # lost pods are not displaced
    assert [(job.job, job.pods) for job in failure.failed_jobs] == [("Job d/j", ("d/j-1", "d/j-2"))]
    assert failure.consequences == "3 pods are lost for good (Job d/j fails, which ends its 2 pods)"

    drained = " ".join(drain(Cluster.from_objects(objects[:-2] + objects[-1:]), ["n1"]).build_headline_parts())
    assert drained.startswith("n1 can be drained, but Job d/j fails, which ends its 2 pods")


def test_pods_without_a_controller_are_lost() -> None:
    """The drain removes four pods from n1. One of them moves, and only the bare pod is lost."""
    leaving, ended = build_pod("leaving", "n1"), build_pod("ended", "n1")
    leaving["metadata"]["deletionTimestamp"] = "2026-05-06T09:12:00Z"
    ended["status"] = {"phase": "Succeeded"}
    objects = [build_node("n1"), build_node("n2"), build_replica("r1", "n1"), build_pod("alone", "n1"), leaving, ended]
    step = {"drain": {"nodes": ["n1"]}}
    report = run(step, objects=objects)
    assert report.lost_pods == ("d/alone",)
    assert report.steps[0].displaced == 1
    assert report.build_headline_parts()[0] == "1 pod is lost for good:"
    assert report.build_headline_parts()[1].startswith("d/alone (no controller recreates it); ")
    assert not is_harmless(report)
    assert [problem.rule for problem in report.find_ci_gate_problems()] == ["lost"]
    brief = report.summary()
    assert brief.figures["lost"] == 1
    assert brief.headline.startswith("1 pod is lost for good: d/alone (no controller recreates it); ")
    # The headline names the lost pod already
    assert brief.warnings == ("Draining leaves Deployment d/web without a running pod until its replacement runs",)
    assert RENDERERS["brief"](report, Style(width=200)).count("d/alone") == 1
    assert run(step, objects=objects, runs=2).over_runs["Lost"] == Spread(1, 1)

    # Without the bare pod, the drain costs nothing
    harmless = run(step, objects=[object_ for object_ in objects if object_["metadata"]["name"] != "alone"])
    assert (harmless.lost_pods, is_harmless(harmless)) == ((), True)


def test_drain_proposes_the_fewest_new_nodes() -> None:
    """Three pods of 4 CPUs leave their nodes, and one gets n4, so that two new nodes are needed."""
    objects = [*(build_node(f"n{i}") for i in (1, 2, 3, 4)), *(build_replica(f"r{i}", f"n{i}", "4") for i in (1, 2, 3))]
    remedy = drain(Cluster.from_objects(objects), ["n1", "n2", "n3"]).remedy
    assert remedy is not None
    assert remedy["steps"][0] == {"addNodes": {"like": "n1", "count": 2}}


def test_preempted_bare_pod_is_lost() -> None:
    """It gets the new node in the first step, and the drained pod preempts it in the second."""
    drained = build_replica("high", "n1", "4", priority=10)
    steps = [{"addNodes": {"like": "n1", "count": 1}}, {"drain": {"nodes": ["n1"]}}]
    report = run(*steps, objects=[build_node("n1"), drained, build_pod("waiting", cpu="4")])
    assert (report.lost_pods, report.pending) == (("d/waiting",), (1, 0))

    # Two new nodes have room for both, so drain proposes these
    remedy = drain(Cluster.from_objects([build_node("n1"), drained, build_pod("waiting", cpu="4")]), ["n1"]).remedy
    assert remedy is not None
    assert remedy["steps"][0] == {"addNodes": {"like": "n1", "count": 2}}


def test_scale_up_and_down() -> None:
    up = run({"scale": {"namespace": "d", "name": "web", "replicas": 4}})
    assert {c.change for c in up.changes} == {"Created"}
    assert len(up.changes) == 2
    down = run({"scale": {"namespace": "d", "name": "web", "replicas": 0}})
    assert changes(down) == {("r1", "Gone", "n1", ""), ("r2", "Gone", "n1", "")}


def build_member(name: str, node_name: str = "n1") -> Json:
    return build_pod(name, node_name, "100m", {"kind": "StatefulSet", "name": "db"})


def test_stateful_set_is_scaled_by_ordinal() -> None:
    objects = [build_node("n1"), *(build_member(f"db-{i}") for i in (0, 1, 2, 10))]
    step = {"scale": {"kind": "StatefulSet", "namespace": "d", "name": "db", "replicas": 2}}
    assert changes(run(step, objects=objects)) == {("db-2", "Gone", "n1", ""), ("db-10", "Gone", "n1", "")}
    step["scale"]["replicas"] = 5
    assert changes(run(step, objects=objects[:-1])) == {(f"db-{i}", "Created", "", "n1") for i in (3, 4)}


def test_manifests_are_applied() -> None:
    report = run({"apply": {"manifests": [build_workload("Deployment", "db", {"replicas": 2})]}})
    assert {c.pod for c in report.changes} == {"d/db-new-0", "d/db-new-1"}
    files = {"db.yaml": [build_workload("Deployment", "db", {"replicas": 1})]}
    assert len(run({"apply": {"files": ["db.yaml"]}}, read=files.__getitem__).changes) == 1


def test_new_priority_class_lets_pods_preempt() -> None:
    objects = [build_node("n1"), build_replica("r1", "n1", "4"), build_pod("p", cpu="4", priority=0)]
    step = {
        "priorityClass": {"name": "gold", "value": 100, "workloads": [{"kind": "Pod", "namespace": "d", "name": "p"}]}
    }
    assert changes(run(step, objects=objects)) == {("p", "NewlyScheduled", "", "n1"), ("r1", "NewlyPending", "n1", "")}


def test_pods_evicted_by_a_manifest_are_rescheduled() -> None:
    important = build_pod("p", cpu="4", priorityClassName="gold")
    gold = {"kind": "PriorityClass", "metadata": {"name": "gold"}, "value": 5}
    objects = [
        gold,
        build_node("n1"),
        build_node("n2", cpu="2"),
        build_replica("r1", "n1", "2"),
        build_replica("r2", "n1", "2"),
    ]
    report = run({"apply": {"manifests": [important]}}, objects=objects)
    assert {(c.change, c.before, c.after) for c in report.changes} == {
        ("Created", "", "n1"),
        ("Moved", "n1", "n2"),
        ("NewlyPending", "n1", ""),
    }
    assert (report.steps[0].placed, report.steps[0].evicted, report.pending) == (2, 2, (0, 1))


def test_evicted_daemon_set_pod_waits_for_its_node() -> None:
    important = build_pod("p", cpu="4", priorityClassName="gold", nodeSelector={HOSTNAME: "n1"})
    gold = {"kind": "PriorityClass", "metadata": {"name": "gold"}, "value": 5}
    report = run({"apply": {"manifests": [important]}}, objects=[gold, build_node("n1"), build_node("n2"), DAEMON])
    assert changes(report) == {("p", "Created", "", "n1"), ("agent-n1", "NewlyPending", "n1", "")}


def test_pods_that_are_not_created_yet_are_not_placed() -> None:
    """The StatefulSet's first pod waits for its volume, so its second pod, which would fit, is not created."""
    gold = {"kind": "PriorityClass", "metadata": {"name": "gold"}, "value": 5}
    now = {"kind": "StorageClass", "metadata": {"name": "now"}, "provisioner": "csi.example.com"}
    unbound = {"kind": "PersistentVolumeClaim", "metadata": {"name": "data-db-0", "namespace": "d"}, "spec": {}}
    objects = [
        gold,
        now,
        unbound,
        build_node("n1"),
        build_node("n2", cpu="2"),
        build_replica("r1", "n1", "2"),
        build_replica("r2", "n1", "2"),
    ]
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    data = {"metadata": {"name": "data"}, "spec": {"storageClassName": "now", **asked}}
    ordered = build_workload(
        "StatefulSet", "db", {"replicas": 2, "volumeClaimTemplates": [data]}, build_pod_spec("100m")
    )
    important = build_pod("p", cpu="3500m", priorityClassName="gold")
    report = run({"apply": {"manifests": [important, ordered]}}, objects=objects)
    assert {change.pod for change in report.changes} == {"d/p", "d/r1", "d/r2", "d/db-0"}
    assert (report.steps[0].placed, report.steps[0].pending) == (2, 2)


def test_hooks_that_helm_does_not_install_are_left_out() -> None:
    hook = build_pod("try")
    del hook["metadata"]["uid"]
    hook["metadata"]["annotations"] = {"helm.sh/hook": "test"}
    report = run({"apply": {"manifests": [{"kind": "List", "items": [hook, build_workload("Deployment", "db")]}]}})
    assert {change.pod for change in report.changes} == {"d/db-new-0"}
    assert report.steps[0].notes == ("left out, as Helm creates them neither on install nor on upgrade: Pod d/try",)


def test_waiting_pods_are_retried_after_a_drain() -> None:
    """A pod with which it has anti-affinity occupied its zone."""
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "web"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    lonely = build_pod("lonely", affinity=apart, nodeSelector={ZONE: "a"})
    lonely["metadata"]["labels"] = {}
    objects = [
        build_node("n1", "a"),
        build_node("n2", "a", "1"),
        build_node("n3", "b"),
        build_replica("r", "n1", "3"),
        lonely,
    ]
    report = run({"drain": {"nodes": ["n1"]}}, objects=objects)
    assert changes(report) == {("r", "Moved", "n1", "n3"), ("lonely", "NewlyScheduled", "", "n2")}
    assert (report.steps[0].displaced, report.steps[0].placed, report.pending) == (1, 2, (1, 0))


PACKED = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "pluginConfig": [
                {
                    "name": "NodeResourcesFit",
                    "args": {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu"}]}},
                }
            ]
        }
    ],
}
EVEN = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def test_changed_configuration_applies_to_later_steps() -> None:
    apply = {"apply": {"manifests": [build_pod("p", cpu="500m")]}}
    objects = [build_node("n1"), build_node("n2"), build_replica("r1", "n1", "2")]
    assert run(apply, objects=objects).changes[0].after == "n2"
    assert run({"configure": {"configuration": PACKED}}, apply, objects=objects).changes[0].after == "n1"


def test_two_configurations_compared() -> None:
    cluster = Cluster.from_objects(
        [build_node("n1"), build_node("n2"), build_replica("r1", "n1", "2"), build_pod("p", cpu="500m")]
    )
    report = whatif(cluster, None, build_configuration_settings({"even.yaml": EVEN, "packed.yaml": PACKED}))
    assert changes(report) == {("p", "Moved", "n2", "n1")}
    assert report.compared == ("even.yaml", "packed.yaml")


def test_balance_of_zones() -> None:
    """n1 has 4 cores and n2 has 2. 2.1 of 4 are requested in zone a, and of 2 in zone b once n1 is gone."""
    report = run({"fail": {"nodes": ["n1"]}}, {"addNodes": {"like": "n2", "name": "x"}})
    assert [(d.domain, d.nodes, d.pods, d.requested["cpu"]) for d in report.balance] == [
        ("a", (1, 0), (3, 0), (52.5, 0.0)),
        ("b", (1, 2), (0, 2), (0.0, 50.0)),
    ]


def test_runs() -> None:
    """The first of two pods gets n2 or n3. The second one needs all of n3 and fits if the first got n2."""
    objects = [build_node("n1", cpu="8"), build_node("n2", cpu="2"), build_node("n3", cpu="2")]
    objects[2]["metadata"]["labels"]["disk"] = "ssd"
    large = build_replica("r2", "n1", "2", nodeSelector={"disk": "ssd"})
    objects += [build_replica("r1", "n1"), large]
    step = {"fail": {"nodes": ["n1"]}}
    report = run(step, objects=objects, runs=16)
    assert (report.runs, report.over_runs) == (16, {"Moved": Spread(1, 2), "NewlyPending": Spread(0, 1)})
    assert run(step, objects=objects, runs=16, workers=Workers(2)).to_dict() == report.to_dict()


def test_step_names_the_taints_that_it_changes() -> None:
    add = {"key": "a", "value": "b", "effect": "NoSchedule"}
    report = run(
        {"taint": {"nodes": ["n1"], "add": [add], "remove": [{"key": "k"}]}},
        {"taint": {"nodes": ["n1"], "remove": [{"key": "a"}]}},
    )
    assert [step.subject for step in report.steps] == ["n1: add a=b:NoSchedule; remove k", "n1: remove a"]


def test_steps_are_applied_in_order() -> None:
    steps = [{"addNodes": {"like": "n1", "name": "new"}}, {"drain": {"nodes": ["n1"]}}, {"fail": {"nodes": ["new-0"]}}]
    report = run(*steps)
    assert [step.step for step in report.steps] == ["addNodes", "drain", "fail"]
    assert {c.after for c in report.changes if c.change == "Moved"} == {"n2"}


def test_help_topic_has_a_valid_step_of_each_kind() -> None:
    blocks = read_topics()["what-if"].split("```")
    (examples,) = (block.removeprefix("yaml") for block in blocks if block.startswith("yaml\n- "))
    scenario = load_scenario({"steps": yaml.safe_load(examples)})
    assert {get_step_name_and_parameters(step)[0] for step in scenario.steps} == set(STEPS)


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([{"cordon": {"nodes": ["n1"]}}, {"drain": {"nodes": 5}}], "step 2 (drain), nodes: 5 is not of type 'array'"),
        (
            [{"cordon": {}, "drain": {}}],
            "step 1 (cordon): contains more than one step; write each step",
        ),
        ([{}], "step 1: the step is empty"),
        (
            [{"scale": {"name": "x"}}],
            "step 1 (scale): replicas is missing; the fields are kind, namespace, name, replicas",
        ),
        ([{"addNodes": {"count": 0}}], "step 1 (addNodes), count: 0 is less than the minimum of 1"),
        ([{"drain": {"nodes": ["n1"], "force": True}}], "step 1 (drain): unknown field force; known are nodes"),
        ([{"cordon": {"nodes": ["n1"]}}, {"drain": {"nodes": ["n9"]}}], 'step 2 (drain): node "n9" not found'),
        ([{"fail": {"zone": "x"}}], 'step 1 (fail): no node is in zone "x"'),
        (
            [{"scale": {"name": "shop/web", "replicas": 1}}],
            "step 1 (scale): Deployment default/shop/web has no pods (write namespace: shop and name: web)",
        ),
        ([{"scale": {"name": "nobody", "replicas": 1}}], "step 1 (scale): Deployment default/nobody has no pods"),
        ([{"priorityClass": {"name": "gold"}}], 'step 1 (priorityClass): PriorityClass "gold" not found'),
        ([{"addNodes": {"count": 1}}], "step 1 (addNodes): exactly one of like and template"),
        ([{"taint": {"nodes": ["n1"], "add": [{"key": "k"}]}}], "step 1 (taint): a taint to add needs an effect"),
        (
            [{"taint": {"nodes": ["n1"], "remove": ["k"]}}],
            "step 1 (taint), remove[0]: 'k' is not of type 'object' with the fields key, value, effect",
        ),
        ([{"explode": {}}], "step 1 (explode): unknown step; the steps are cordon, uncordon, taint, label, addNodes"),
        (
            [{"label": {"nodes": ["n1"], "labels": {"a": 5}}}],
            "step 1 (label), labels.a: 5 is not of type string or null",
        ),
        (
            [{"label": {"nodes": ["n1"], "labels": {"a b": "c"}}}],
            'step 1 (label): labels: "a b=c" is not a valid',
        ),
        (
            [{"label": {"nodes": ["n1"], "labels": {"a": "b/c"}}}],
            'step 1 (label): labels: "a=b/c" is not a valid',
        ),
        ([{"apply": {}}], "step 1 (apply): no manifests"),
        (
            [{"apply": {"manifests": [{"kind": "List", "items": [{**build_workload("Job"), "metadata": {}}]}]}}],
            "step 1 (apply): manifests[0], Job: metadata.name: required",
        ),
        ([{"cordon": {"nodes": ["n1"]}}, {"apply": {"files": ["x.yaml"]}}], 'step 2 (apply): file "x.yaml" cannot be'),
        ([{"scale": {"kind": "DaemonSet", "name": "x", "replicas": 1}}], "step 1 (scale): kind: a DaemonSet has no"),
        ([{"cordon": {"selector": "a in (b"}}], "step 1 (cordon): unable to parse requirement"),
        ([{"drain": {"nodes": ["n11"]}}], 'step 1 (drain): node "n11" not found (did you mean n1?)'),
    ],
)
def test_errors_name_the_step(steps: list[Json], message: str) -> None:
    with pytest.raises(KschedctlError) as raised:
        run(*steps)
    assert str(raised.value).startswith(message)


def test_pod_of_a_missing_class_is_not_created() -> None:
    report = run({"apply": {"manifests": [build_workload("Job"), build_pod("p", priorityClassName="gold")]}})
    assert [each.workload for each in report.not_created] == ["Pod d/p"]


def test_errors_name_the_file() -> None:
    with pytest.raises(KschedctlError, match=r'^what\.yaml: step 1 \(drain\): node "n9" not found'):
        whatif(Cluster.from_objects(CLUSTER), {"steps": [{"drain": {"nodes": ["n9"]}}]}, where="what.yaml")
    with pytest.raises(KschedctlError, match=r"^what\.yaml: step 1 \(drain\), nodes: 5 is not"):
        whatif(Cluster.from_objects(CLUSTER), {"steps": [{"drain": {"nodes": 5}}]}, where="what.yaml")


def test_too_many_steps_are_an_error_before_any_replay() -> None:
    step = {"cordon": {"nodes": ["n1"]}}
    assert len(load_scenario({"steps": [step] * 500}).steps) == 500
    with pytest.raises(InputError, match="steps: 2,000 steps are too many; at most 500 can be replayed"):
        load_scenario({"steps": [step] * 2000})


def test_invalid_document_is_an_error() -> None:
    with pytest.raises(InputError, match=r"what\.yaml: None is not of type 'object'"):
        load_scenario(None, where="what.yaml")  # type: ignore[arg-type]


def test_document_of_another_kind_is_an_error() -> None:
    with pytest.raises(InputError, match=r"what.yaml: kind: 'Pod' is not one of"):
        load_scenario({"kind": "Pod", "steps": [{"cordon": {}}]}, where="what.yaml")


def test_schema_is_valid() -> None:
    jsonschema.Draft202012Validator.check_schema(build_scenario_schema())


def test_report_follows_its_schema() -> None:
    document = run({"cordon": {"nodes": ["n1"]}}, {"drain": {"nodes": ["n1"]}}).to_dict()
    jsonschema.validate(document, build_schema(WhatIf))
    assert json.dumps(document)


def test_drain_blocked_by_a_budget_is_not_completed() -> None:
    """The pod of the budget stays on n1 and the other pod moves, as in `drain`."""
    objects = [build_node("n1"), build_node("n2"), build_replica("guarded", "n1"), build_budget(0)]
    other = build_replica("free", "n1")
    other["metadata"]["labels"]["app"] = "other"
    report = run({"cordon": {"nodes": ["n2"]}}, {"uncordon": {"nodes": ["n2"]}}, DRAIN_N1, objects=[*objects, other])
    line = "Step 3 cannot be completed: n1 – 1 pod cannot be evicted (d/guarded); 1 moved"
    assert " ".join(report.build_headline_parts()) == line
    assert (report.steps[2].not_drained, [blocked.pod for blocked in report.steps[2].blocked]) == (
        ("n1",),
        ["d/guarded"],
    )
    assert [step.not_drained for step in report.steps[:2]] == [(), ()]
    summary = report.summary()
    assert (summary.verdict, summary.headline, summary.figures["blocked"]) == ("Blocked", line, 1)
    assert [(pods.such_as, pods.why) for pods in summary.pods] == [("d/guarded", report.steps[2].blocked[0].why)]
    assert [problem.rule for problem in report.find_ci_gate_problems()] == ["eviction-blocked"]
    assert not is_harmless(report)
    assert drain(Cluster.from_objects([*objects, other]), ["n1"]).summary().verdict == "Blocked"

    # Over several runs, too, and with two blocked steps
    twice = run(DRAIN_N1, DRAIN_N1, objects=objects, runs=2)
    assert twice.build_headline_parts()[0] == "Steps 1, 2 cannot be completed:"
    assert twice.over_runs["Blocked"] == Spread(1, 1)


def test_drain_whose_pod_returns_is_not_completed() -> None:
    """The pod tolerates the cordon and fits nowhere else."""
    tolerates = build_replica("r", "n1", tolerations=[{"operator": "Exists"}], nodeSelector={HOSTNAME: "n1"})
    report = run(DRAIN_N1, objects=[build_node("n1"), build_node("n2"), tolerates])
    line = "Step 1 cannot be completed: n1 – 1 pod comes back: it tolerates the cordon (d/r)"
    assert " ".join(report.build_headline_parts()) == line
    assert report.steps[0].notes == ("d/r comes back: it tolerates the cordon",)
    assert (report.summary().verdict, report.summary().figures["returned"]) == ("Blocked", 1)
    assert not is_harmless(report)


def build_budget_with_status(healthy: int, desired: int, **spec: Any) -> Json:
    """Build a budget of app=web as the API server stores it."""
    guarding = build_budget(max(healthy - desired, 0))
    guarding["metadata"]["uid"] = "uid-b"
    guarding["spec"] |= spec
    guarding["status"] |= {"currentHealthy": healthy, "desiredHealthy": desired, "expectedPods": healthy}
    return guarding


@pytest.mark.parametrize("kind", ["StatefulSet", "ReplicaSet"])
@pytest.mark.parametrize("count", [1, 3])
def test_replacement_placed_in_a_later_step_is_healthy_again(kind: str, count: int) -> None:
    """Each pod is pinned to its node, so its replacement waits until the node is uncordoned."""
    nodes = [f"n{number}" for number in range(1, count + 1)]
    pods = [
        build_pod(f"web-{name}", name, owner={"kind": kind, "name": "web"}, nodeSelector={HOSTNAME: name})
        for name in nodes
    ]
    objects = [*map(build_node, nodes), *pods, build_budget_with_status(count, count - 1, maxUnavailable=1)]
    upgrade = [{step: {"nodes": [name]}} for name in nodes for step in ("drain", "uncordon")]
    report = run(*upgrade, *upgrade, objects=objects)
    assert report.incomplete_steps == ()
    assert [step.displaced for step in report.steps] == [1, 0] * 2 * count
    assert [step.placed for step in report.steps] == [0, 1] * 2 * count
    assert is_harmless(report)


def test_replacement_without_a_node_uses_up_the_budget_in_later_steps() -> None:
    """Without the uncordon between the drains, the answer is that of a drain of both nodes."""
    pods = [build_replica(f"r{number}", f"n{number}", nodeSelector={HOSTNAME: f"n{number}"}) for number in (1, 2, 3)]
    objects = [
        build_node("n1"),
        build_node("n2"),
        build_node("n3"),
        *pods,
        build_budget_with_status(3, 2, maxUnavailable=1),
    ]
    assert [blocked.pod for blocked in drain(Cluster.from_objects(objects), ["n1", "n2"]).blocked] == ["d/r2"]
    report = run(DRAIN_N1, DRAIN_N2, objects=objects)
    assert report.incomplete_steps == (2,)
    assert [blocked.pod for blocked in report.blocked_pods] == ["d/r2"]
    assert "it needs 2 healthy pods and has 2; d/r1 waits for a node" in report.blocked_pods[0].why
    assert run(DRAIN_N1, UNCORDON_N1, DRAIN_N2, objects=objects).incomplete_steps == ()


@pytest.mark.parametrize("step", ["removeNodes", "fail"])
def test_pod_that_loses_its_node_without_an_eviction_uses_up_the_budget(step: str) -> None:
    pods = [build_replica(f"r{number}", f"n{number}", nodeSelector={HOSTNAME: f"n{number}"}) for number in (1, 2)]
    objects = [build_node("n1"), build_node("n2"), *pods, build_budget_with_status(2, 1, maxUnavailable=1)]
    report = run({step: {"nodes": ["n1"]}}, DRAIN_N2, objects=objects)
    assert [blocked.pod for blocked in report.blocked_pods] == ["d/r2"]


@pytest.mark.parametrize(
    ("spec", "replicas", "evicted_count"),
    [
        ({"minAvailable": 2}, 2, 0),
        ({"minAvailable": 2}, 4, 2),  # 4 healthy pods, 2 of which have to stay
        ({"minAvailable": "100%"}, 4, 0),
        ({"maxUnavailable": 0}, 4, 0),
    ],
)
def test_scaling_changes_the_numbers_of_a_budget(spec: Json, replicas: int, evicted_count: int) -> None:
    """All pods run on n1, and no other node takes them."""
    pods = [build_replica(f"r{number}", "n1", nodeSelector={HOSTNAME: "n1"}) for number in (1, 2)]
    scale = {"scale": {"kind": "Deployment", "namespace": "d", "name": "web", "replicas": replicas}}
    report = run(scale, DRAIN_N1, objects=[build_node("n1"), *pods, build_budget_with_status(2, 2, **spec)])
    assert report.steps[1].displaced == evicted_count
    assert len(report.steps[1].blocked) == replicas - evicted_count


def test_scaling_up_does_not_change_a_budget_with_max_unavailable() -> None:
    pods = [build_replica(f"r{number}", "n1", nodeSelector={HOSTNAME: "n1"}) for number in (1, 2)]
    scale = {"scale": {"kind": "Deployment", "namespace": "d", "name": "web", "replicas": 4}}
    report = run(scale, DRAIN_N1, objects=[build_node("n1"), *pods, build_budget_with_status(2, 1, maxUnavailable=1)])
    assert (report.steps[1].displaced, len(report.steps[1].blocked)) == (1, 3)


def test_budget_in_failed_state_allows_nothing_in_later_steps() -> None:
    """It allows no disruption although 3 pods are healthy and 1 is desired."""
    failed = build_budget_with_status(3, 1, maxUnavailable=1)
    failed["status"]["disruptionsAllowed"] = 0
    objects = [
        build_node("n1"),
        build_node("n2"),
        build_replica("r1", "n1"),
        build_replica("r2", "n2"),
        build_replica("waits"),
        failed,
    ]
    assert run({"cordon": {"nodes": ["n2"]}}, DRAIN_N1, objects=objects).steps[1].displaced == 0


REPLACED_CLASS = {"priorityClass": {"name": "high", "value": -5}}
HIGH = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 10}
HIGH_SPEC = {"priority": 10, "priorityClassName": "high", "preemptionPolicy": "PreemptLowerPriority"}


def test_new_pods_get_the_current_priority_of_their_class() -> None:
    cheap = build_replica("cheap", "n2", priority=0)
    objects = [HIGH, build_node("n1"), build_node("n2", cpu="1"), build_replica("r1", "n1", **HIGH_SPEC), cheap]
    assert {c.change for c in run(DRAIN_N1, objects=objects).changes} == {"Moved", "NewlyPending"}  # r1 preempts
    fail = {"fail": {"nodes": ["n1"]}}
    for step in (DRAIN_N1, fail):
        assert changes(run(REPLACED_CLASS, step, objects=objects)) == {("r1", "NewlyPending", "n1", "")}
    replaced = [{**HIGH, "value": -5}, *objects[1:]]
    cluster = Cluster.from_objects(replaced)
    assert [group.pods for group in drain(cluster, ["n1"]).unplaced] == [("d/r1",)]
    losses = {loss.name: loss for loss in simulate_failures(cluster, "node").failures}
    assert (losses["n1"].unplaced, losses["n1"].evicted) == (1, 0)

    scale = {"scale": {"namespace": "d", "name": "web", "replicas": 3}}
    grown = run(REPLACED_CLASS, scale, objects=objects)
    assert not grown.not_created
    assert changes(grown) == {("web-more-0", "Created", "", "n1")}


def build_volume_objects(*names: str) -> list[Json]:
    """Build a StatefulSet's bound claims and their volumes in zone a, and the class of the claims."""
    in_zone_a = {"key": ZONE, "operator": "In", "values": ["a"]}
    objects: list[Json] = [
        {
            "kind": "StorageClass",
            "metadata": {"name": "disk"},
            "provisioner": "ebs.csi.aws.com",
            "volumeBindingMode": "WaitForFirstConsumer",
        }
    ]
    for name in names:
        spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "disk"}
        claim = {"spec": {**spec, "volumeName": f"pv-{name}"}, "status": {"phase": "Bound"}}
        meta = {"name": f"data-{name}", "namespace": "d", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
        affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [in_zone_a]}]}}
        reference = {"kind": "PersistentVolumeClaim", "name": f"data-{name}", "namespace": "d"}
        objects += [
            {"kind": "PersistentVolumeClaim", "metadata": meta, **claim},
            {
                "kind": "PersistentVolume",
                "metadata": {"name": f"pv-{name}"},
                "spec": {**spec, "claimRef": reference, "nodeAffinity": affinity, "csi": {"driver": "ebs.csi.aws.com"}},
                "status": {"phase": "Bound"},
            },
        ]
    return objects


def build_member_with_claim(name: str, node_name: str) -> Json:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": f"data-{name}"}}
    return build_pod(name, node_name, "3", {"kind": "StatefulSet", "name": "db"}, volumes=[volume])


def test_new_pods_of_a_stateful_set_get_claims_of_their_own() -> None:
    members = [build_member_with_claim("db-0", "n1")]
    objects = [build_node("n1", "a"), build_node("n2", "b"), *members, *build_volume_objects("db-0")]
    step = {"scale": {"kind": "StatefulSet", "namespace": "d", "name": "db", "replicas": 2}}
    report = run(step, objects=objects)
    assert changes(report) == {("db-1", "Created", "", "n2")}  # the volume of db-0 is in zone a, that of db-1 is not
    assert not report.steps[0].notes

    # A claim that is left from an earlier db-1 is used again
    left = run(step, objects=[*objects, *build_volume_objects("db-1")[1:]])
    assert changes(left) == {("db-1", "NewlyPending", "", "")}


def test_scaled_job_runs_no_more_pods_than_its_completions_allow() -> None:
    job = {"kind": "Job", "metadata": {"name": "j", "namespace": "d"}, "spec": {"completions": 3, "parallelism": 1}}
    job["status"] = {"succeeded": 1, "active": 1}
    owner = {"kind": "Job", "name": "j", "apiVersion": "batch/v1"}
    step = {"scale": {"kind": "Job", "namespace": "d", "name": "j", "replicas": 9}}
    report = run(step, objects=[build_node("n1"), job, build_pod("j-a", "n1", "100m", owner)])
    assert changes(report) == {("j-more-0", "Created", "", "n1")}  # 2 remain to complete, and 1 of them runs
    assert report.steps[0].notes == ("no more than 2 pods at a time: the Job's completions leave no more to complete",)


def test_pods_that_wait_between_steps_are_named() -> None:
    """Only n1 has room for r1, so r1 waits while n1 is drained."""
    member = build_pod("db-0", "n1", "100m", {"kind": "StatefulSet", "name": "db"}, nodeSelector={HOSTNAME: "n1"})
    objects = [build_node("n1"), build_node("n2", cpu="1"), build_replica("r1", "n1", "3"), member]
    report = run(DRAIN_N1, UNCORDON_N1, objects=objects)
    assert changes(report) == {("r1", "Restarted", "n1", "n1"), ("db-0", "Restarted", "n1", "n1")}
    assert report.pending == (0, 0)
    waits = {wait.workload: (wait.pods, wait.steps, wait.most) for wait in report.waits_between_steps}
    assert waits == {"Deployment d/web": (("d/r1",), (1,), 1), "StatefulSet d/db": (("d/db-0",), (1,), 1)}
    assert "2 restarted on the same node; between the steps, 2 pods wait for a node" in report.build_headline_parts()[1]
    for output in ("table", "brief", "markdown", "html"):
        text = RENDERERS[output](report, Style(width=200))
        assert "1 pod of Deployment d/web has no node after step 1 (d/r1)" in text
    assert "restarted on the same node: d/db-0, d/r1" in RENDERERS["brief"](report, Style(width=200))

    # A pod that still waits in the end is newly pending instead
    assert not run(DRAIN_N1, objects=objects).waits_between_steps


def test_steps_are_shown_with_their_objects() -> None:
    scale = {"scale": {"namespace": "d", "name": "web", "replicas": 3}}
    class_step = {"priorityClass": {"name": "high", "value": 5}}
    apply = {"apply": {"manifests": [build_workload("Deployment", "db", {"replicas": 1})]}}
    report = run(
        DRAIN_N1, {"uncordon": {"selector": "pool=p"}}, {"addNodes": {"like": "n1", "count": 2}},
        {"fail": {"zone": "b"}}, scale, class_step, apply,
    )  # fmt: skip
    assert [step.subject for step in report.steps] == [
        "n1", "nodes with pool=p", "2 like n1", "zone b", "Deployment d/web to 3", "high 5", "Deployment db",
    ]  # fmt: skip
    table = RENDERERS["table"](report, Style(width=200))
    for what in ("drain n1", "addNodes 2 like n1", "fail zone b", "scale Deployment d/web to 3"):
        assert what in table


def test_pods_that_pending_pods_evict_before_the_steps_are_named() -> None:
    job = {"kind": "Job", "metadata": {"name": "j", "namespace": "d"}, "spec": {"backoffLimit": 0}}
    worker = build_pod("j-a", "n1", "3", {"kind": "Job", "name": "j", "apiVersion": "batch/v1"}, priority=-10)
    other_worker = build_pod("j-b", "n2", "500m", {"kind": "Job", "name": "j", "apiVersion": "batch/v1"}, priority=-10)
    waiting = build_pod("urgent", cpu="3", priority=10)
    objects = [build_node("n1"), build_node("n2", cpu="1"), job, worker, other_worker, waiting]
    report = run({"cordon": {"nodes": ["n2"]}}, objects=objects)
    assert changes(report) == set()
    assert [(evicted.pod, evicted.by, evicted.fate) for evicted in report.evicted_before] == [
        ("d/j-a", "d/urgent", "Lost")
    ]
    text = "d/urgent gets a node by evicting d/j-a (lost for good), which does not count as a change"
    for output in ("table", "brief", "markdown", "html"):
        assert text in RENDERERS[output](report, Style(width=200))
        assert "1 other pod ends with its failed Job (d/j-b)" in RENDERERS[output](report, Style(width=200))
    assert run({"cordon": {"nodes": ["n2"]}}).evicted_before == ()


@pytest.mark.parametrize(("allowed", "violated"), [(0, {"d/b": 0}), (1, {})])
def test_budgets_that_preemption_violates_are_named(allowed: int, violated: dict[str, int]) -> None:
    """The pod that the drain moves preempts the only pod of the budget, whether the budget allows it or not."""
    budget = build_budget_with_status(1, 1 - allowed, maxUnavailable=allowed)
    high = build_pod("high", "n1", "3", {"kind": "ReplicaSet", "name": "high"}, priority=10)
    high["metadata"]["labels"] = {}
    objects = [build_node("n1"), build_node("n2"), high, build_replica("web-5f-a", "n2", "3"), budget]
    report = run(DRAIN_N1, objects=objects)
    assert [step.violated_budgets for step in report.steps] == [violated]
    text = "step 1 violates PodDisruptionBudget d/b: it allows 0 disruptions now, and preemption evicts 1 pod"
    for output in ("table", "brief", "markdown", "html"):
        assert (text in RENDERERS[output](report, Style(width=200)).replace("Step", "step")) is bool(violated), output

    # A pending pod does the same before the first step
    high = build_pod("high", cpu="3", priority=10)
    high["metadata"]["labels"] = {}
    objects = [build_node("n2"), high, build_replica("web-5f-a", "n2", "3"), budget]
    report = run({"cordon": {"nodes": ["n2"]}}, objects=objects)
    assert report.violated_budgets_before == violated
    text = "violates PodDisruptionBudget d/b: it allows 0 disruptions now"
    for output in ("table", "brief", "markdown", "html"):
        assert (text in RENDERERS[output](report, Style(width=200))) is bool(violated), output


def test_preempted_pods_do_not_hide_which_pending_pods_get_a_node_before_the_steps() -> None:
    """urgent evicts r1, which stays pending, so that one pod waits both now and before the step."""
    objects = [build_node("n1"), build_replica("r1", "n1", "3"), build_pod("urgent", cpu="3", priority=10)]
    report = run({"cordon": {"nodes": ["n1"]}}, objects=objects)
    assert (report.waiting, report.waiting_placed, report.pending) == (1, 1, (1, 1))
    page = RENDERERS["table"](report, Style(width=200))
    assert "1 of 1 pod pending now gets a node even without the steps" in page
    counts = "1 pod is pending before the steps (1 of them preempted by other pending pods), and 1 after"
    assert counts in page
    assert counts in RENDERERS["brief"](report, Style(width=200))


def test_pods_that_are_preempted_in_a_step_are_named() -> None:
    """If n2 is drained, its pod preempts r1, which then fits nowhere."""
    objects = [
        build_node("n1"),
        build_node("n2"),
        build_replica("r1", "n1", "3"),
        build_replica("high", "n2", "3", priority=10),
    ]
    for step in (DRAIN_N2, {"fail": {"nodes": ["n2"]}}):
        report = run({"cordon": {"nodes": ["n2"]}}, step, objects=objects)
        assert [step.evicted for step in report.steps] == [0, 1]
        text = "tep 2 evicts d/r1 on n1, preempted by d/high (then pending)"
        for output in ("table", "brief", "markdown", "html"):
            assert text in RENDERERS[output](report, Style(width=200))


def test_pods_that_wait_until_a_failed_node_is_deleted() -> None:
    """Until n3 is deleted, its zone counts as an empty domain, and StatefulSets do not replace its pods."""
    member = build_pod("db-0", "n3", "100m", {"kind": "StatefulSet", "name": "db"})
    agent = build_pod("agent-n3", "n3", "100m", {"kind": "DaemonSet", "name": "agent"})
    replicas = [build_replica(f"r{i}", f"n{i}", **build_spread()) for i in (1, 2, 3)]
    objects = [build_node("n1", "a"), build_node("n2", "b"), build_node("n3", "c"), *replicas, member, agent]
    report = run({"fail": {"zone": "c"}}, objects=objects)
    worst = next(loss for loss in simulate_failures(Cluster.from_objects(objects)).failures if loss.name == "c")
    (step,) = report.steps
    assert step.waiting_until_deleted == worst.waiting_by_rule
    assert report.pods_waiting_until_deleted == ("d/r3",)
    assert [(late.reason, late.pods) for late in step.late_pods] == [(LateReason.CONTROLLER_WAITS, ("d/db-0",))]
    assert (step.displaced, step.ending) == (worst.displaced, worst.ending) == (2, 1)
    assert not is_harmless(report)
    line = report.build_headline_parts()[1]
    assert (
        "1 pod waits until the failed nodes' Node objects are deleted; 1 pod runs again only after the failed nodes'"
        in line
    )
    for output in ("table", "brief", "markdown", "html"):
        text = unescape(RENDERERS[output](report, Style(width=300)))
        assert "d/r3 waits until the lost nodes' Node objects are deleted" in text
        assert "d/db-0 gets no replacement until the lost nodes' Node objects are deleted" in text

    # Removed nodes do not exist any more
    removed = run({"removeNodes": {"nodes": ["n3"]}}, objects=objects)
    assert not removed.pods_waiting_until_deleted
    assert is_harmless(removed)
