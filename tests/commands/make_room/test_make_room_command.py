"""Check ``make-room`` for pods of the cluster and of manifests, its exit codes and its errors."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from command_line import Json, Run, Write, build_node, build_pod
from sources.live.api_server import answer_lists, serve_api, write_kubeconfig

from kschedctl.commands.make_room.report import MakeRoom, SearchedPlans
from kschedctl.commands.make_room.search import PlanSearch, SearchLimitError

OWNER = [{"controller": True, "kind": "ReplicaSet", "name": "web", "apiVersion": "apps/v1", "uid": "u"}]


def build_filling_pod(name: str, on: str, cpu: str = "2") -> Json:
    """Build a pod that fills a node."""
    made = build_pod(name, cpu)
    made["metadata"]["ownerReferences"] = OWNER
    made["spec"]["nodeName"] = on
    return made


def build_cluster() -> list[Json]:
    return [build_node("n1", "4"), build_node("n2", "4"), build_filling_pod("a", "n1"), build_filling_pod("b", "n2")]


def test_pod_of_the_cluster(run: Run, write: Write) -> None:
    file = write(*build_cluster(), build_pod("new", "3"))
    code, out, _ = run("make-room", "new", "-f", file)
    assert code == 0
    assert out.startswith("Moving 1 pod makes room for default/new")
    assert "kubectl cordon n1" in out
    plan = json.loads(run("make-room", "new", "-f", file, "-o", "json").out)
    assert [(move["pod"], move["source"], move["target"]) for move in plan["moves"]] == [("default/a", "n1", "n2")]
    assert plan["kind"] == "MakeRoom"


def test_unread_kinds_make_the_answer_conditional(run: Run, write: Write) -> None:
    """Unread budgets might deny the eviction."""
    code, out, err = run("make-room", "new", "-f", write(*build_cluster(), build_pod("new", "3"), whole=False))
    assert code == 5, err
    assert "not certain: the files may lack PodDisruptionBudgets" in out


def test_all_replicas_of_a_manifest(run: Run, write: Write) -> None:
    """Two pods need 3 CPUs each. One gets the empty node, and the other one the node that a pod leaves."""
    template = {"metadata": {"labels": {"app": "x"}}, "spec": build_pod("x", "3")["spec"]}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "x"}}, "template": template}
    made = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}, "spec": spec}
    file = write(*build_cluster(), build_node("n3", "4"), made)
    plan = json.loads(run("make-room", "-f", file, "-o", "json").out)
    assert (len(plan["pods"]), len(plan["placed"]), len(plan["moves"]), plan["fits"]) == (2, 2, 1, True)


def test_no_room(run: Run, write: Write) -> None:
    code, out, _ = run("make-room", "new", "-f", write(*build_cluster(), build_pod("new", "9")))
    assert code == 1
    assert out.startswith("No room can be made: default/new")


def test_search_that_ran_out_of_time_is_undecided(run: Run, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kschedctl.commands.make_room.search.PlanSearch._raise_if_limit_reached", _run_out_of_time)
    code, out, _ = run("make-room", "new", "-f", write(*build_cluster(), build_pod("new", "3")), "--brief")
    assert code == 5
    assert out.startswith("No room found yet for default/new – the search stopped at its limit of replays, and no plan")


def _run_out_of_time(search: PlanSearch) -> None:
    raise SearchLimitError


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("make-room", "--demo"), "no pod is named to make room for"),
        (("make-room", "-A", "--demo"), "remedies -A finds changes for all pending pods"),
        (("make-room", "nobody", "--demo"), 'pod "default/nobody" not found'),
        (("make-room", "default/a"), "default/a already has a node: n1"),
        (("make-room", "default/new", "--pool", "x"), 'pool "x" not found'),
        (("make-room", "default/new", "--keep", "a b"), "--keep a b: unable to parse requirement"),
        (("make-room", "default/new", "--max-moves", "4"), "4 is not in the range"),
    ],
)
def test_invalid_input_is_an_error(run: Run, write: Write, words: tuple[str, ...], said: str) -> None:
    file = write(*build_cluster(), build_pod("new", "3"))
    files = () if "--demo" in words else ("-f", file)
    code, out, err = run(*words, *files)
    assert (code, out) == (2, "")
    assert said in err
    assert len(err.strip().splitlines()) == 1


def test_remedies_show_a_plan_of_several_nodes(run: Run, write: Write) -> None:
    """a (3 CPUs) has to leave n1, but fits nowhere before y (2) has moved from n2 to n3."""
    ssd = {"kubernetes.io/os": "linux"}
    nodes = [build_node("n1", "4"), build_node("n2", "4"), build_node("n3", "2")]
    for each in nodes[1:]:
        each["metadata"]["labels"] |= ssd
    bound = build_filling_pod("z", "n2", "1")
    del bound["metadata"]["ownerReferences"]
    y = build_filling_pod("y", "n2")
    y["spec"]["nodeSelector"] = ssd
    file = write(*nodes, build_filling_pod("a", "n1", "3"), y, bound, build_pod("new", "4"))
    report = json.loads(run("remedies", "new", "-f", file, "-o", "json").out)
    assert [move["pod"] for move in report["makeRoom"]["moves"]] == ["default/y", "default/a"]
    assert "Or move 2 pods" in run("remedies", "new", "-f", file).out
    assert json.loads(run("remedies", "new", "-f", file, "--by", "author", "-o", "json").out)["makeRoom"] is None


def test_short_form_shows_no_incomplete_commands(run: Run, write: Write) -> None:
    """Running only the last command would uncordon a node for nothing."""
    file = write(*build_cluster(), build_pod("new", "3"))
    out = run("make-room", "new", "-f", file, "--brief").out
    assert out.splitlines() == [
        "Moving 1 pod makes room for default/new",
        "fix: move default/a from n1 to n2, but evicts that pod",
        f"more: kschedctl make-room new -f {file}",
    ]


@pytest.mark.parametrize("words", [("make-room", "default/new"), ("rebalance", "--rounds", "1")])
def test_jobs_of_a_live_cluster_are_read(run: Run, tmp_path: Path, words: tuple[str, ...]) -> None:
    """The pod to move belongs to a Job that allows no failed pods, or one."""
    made = build_filling_pod("a", "n1")
    made["metadata"]["ownerReferences"] = [{**OWNER[0], "apiVersion": "batch/v1", "kind": "Job", "name": "j"}]
    tainted = build_node("n1", "4")
    tainted["spec"] = {"taints": [{"key": "out", "effect": "NoSchedule"}]}
    wanted = build_pod("new", "3", tolerations=[{"operator": "Exists"}])
    for limit, moves in ((0, 0), (1, 1)):
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "default", "uid": "j"}}
        job["spec"] = {"backoffLimit": limit}
        with serve_api(answer_lists([tainted, build_node("n2", "2"), made, job, wanted])) as api:
            config = write_kubeconfig(api.url, tmp_path / "kubeconfig")
            _, out, err = run(*words, "--kubeconfig", config, "-o", "json")
        document = json.loads(out)
        assert (len(document.get("moves", document.get("steps"))), document["unknown"]) == (moves, []), err


@pytest.mark.parametrize(("plans", "sentence"), [(0, "no plan of up to 3 moves was found"), (2, "no plan tried makes")])
def test_no_plan_is_called_tried_if_none_was(plans: int, sentence: str) -> None:
    searched = SearchedPlans(3, plans, nodes=1, movable=2, complete=False)
    assert sentence in " ".join(
        MakeRoom(("d/new",), fits=False, missing=("d/new",), searched=searched).build_headline_parts()
    )


def test_next_command_replays_the_proposed_nodes(run: Run, write: Write) -> None:
    """Both nodes have 2 free CPUs, and the pods need 7: with one more node, both fit."""
    file = write(*build_cluster(), build_pod("big", "4"), build_pod("more", "3"))
    for form in ((), ("--brief",)):
        out = run("make-room", "big", "more", "-f", file, *form).out
        (line,) = (line for line in out.splitlines() if "kschedctl " in line)
        arguments = shlex.split(line.partition("kschedctl ")[2])
        assert arguments[0] == "whatif"
        replayed = json.loads(run(*arguments, "-o", "json").out)
        assert replayed["pending"] == [2, 0]


def test_next_command_searches_other_fixes_if_no_nodes_are_proposed(run: Run, write: Write) -> None:
    """No node is as large as the pod. A pod that is not in the cluster has no such command."""
    file = write(*build_cluster(), build_pod("huge", "9"))
    next_section = (
        f"\nNext (find other changes that would let the pod fit)\n  kschedctl remedies default/huge -f {file}\n"
    )
    assert run("make-room", "huge", "-f", file).out.endswith(next_section)
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "new"}, "spec": build_pod("new", "9")["spec"]}
    out = run("make-room", "-f", file, "-f", write(manifest, name="new.json", whole=False)).out
    assert "default/new" in out
    assert "Next" not in out
