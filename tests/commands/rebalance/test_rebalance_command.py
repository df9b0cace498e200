"""Check the order of ``rebalance``'s evictions, its exit codes, and the errors for invalid policies."""

from __future__ import annotations

import json

import msgspec
import pytest
from command_line import Json, Run, Write, build_node, build_pod

from kschedctl.api.pod_table import PodTable
from kschedctl.scheduler.simulation.simulation import SettlingLoop
from kschedctl.sources import archive_sections as sections

PACK_PODS = sections._build_pod_record
OWNER = [{"controller": True, "kind": "ReplicaSet", "name": "web", "apiVersion": "apps/v1", "uid": "u"}]
TAINT = {"key": "maintenance", "effect": "NoSchedule"}


def build_owned_pod(name: str, on: str, cpu: str = "1", **labels: str) -> Json:
    made = build_pod(name, cpu)
    made["metadata"] |= {"ownerReferences": OWNER, "labels": labels}
    made["spec"]["nodeName"] = on
    return made


def build_tainted_node(name: str, cpu: str) -> Json:
    made = build_node(name, cpu)
    made["spec"] = {"taints": [TAINT]}
    return made


def build_policy(*configs: Json, point: str = "deschedule", **more: object) -> Json:
    names = [config["name"] for config in configs if config["name"] != "DefaultEvictor"]
    profile = {"name": "p", "pluginConfig": list(configs), "plugins": {point: {"enabled": names}}}
    return {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy", "profiles": [profile], **more}


TAINTS = {"name": "RemovePodsViolatingNodeTaints"}


def run_rebalance(run: Run, write: Write, tmp_path, objects: list[Json], document: Json) -> Json:
    """Run rebalance and return its exit code with its report."""
    file = tmp_path / "policy.json"
    file.write_text(json.dumps(document))
    answer = run("rebalance", "--policy", str(file), "-f", write(*objects), "-o", "json")
    return {"code": answer.code, **json.loads(answer.out)}


def test_pod_leaves_a_tainted_node(run: Run, write: Write, tmp_path) -> None:
    objects = [build_tainted_node("n1", "4"), build_node("n2", "4"), build_owned_pod("a", "n1")]
    answer = run_rebalance(run, write, tmp_path, objects, build_policy(TAINTS))
    assert [(step["pod"], step["source"], step["target"]) for step in answer["steps"]] == [("default/a", "n1", "n2")]
    assert (answer["code"], answer["quiet"], answer["loops"], len(answer["rounds"])) == (0, True, False, 2)
    assert "/namespaces/default/pods/a/eviction" in answer["commands"][0]


@pytest.mark.parametrize("form", [(), ("--brief",), ("-o", "markdown")])
def test_harm_of_the_evictions_is_named(run: Run, write: Write, tmp_path, form: tuple[str, ...]) -> None:
    """The only pod of its workload has scratch data. A second replica would go on running."""
    scratch = build_owned_pod("a", "n1")
    scratch["spec"]["volumes"] = [{"name": "v", "emptyDir": {}}]
    scratch["metadata"]["annotations"] = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
    evictor = {"name": "DefaultEvictor", "args": {"evictLocalStoragePods": True}}
    policy = build_policy(TAINTS, evictor)
    objects = [build_tainted_node("n1", "4"), build_node("n2", "4"), scratch]
    answer = run_rebalance(run, write, tmp_path, objects, policy)
    assert (answer["losesData"], answer["askToStay"]) == (["default/a"], ["default/a"])
    assert answer["outages"] == ["ReplicaSet default/web"]
    assert run_rebalance(run, write, tmp_path, [*objects, build_owned_pod("b", "n2")], policy)["outages"] == []

    file = tmp_path / "policy.json"
    text = " ".join(run("rebalance", "--policy", str(file), "-f", write(*objects), *form).out.replace("*", "").split())
    assert "deletes the emptyDir data of default/a" in text
    assert "leaves ReplicaSet default/web without a running pod until its replacement runs" in text
    assert "evicts default/a, whose annotations ask not to be evicted" in text


def test_interruption_shows_the_evictions_before_it(
    run: Run, write: Write, tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user interrupts while the pending pod is retried after the second of three evictions."""
    schedule, calls = SettlingLoop.run, list[int]()

    def run_until_third(loop: SettlingLoop, *arguments: object) -> None:
        calls.append(1)
        if len(calls) == 3:  # the first time is at the start, before any eviction
            raise KeyboardInterrupt
        schedule(loop, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(SettlingLoop, "run", run_until_third)
    objects = [
        build_tainted_node("n1", "4"),
        build_node("n2", "4"),
        *(build_owned_pod(name, "n1") for name in "abc"),
        build_pod("waits", "9"),
    ]
    answer = run_rebalance(run, write, tmp_path, objects, build_policy(TAINTS))
    assert (answer["code"], answer["interrupted"], answer["quiet"]) == (130, True, False)
    assert [step["pod"] for step in answer["steps"]] == ["default/a", "default/b"]
    assert answer["rounds"] == [{"number": 1, "evicted": 2, "refused": 0}]


def test_pending_pod_gets_the_room_of_an_eviction(run: Run, write: Write, tmp_path) -> None:
    """a (2 CPUs) moves from n1 to n2. Then a pod that tolerates the taint of n1 and needs 3 of 4 CPUs fits there."""
    waits = build_pod("waits", "3")
    waits["spec"]["tolerations"] = [{"operator": "Exists"}]
    objects = [build_tainted_node("n1", "4"), build_node("n2", "2"), build_owned_pod("a", "n1", "2"), waits]
    answer = run_rebalance(run, write, tmp_path, objects, build_policy(TAINTS))
    assert [(step["pod"], step["target"]) for step in answer["steps"]] == [("default/a", "n2")]
    assert answer["placed"] == [{"pod": "default/waits", "node": "n1"}]
    assert (answer["code"], answer["quiet"]) == (0, True)


def test_page(run: Run, write: Write) -> None:
    code, out, _ = run(
        "rebalance", "-f", write(build_tainted_node("n1", "4"), build_node("n2", "4"), build_owned_pod("a", "n1"))
    )
    assert code == 0
    assert out.startswith("The descheduler stops after 1 eviction: round 2 evicts nothing")
    assert "n2" in out
    assert "no gain" not in out


def test_first_line_is_one_sentence(run: Run, write: Write, tmp_path) -> None:
    """The budget allows one of the two evictions.

    The files do not say if there are claims, volumes or other objects.
    """
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}},
    }
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    pods = [build_owned_pod(name, "n1", app="a") | {"status": ready} for name in ("a", "b")]
    file = tmp_path / "policy.json"
    file.write_text(json.dumps(build_policy(TAINTS, unheardOf=1)))
    objects = write(build_tainted_node("n1", "4"), build_node("n2", "4"), *pods, budget)
    out = run("rebalance", "--policy", str(file), "--rounds", "1", "-f", objects).out.splitlines()
    assert out[0] == "The descheduler has not stopped after 1 eviction in 1 round; 1 pod may not be evicted"
    assert 'The descheduler does not read unknown field "unheardOf" in the policy.' in out
    assert next(line for line in out if "STEP" in line).split()[:2] == ["STEP", "EVICT"]


RESTARTS = {"name": "RemovePodsHavingTooManyRestarts", "args": {"podRestartThreshold": 5}}


def build_restarted_pod(name: str, times: int) -> Json:
    return build_owned_pod(name, "n1") | {
        "status": {"phase": "Running", "containerStatuses": [{"restartCount": times}]}
    }


def test_pod_with_too_many_restarts_is_replaced_without_restarts(run: Run, write: Write, tmp_path) -> None:
    objects = [
        build_node("n1", "4"),
        build_node("n2", "4"),
        build_restarted_pod("few", 4),
        build_restarted_pod("many", 5),
        build_restarted_pod("most", 9),
    ]
    answer = run_rebalance(run, write, tmp_path, objects, build_policy(RESTARTS))
    assert [step["pod"] for step in answer["steps"]] == ["default/most", "default/many"]
    assert (answer["code"], answer["quiet"], len(answer["rounds"])) == (0, True, 2)


def build_condition_policy(*conditions: Json) -> Json:
    return build_policy({"name": "PodLifeTime", "args": {"conditions": list(conditions)}})


def build_pod_with_condition(name: str, **condition: str) -> Json:
    return build_owned_pod(name, "n1") | {"status": {"phase": "Running", "conditions": [condition]}}


@pytest.mark.parametrize(
    ("conditions", "evicted"),
    [
        ([{"type": "Ready", "status": "False"}], ["default/away"]),
        ([{"type": "DisruptionTarget", "reason": "DeletionByTaintManager"}], ["default/tainted"]),
        ([{"type": "DisruptionTarget", "reason": "PreemptionByScheduler"}, {"type": "PodResizePending"}], []),
    ],
)
def test_condition_filters_that_are_replayed(
    run: Run, write: Write, tmp_path, conditions: list[Json], evicted: list[str]
) -> None:
    """The replacement is ready, and is not about to be disrupted."""
    pods = [
        build_pod_with_condition("away", type="Ready", status="False"),
        build_pod_with_condition("here", type="Ready", status="True"),
        build_pod_with_condition("tainted", type="DisruptionTarget", status="True", reason="DeletionByTaintManager"),
    ]
    answer = run_rebalance(
        run, write, tmp_path, [build_node("n1", "4"), build_node("n2", "4"), *pods], build_condition_policy(*conditions)
    )
    assert [step["pod"] for step in answer["steps"]] == evicted
    assert (answer["code"], answer["quiet"], answer["notReplayed"]) == (0, True, [])


@pytest.mark.parametrize(
    "condition",
    [
        {"reason": "PodCompleted"},
        {"type": "Ready", "reason": "X"},
        {"type": "DisruptionTarget", "minTimeSinceLastTransitionSeconds": 60},
    ],
)
def test_condition_filters_that_are_not_replayed(run: Run, write: Write, tmp_path, condition: Json) -> None:
    objects = [
        build_node("n1", "4"),
        build_node("n2", "4"),
        build_pod_with_condition("a", type="Ready", status="False"),
    ]
    answer = run_rebalance(run, write, tmp_path, objects, build_condition_policy(condition))
    assert (answer["code"], answer["steps"]) == (5, [])
    assert answer["notReplayed"][0].startswith(
        "the descheduler's plugin PodLifeTime, conditions other than the status of"
    )


def test_snapshots_keep_restarts_unlike_earlier_versions(run: Run, write: Write, tmp_path, monkeypatch) -> None:
    file, saved = tmp_path / "policy.json", str(tmp_path / "saved.zip")
    file.write_text(json.dumps(build_policy(RESTARTS)))
    given = ["-f", write(build_node("n1", "4"), build_node("n2", "4"), build_restarted_pod("many", 5))]
    question = ("rebalance", "--policy", str(file), "-o", "json", "--snapshot", saved)
    assert run("snapshot", "save", "-o", saved, *given).code == 0
    answer = run(*question)
    assert [step["pod"] for step in json.loads(answer.out)["steps"]] == ["default/many"]

    def as_before(table: PodTable) -> msgspec.Struct:
        return msgspec.structs.replace(PACK_PODS(table), containers=None)

    monkeypatch.setattr(sections, "_build_pod_record", as_before)
    assert run("snapshot", "save", "-o", saved, *given).code == 0
    answer = run(*question)
    document = json.loads(answer.out)
    assert (answer.code, document["steps"]) == (5, [])
    assert "restarts and states of containers, which the snapshot lacks" in answer.out


def test_pod_that_fits_nowhere_else_stays(run: Run, write: Write, tmp_path) -> None:
    """Without nodeFit, upstream's evictor does not look for another node."""
    objects = [build_tainted_node("n1", "4"), build_node("n2", "1"), build_owned_pod("a", "n1", "2")]
    answer = run_rebalance(run, write, tmp_path, objects, build_policy(TAINTS))
    assert (answer["code"], answer["steps"], answer["unsafe"]) == (1, [], 1)
    assert answer["held"][0]["why"].startswith("it fits nowhere else: 0/2 nodes are available")
    fits = {"name": "DefaultEvictor", "args": {"nodeFit": True}}
    assert run_rebalance(run, write, tmp_path, objects, build_policy(fits, TAINTS))["held"] == []


def test_no_pod_is_lost(run: Run, write: Write, tmp_path) -> None:
    """The pod has no owner, and asks the descheduler to evict it."""
    bare = build_owned_pod("a", "n1")
    bare["metadata"] |= {"ownerReferences": [], "annotations": {"descheduler.alpha.kubernetes.io/evict": "true"}}
    answer = run_rebalance(
        run, write, tmp_path, [build_tainted_node("n1", "4"), build_node("n2", "4"), bare], build_policy(TAINTS)
    )
    assert (answer["steps"], answer["held"][0]["why"], answer["unsafe"]) == ([], "nothing recreates it", 1)


def test_pods_of_a_job_that_would_fail_stay(run: Run, write: Write, tmp_path) -> None:
    made = build_owned_pod("a", "n1")
    made["metadata"]["ownerReferences"] = [{**OWNER[0], "apiVersion": "batch/v1", "kind": "Job", "name": "j"}]
    job = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"backoffLimit": 0}}
    job["metadata"] = {"name": "j", "namespace": "default", "uid": "j"}
    answer = run_rebalance(
        run, write, tmp_path, [build_tainted_node("n1", "4"), build_node("n2", "4"), made, job], build_policy(TAINTS)
    )
    why = "its Job allows no more failed pods"
    assert (answer["steps"], answer["held"][0]["why"], answer["unsafe"]) == ([], why, 1)
    job["spec"] = {}
    answer = run_rebalance(
        run, write, tmp_path, [build_tainted_node("n1", "4"), build_node("n2", "4"), made, job], build_policy(TAINTS)
    )
    assert [step["target"] for step in answer["steps"]] == ["n2"]


