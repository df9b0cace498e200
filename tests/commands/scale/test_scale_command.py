"""Check ``scale up`` and ``scale down`` on loops of the real Cluster Autoscaler, and on groups derived from labels."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Run, Write, build_node, build_pod
from golden_cases import Json, iter_family_lines

import kschedctl
from kschedctl.render.page import Style
from kschedctl.render.renderers import RENDERERS
from kschedctl.reports.cluster_autoscaler import ExpansionOption, GroupIncrease, RemainingPod, ScaleUp


def write_case_files(tmp_path: Path, given: Json) -> tuple[str, ...]:
    cluster, groups = tmp_path / "cluster.json", tmp_path / "groups.json"
    cluster.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": given["objects"]}))
    groups.write_text(json.dumps({"nodeGroups": given["nodeGroups"], "options": given.get("options") or {}}))
    return "-f", str(cluster), "--node-groups", str(groups), "--assume-complete"


def list_cases(family: str, key: str) -> list[Json]:
    loops = (json.loads(line) for line in iter_family_lines(f"autoscaling/{family}"))
    return [each for each in loops if each["answer"].get(key)]


def test_scale_up_gives_the_answer_of_the_function(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = list_cases("scaleup", "increases")[0]["input"]
    monkeypatch.setattr("kschedctl.commands.scale.command.get_cluster_time", lambda *_: given["now"])
    asked = ("scale", "up", *write_case_files(tmp_path, given))
    answer = json.loads(run(*asked, "-o", "json").out)
    cluster = kschedctl.Cluster.from_objects(given["objects"])
    expected = kschedctl.scale_up(cluster, given["nodeGroups"], given.get("options"), now=given["now"])
    assert answer["kind"] == "ScaleUp"
    assert answer["increases"] == expected.to_dict()["increases"]
    assert run(*asked).out.startswith("Scale-up: ")


def test_scale_down_gives_every_node_a_reason(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = list_cases("scaledown", "unneeded")[0]["input"]
    monkeypatch.setattr("kschedctl.commands.scale.command.get_cluster_time", lambda *_: given["now"])
    asked = ("scale", "down", *write_case_files(tmp_path, given))
    done = run(*asked, "-o", "json")
    assert (done.code, json.loads(done.out)["kind"]) == (0, "ScaleDown")
    wide = run(*asked, "-o", "wide").out
    assert all(name in wide for name in json.loads(done.out)["nodes"])


def test_groups_of_labels_have_no_limits(run: Run, write: Write) -> None:
    """The first line says so, and the answer is not certain."""
    pooled = build_node("n1", "1")
    pooled["metadata"]["labels"] = {"example.com/crew": "blue"}
    refused = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    waiting = build_pod("web", "1")
    waiting["status"] = {"phase": "Pending", "conditions": refused}
    placed = build_pod("old", "1")
    placed["spec"]["nodeName"] = "n1"
    file = write(pooled, waiting, placed)
    done = run("scale", "up", "-f", file, "--pool-label", "example.com/crew", "--assume-complete")
    assert done.code == 5
    assert done.out.startswith("Not certain: node groups are known only from node labels")
    assert "blue" in done.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("scale", "sideways", "--demo"), "kschedctl scale up"),
        (("scale", "up", "--demo", "--pool-label", "no/such"), "--pool-label KEY"),
        (("scale", "up", "--demo", "--node-groups", "nowhere.yaml"), "nowhere.yaml"),
        (("scale", "up", "--demo", "--node-groups", "GROUPS"), "no node groups"),
    ],
)
def test_invalid_options_are_errors(run: Run, tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    groups = tmp_path / "groups.yaml"
    groups.write_text("name: pool\n")
    done = run(*(str(groups) if each == "GROUPS" else each for each in arguments))
    assert done.code == 2
    assert message in done.err
    assert len(done.err.splitlines()) == 1


def test_demo_has_pools(run: Run) -> None:
    done = run("scale", "down", "--demo")
    assert done.code == 5
    assert "no pod would move" in done.out


def test_first_line_names_the_groups_that_grow(run: Run) -> None:
    assert "Scale-up: general grows from 8 to 9 nodes for 2 of 8 pods marked as unschedulable" in " ".join(
        run("scale", "up", "--demo").out.split()
    )


def test_each_pod_without_a_group_is_listed_once_with_its_reasons(run: Run, write: Write) -> None:
    """Two pods request more CPUs than a node of either group has."""
    nodes = [build_node(f"{crew}-1", "1") for crew in ("blue", "green")]
    for crew, each in zip(("blue", "green"), nodes, strict=True):
        each["metadata"]["labels"]["example.com/crew"] = crew
    unschedulable = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    waiting = [
        build_pod(name, "9") | {"status": {"phase": "Pending", "conditions": unschedulable}} for name in ("p", "q")
    ]
    file = write(*nodes, *waiting)
    output = run("scale", "up", "-f", file, "--pool-label", "example.com/crew", "--assume-complete").out
    table = output.split("Pods that trigger no scale-up\n")[1]
    assert table.count("default/p") == table.count("default/q") == 1
    assert table.count("blue, green: the pod needs 9 CPUs") == 1


@pytest.mark.parametrize("form", [(), ("--brief",)])
def test_running_pods_that_the_autoscaler_ignores_are_named(run: Run, form: tuple[str, ...]) -> None:
    """The demo's trainers have priority -100, which is below the autoscaler's default cutoff of -10."""
    printed = " ".join(run("scale", "down", "--demo", *form).out.split())
    assert "The autoscaler removes 5 of 5 unneeded nodes" in printed
    assert "6 running low-priority pods are deleted with these nodes" in printed
    assert "batch/trainer-4qk7z" in printed


def test_explanation_says_if_a_group_would_grow(run: Run, tmp_path: Path) -> None:
    """Each group has the answer of the real autoscaler about the pod."""
    found = 0
    for each in list_cases("scaleup", "remaining")[:12]:
        given, remaining = each["input"], each["answer"]["remaining"]
        for name, refused in list(remaining.items())[:1]:
            done = run("explain", name, *write_case_files(tmp_path, given), "--no-remedies", "-o", "json")
            new = json.loads(done.out)["newNode"] if done.code == 1 else None
            if new is None or new["existingNode"]:
                continue  # kube-scheduler has a place for it, or there is no node at all
            said = {verdict["pool"]: verdict["answer"] for verdict in new["pools"] if not verdict["takes"]}
            for group, refusal in (refused.get("rejected") or {}).items():
                assert said[group].startswith(f"{refusal['plugin']}: ")
                found += 1
    assert found >= 5


def test_next_command_uses_the_same_groups(run: Run, write: Write, tmp_path: Path) -> None:
    """A group that may grow by one is a fix in explain, and in the command that explain suggests."""
    waiting = build_pod("web", "2")
    waiting["status"] = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False"}]}
    file, groups = write(build_node("n1", "1"), waiting), tmp_path / "groups.json"
    room = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    template = {"metadata": {"name": "t"}, "status": {"allocatable": room, "capacity": room}}
    groups.write_text(json.dumps({"nodeGroups": [{"id": "b", "max": 0, "template": template}]}))
    asked = ("-f", file, "--node-groups", str(groups), "--assume-complete")
    told = run("explain", "default/web", *asked).out
    command = next(line for line in told.splitlines() if line.strip().startswith("kschedctl remedies"))
    fix = "Raise the maximum of node group b from 0 to 1"
    assert fix in told
    assert fix in run(*command.split()[1:]).out


@pytest.mark.parametrize(("value", "since"), [("1780304400", "2026-06-01T09:00:00Z"), ("soon", ""), ("9" * 11, "")])
def test_time_since_which_a_node_is_marked(run: Run, write: Write, tmp_path: Path, value: str, since: str) -> None:
    """The time comes from the autoscaler's taint. Without the taint, only the wait is shown."""
    marked, groups = build_node("n1", "1"), tmp_path / "groups.json"
    taint = {"key": "DeletionCandidateOfClusterAutoscaler", "value": value, "effect": "PreferNoSchedule"}
    marked["spec"] = {"taints": [taint]}
    groups.write_text(json.dumps({"nodeGroups": [{"id": "b", "max": 3, "target": 1, "nodes": ["n1"]}]}))
    asked = ("scale", "down", "-f", write(marked), "--node-groups", str(groups), "--assume-complete")
    assert json.loads(run(*asked, "-o", "json").out)["markedSince"] == ({"n1": since} if since else {})
    told = run(*asked).out
    assert "once they have been unneeded for 10m" in told
    assert ("marked as unneeded since" in told) == bool(since)


def test_pods_that_stay_pending_are_listed_separately_in_all_forms() -> None:
    """One of three pods gets the new node, one would get a second node, and no group helps the third."""
    report = ScaleUp(
        unschedulable=("d/a", "d/b", "d/c"),
        increases=(GroupIncrease("g", 1, 2),),
        triggered=("d/a", "d/b"),
        still_pending={"d/b": "0/2 nodes are available: 2 Insufficient cpu."},
        remaining={"d/c": RemainingPod()},
        enough=2,
    )
    assert (
        report.build_headline_parts()[1]
        == "for 1 of 3 pods marked as unschedulable (d/a). Of the others, 1 triggers no scale-up and 1 would still wait"
    )
    summary = report.summary()
    assert summary.warnings == ("d/b stays pending although nodes are added for it; 2 new nodes would be enough",)
    assert [entry.such_as for entry in summary.pods] == ["d/b", "d/c"]
    page = RENDERERS["table"](report, Style())
    assert "Still pending although nodes are added for them" in page
    assert "2 new nodes would be enough for it, too." in page


def test_pods_that_wait_for_a_later_loop_are_named_in_all_forms() -> None:
    """The loop grows cpu for d/a. gpu could grow for d/b, and cpu for d/c, but the loop adds no node for it."""
    report = ScaleUp(
        unschedulable=("d/a", "d/b", "d/c"),
        options=(ExpansionOption("cpu", 1, ("d/a",)), ExpansionOption("gpu", 1, ("d/a", "d/b"))),
        increases=(GroupIncrease("cpu", 1, 2),),
        triggered=("d/a",),
        awaiting=("d/b",),
    )
    later = "2 pods wait for a later loop: d/b and d/c (group gpu)"
    assert report.build_headline_parts()[1] == f"for 1 of 3 pods marked as unschedulable (d/a). {later}"
    assert later in report.summary().headline
    page = RENDERERS["table"](report, Style())
    assert "Pods left to a later loop, in which another group may grow\n  - d/b\n  - d/c" in page