def test_budget_spreads_evictions_over_rounds(run: Run, write: Write, tmp_path) -> None:
    """One of three pods may be disrupted at a time.

    Each round evicts one, and in the fourth round nothing is left to do.
    """
    spec = {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 1}
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"}, "spec": spec}
    pods = [build_owned_pod(name, "n1", app="web") for name in "abc"]
    answer = run_rebalance(
        run,
        write,
        tmp_path,
        [build_tainted_node("n1", "4"), build_node("n2", "4"), *pods, budget],
        build_policy(TAINTS),
    )
    assert [step["round"] for step in answer["steps"]] == [1, 2, 3]
    assert [(entry["evicted"], entry["refused"]) for entry in answer["rounds"]] == [(1, 2), (1, 1), (1, 0), (0, 0)]
    assert answer["steps"][0]["budgets"] == ["default/web"]
    assert answer["held"] == []


def test_budget_that_allows_nothing(run: Run, write: Write, tmp_path) -> None:
    spec = {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 0}
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"}, "spec": spec}
    objects = [build_tainted_node("n1", "4"), build_node("n2", "4"), build_owned_pod("a", "n1", app="web"), budget]
    answer = run_rebalance(run, write, tmp_path, objects, build_policy(TAINTS))
    assert answer["steps"] == []
    assert answer["held"][0]["why"].startswith("PodDisruptionBudget default/web never allows an eviction")