def test_each_unschedulable_pod_of_real_loops_is_counted_once() -> None:
    grown = list_cases("scaleup", "increases")
    assert grown
    for case in grown:
        given = case["input"]
        cluster = kschedctl.Cluster.from_objects(given["objects"])
        report = kschedctl.scale_up(cluster, given["nodeGroups"], given.get("options"), now=given["now"])
        pods = [*report.helped, *report.still_pending, *report.remaining, *report.later_pods, *report.filtered_out]
        assert sorted(pods) == sorted(report.unschedulable)
        assert set(report.awaiting) <= set(report.later_pods)


@pytest.mark.parametrize(("priority", "is_counted"), [(0, True), (-20, False)])
def test_utilization_counts_pending_pods_that_fit(
    run: Run, write: Write, tmp_path: Path, priority: int, is_counted: bool
) -> None:
    """Pod web takes two of the four CPUs of n1. The autoscaler ignores pods of a priority below -10."""
    waiting = build_pod("web", "2", priority=priority)
    waiting["status"] = {
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
    }
    node = build_node("n1", "4")
    node["status"]["conditions"] = [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-06-01T10:00:00Z"}]
    groups = tmp_path / "groups.json"
    groups.write_text(json.dumps({"nodeGroups": [{"id": "g", "min": 0, "max": 3, "target": 1, "nodes": ["n1"]}]}))
    out = " ".join(run("scale", "down", "-f", write(node, waiting), "--node-groups", str(groups)).out.split())
    assert ("50% cpu" in out) == is_counted
    note = "Utilization also counts 1 pending pod that fits now, as the autoscaler does (default/web)."
    assert (note in out) == is_counted