@pytest.mark.parametrize(
    ("limit", "counts"),
    [
        ("maxNoOfPodsToEvictTotal", [1, 1, 1, 0]),
        ("maxNoOfPodsToEvictPerNode", [1, 1, 1, 0]),
        ("maxNoOfPodsToEvictPerNamespace", [1, 1, 1, 0]),
    ],
)
def test_limits_hold_in_each_round(run: Run, write: Write, tmp_path, limit: str, counts: list[int]) -> None:
    objects = [build_tainted_node("n1", "4"), build_node("n2", "4"), *(build_owned_pod(name, "n1") for name in "abc")]
    answer = run_rebalance(run, write, tmp_path, objects, build_policy(TAINTS, **{limit: 1}))
    assert [entry["evicted"] for entry in answer["rounds"]] == counts


def test_policy_that_loops(run: Run, write: Write, tmp_path) -> None:
    """The only node that the pod prefers is full, so that it returns to its node again and again."""
    prefers = {"key": "disk", "operator": "In", "values": ["ssd"]}
    term = {"weight": 1, "preference": {"matchExpressions": [prefers]}}
    moving = build_owned_pod("a", "n1", "2")
    moving["spec"]["affinity"] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    best = build_node("n2", "1")
    best["metadata"]["labels"] = {"disk": "ssd"}
    kind = {"nodeAffinityType": ["preferredDuringSchedulingIgnoredDuringExecution"]}
    document = build_policy({"name": "RemovePodsViolatingNodeAffinity", "args": kind})
    answer = run_rebalance(run, write, tmp_path, [build_node("n1", "4"), best, moving], document)
    assert (answer["code"], answer["loops"], answer["quiet"]) == (1, True, False)
    assert [step["stays"] for step in answer["steps"]] == [True]


@pytest.mark.parametrize(
    "metrics",
    [{"source": "KubernetesMetrics"}, {"metricsServer": True}, {"source": "Prometheus", "prometheus": {"query": "up"}}],
)
def test_actual_usage_is_unknown(run: Run, write: Write, tmp_path, metrics: Json) -> None:
    args = {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}, "metricsUtilization": metrics}
    document = build_policy({"name": "LowNodeUtilization", "args": args}, point="balance")
    answer = run_rebalance(
        run, write, tmp_path, [build_node("n1", "4"), build_node("n2", "4"), build_owned_pod("a", "n1", "3")], document
    )
    assert (answer["code"], answer["steps"]) == (5, [])
    (said,) = answer["notReplayed"]
    assert said.endswith("metricsUtilization: the actual usage of pods is unknown, only their requests are known")


def test_answer_is_undecided_without_budgets(run: Run, write: Write) -> None:
    code, out, err = run(
        "rebalance",
        "-f",
        write(build_tainted_node("n1", "4"), build_node("n2", "4"), build_owned_pod("a", "n1"), whole=False),
    )
    assert code == 5, err
    doubt = "not certain: the files may lack PodDisruptionBudgets, Services or ReplicaSets"
    assert doubt in " ".join(out.split())


NAME = {"name": "RemovePodsViolatingNodeTaints"}


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"kind": "Pod"}, "policy.json: not a DeschedulerPolicy: no apiVersion, Pod"),
        (build_policy() | {"apiVersion": "descheduler/v1alpha1"}, "apiVersion descheduler/v1alpha1 is not supported"),
        (build_policy({"name": "RemovePodsViolatingTaints"}), "did you mean RemovePodsViolatingNodeTaints?"),
        (build_policy({**NAME, "args": {"excludeTaints": []}}), 'unknown field "excludeTaints" of RemovePodsViolating'),
        (
            build_policy({**NAME, "args": {"excludedTaints": "a"}}),
            "pluginConfig[0].args.excludedTaints: expected array",
        ),
        (
            build_policy({**NAME, "args": {"namespaces": {"include": ["a"], "exclude": ["b"]}}}),
            "only one of include and",
        ),
        (build_policy(NAME, point="balance"), "RemovePodsViolatingNodeTaints has no extension point balance"),
        (
            build_policy() | {"profiles": [{"plugins": {"deschedule": {"enabled": [NAME["name"]]}}}]},
            "has no pluginConfig",
        ),
        (build_policy({"name": "RemovePodsViolatingNodeAffinity"}), "args.nodeAffinityType: must be set"),
        (
            build_policy({"name": "DefaultEvictor", "args": {"minPodAge": "soon"}}),
            'args.minPodAge: "soon" is not a duration',
        ),
        (build_policy({"name": "DefaultEvictor", "args": {"minReplicas": -1}}), "args.minReplicas: expected int >= 0"),
        (build_policy({"name": "PodLifeTime"}), "args: one of maxPodLifeTimeSeconds"),
        (build_policy({"name": "RemovePodsHavingTooManyRestarts"}), "args.podRestartThreshold: must be 1 or more"),
        (
            build_policy({"name": "HighNodeUtilization", "args": {"thresholds": {"cpu": 120}}}),
            "args.thresholds[cpu]: must be from 0 to 100",
        ),
        (build_policy(maxNoOfPodsToEvictTotal="many"), "policy.json, maxNoOfPodsToEvictTotal: expected int, got str"),
        (build_policy(nodeSelector="a b"), "policy.json, nodeSelector: "),
    ],
)
def test_invalid_policies_are_errors(run: Run, write: Write, tmp_path, document: Json, said: str) -> None:
    file = tmp_path / "policy.json"
    file.write_text(json.dumps(document))
    code, _, err = run("rebalance", "--policy", str(file), "-f", write(build_node("n1", "4")))
    assert (code, said in err) == (2, True), err
    assert len(err.strip().splitlines()) == 1


def test_two_documents_are_an_error(run: Run, tmp_path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("---\nkind: A\n---\nkind: B\n")
    code, _, err = run("rebalance", "--policy", str(file), "--demo")
    assert (code, "expected one DeschedulerPolicy, found 2 documents" in err) == (2, True)


def test_ignored_field_is_reported(run: Run, write: Write, tmp_path) -> None:
    answer = run_rebalance(run, write, tmp_path, [build_node("n1", "4")], build_policy(interval="5m"))
    assert (answer["policyIgnored"], answer["ignored"]) == (['unknown field "interval"'], [])
