"""Check that `--brief` takes at most 12 lines and `--summary` at most 12 KB of JSON for every question."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest
from command_line import Run
from msgspec.structs import replace
from small import build_node, build_pod, build_replica

from kschedctl import Cluster, audit, demo, drain, failures
from kschedctl.commands.explain.report import Cause, Explanation, NodeGroup, Refusal
from kschedctl.commands.schema import build_schema
from kschedctl.commands.simulate.report import SimulationReport
from kschedctl.render.brief import to_brief
from kschedctl.render.page import Style
from kschedctl.reports.placements import Spread
from kschedctl.reports.remedy import Remedy
from kschedctl.reports.report import PlainReport
from kschedctl.reports.summary import MOST_BYTES, ShortFix, ShortPods, Summary

QUESTIONS = (
    "explain shop/cart-5f7b8c9d4-zr5mt",
    "explain shop/web-6d4cf56db6-h8s2k",
    "explain deploy/cart -n shop",
    "explain -A",
    "remedies shop/cart-5f7b8c9d4-zr5mt",
    "remedies -A",
    "simulate --pending",
    "capacity -f tests/lint/charts/web-app.yaml",
    "drain general-a1",
    "failures",
    "audit",
    "packing",
    "topology",
)


@pytest.mark.parametrize("question", QUESTIONS)
def test_brief_fits_on_a_phone(run: Run, monkeypatch: pytest.MonkeyPatch, question: str) -> None:
    monkeypatch.setenv("COLUMNS", "45")
    lines = run(*question.split(), "--demo", "--brief").out.splitlines()
    assert 0 < len(lines) <= 12
    assert all(len(line) <= 45 for line in lines if "kschedctl" not in line and "kubectl" not in line)


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_summary_is_a_document(run: Run, question: str) -> None:
    full, short = (run(*question.split(), "--demo", "-o", "json", *more) for more in ((), ("--summary",)))
    summary = json.loads(short.out)
    jsonschema.validate(summary, build_schema(Summary))
    assert (short.code, summary["summarizes"]) == (full.code, json.loads(full.out)["kind"])
    assert summary["headline"]


def test_brief_has_cause_fix_and_command(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    text = run("explain", "shop/checkout-7d9f6c5b8-x2x4q", "--demo", "--brief").out
    assert "checkout-7d9f6c5b8-x2x4q Unschedulable\n" in text
    # 12 nodes less one cordoned and four tainted
    assert "needs 1.5 CPUs, but none of the 7 candidate nodes has more than 1.2 free (general-b2)" in text
    assert "  kubectl uncordon general-c2\n" in text


def test_brief_does_not_put_a_gated_pod_on_a_node(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    verdict, cause, *_ = run("explain", "batch/nightly-export-5hx2p", "--demo", "--brief").out.splitlines()
    assert verdict == "batch/nightly-export-5hx2p Held back"
    assert "example.com/budget-approval" in cause


def test_remedies_command_is_printed_once_near_the_top(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    command = "  kschedctl remedies batch/embedder-t7x4w --demo"
    lines = run("explain", "batch/embedder-t7x4w", "--demo").out.splitlines()
    assert lines.index(command) < 15
    assert lines.count(command) == 1


def test_brief_keeps_room_for_the_fix(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two causes of three lines each, with as many for the closest nodes, would fill the twelve."""
    monkeypatch.setenv("COLUMNS", "45")
    text = run("explain", "shop/cart-5f7b8c9d4-zr5mt", "--demo", "--brief").out
    assert "fix: " in text
    assert "  kubectl uncordon general-c2\n" in text
    assert text.count("\n") <= 12


def test_brief_names_the_effect_of_preemption_in_the_first_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    priority = ("--as-if-priority-class", "shop-critical")
    text = run("explain", "shop/checkout-7d9f6c5b8-x2x4q", "--demo", "--brief", *priority).out
    assert text.splitlines()[0].endswith("Unschedulable: would preempt 1 pod on general-b2")


def test_brief_names_no_node_as_certain_if_chance_decides(run: Run, tmp_path: Path) -> None:
    documents = [
        *(build_node(name) for name in ("n1", "n2")),
        *(build_replica(f"low-{name}", name, cpu="4") for name in ("n1", "n2")),
        build_pod("urgent", cpu="3", priority=10),
    ]
    cluster = tmp_path / "cluster.json"
    cluster.write_text(json.dumps({"kind": "List", "items": documents}))
    text = run("explain", "d/urgent", "-f", str(cluster), "--assume-complete", "--brief").out
    assert text.splitlines()[0] == "d/urgent Unschedulable: would preempt 1 pod on one of 2 nodes"
    assert "for example, evicts d/low-n1 on n1" in text
    summary = json.loads(run("explain", "d/urgent", "-f", str(cluster), "--summary", "-o", "json").out)
    assert (summary["nominated"], summary["nominatedChoices"], summary["victims"]) == ("n1", 2, ["d/low-n1"])


def test_summary_of_thousands_of_nodes_is_short() -> None:
    refusals = tuple(Refusal(f"Plugin{i}", "a reason " * 90, "a fact " * 120) for i in range(9))
    groups = tuple(NodeGroup(1, ("pool",) * 40, (f"node-{i}" * 25,), refusals) for i in range(5_000))
    causes = tuple(Cause("NodeResourcesFit", "Insufficient cpu " * 50, 1, 5_000) for _ in range(50))
    fix = Remedy(
        "Fix it " * 99, "operator", "but " * 99, ("n" * 253,) * 5_000, ("kubectl patch " + "x" * 5_000,) * 9, ()
    )
    report = Explanation("d/p", "Unschedulable", "words " * 9_999, causes=causes, groups=groups, remedies=(fix,) * 30)
    summary = report.summary()
    assert len(json.dumps(summary.to_dict()).encode()) <= MOST_BYTES * 1.1  # json.dumps puts blanks between entries
    assert summary.causes
    assert summary.left_out["closest"] + len(summary.closest) == 5_000


def test_summary_is_for_data(run: Run) -> None:
    wrong = run("explain", "-A", "--demo", "--summary")
    assert (wrong.code, wrong.out) == (2, "")
    assert "--summary works only with -o json or yaml" in wrong.err


def test_compact_is_for_full_data(run: Run) -> None:
    question = ("explain", "shop/checkout-7d9f6c5b8-x2x4q", "--demo")
    assert json.loads(run(*question, "-o", "json", "--compact").out)["kind"] == "CompactExplanation"
    for wrong in (("--compact",), ("-o", "json", "--compact", "--summary")):
        refused = run(*question, *wrong)
        assert (refused.code, refused.out) == (2, "")
        assert "--compact works only with -o json or yaml" in refused.err


@pytest.mark.parametrize(("question", "field"), [("drain general-a1", "evicted"), ("rebalance", "steps")])
def test_evicted_pods_are_named_in_the_brief_form(run: Run, question: str, field: str) -> None:
    """The pods come from the full document."""
    victims = [entry["pod"] for entry in json.loads(run(*question.split(), "--demo", "-o", "json").out)[field]]
    assert victims
    brief = run(*question.split(), "--demo", "--brief").out
    assert all(victim in brief for victim in victims[:3])
    summary = json.loads(run(*question.split(), "--demo", "-o", "json", "--summary").out)
    assert all(victim in "".join(summary["warnings"]) for victim in victims[:3])


def test_waiting_pods_that_take_room_first_explain_another_free_amount(run: Run) -> None:
    """explain counts the room that make-room has already given to the other waiting pod."""
    document = json.loads(run("make-room", "shop/checkout-7d9f6c5b8-x2x4q", "--demo", "-o", "json").out)
    (first,) = document["placedFirst"]
    text = " ".join(run("make-room", "shop/checkout-7d9f6c5b8-x2x4q", "--demo").out.split())
    assert f"after 1 other waiting pod ({first['pod']}) gets its node" in text


class _Question(PlainReport, frozen=True):
    """A report with a fix and two reasons, one of which the headline names."""

    commands: tuple[str, ...] = ()
    fix: str = "Create volume v"
    kind: str = "Question"

    def build_headline_parts(self) -> tuple[str, ...]:
        return ("Workload ai/high waits for quota: 8 GPUs",)

    @property
    def headline_entries(self) -> int:
        return 1

    def extend_summary(self, summary: Summary) -> Summary:
        return replace(
            summary,
            pods=(
                ShortPods(3, "", "Workload ai/high", "waits for quota: 8 GPUs"),
                ShortPods(1, "ai/low", "", "waits for quota: 2 GPUs"),
            ),
            fixes=(ShortFix(self.fix, "platform", commands=self.commands),),
        )


def test_brief_prints_each_command_on_one_line_and_all_commands_or_their_number() -> None:
    commands = tuple(f"kubectl drain node-{number} --ignore-daemonsets --delete-emptydir-data" for number in range(5))
    lines = to_brief(_Question(commands=commands[:3]), Style(width=45)).splitlines()
    assert [line.strip() for line in lines if "kubectl" in line] == [
        f"{commands[0]} &&",
        f"{commands[1]} &&",
        commands[2],
    ]
    text = to_brief(_Question(commands=commands), Style(width=45))
    assert "kubectl" not in text
    assert "  5 commands not shown here\n" in text
    assert text.endswith("more: the same command without --brief\n")


def test_brief_always_says_where_hidden_commands_are(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The causes and the fix fill the twelve lines of a phone."""
    monkeypatch.setenv("COLUMNS", "45")
    state = Path(__file__).parents[1] / "field/27-toleration-key-slash/in.yaml"
    lines = run("explain", "data/etl-driver", "-f", str(state), "--brief").out.splitlines()
    assert len(lines) <= 12
    assert lines[-1] == f"more: kschedctl remedies data/etl-driver -f {state}"


def test_brief_does_not_repeat_the_headline() -> None:
    text = to_brief(_Question(), Style(width=80))
    assert text.count("8 GPUs") == 1
    assert "ai/low and 0" not in text
    assert "ai/low: waits for quota: 2 GPUs\n" in text


def test_brief_cuts_a_long_fix_rather_than_leaving_it_out() -> None:
    lines = to_brief(_Question(fix="Create volume v " * 40), Style(width=45)).splitlines()
    assert "fix: Create volume v" in "\n".join(lines)
    assert any(line.endswith("…") for line in lines)
    assert len(lines) <= 12


def test_brief_says_which_workload_a_pod_stands_for(run: Run) -> None:
    """The StatefulSet has no pending pod, so the answer is about a pod that does not exist."""
    text = run("explain", "sts/prometheus", "-n", "platform", "--demo", "--brief").out
    assert "one more pod of StatefulSet platform/prometheus, none of which is pending" in text


def test_brief_says_what_to_do_about_a_pod_without_fixes(run: Run) -> None:
    text = run("explain", "batch/nightly-export-5hx2p", "--demo", "--brief").out
    assert "next: Find the controller that should remove example.com/budget-approval" in text
    assert "Held back: waiting" in run("remedies", "batch/nightly-export-5hx2p", "--demo", "--brief").out
    # remedies has nothing to add for a pod that fits
    assert "remedies" not in run("explain", "shop/web-6d4cf56db6-h8s2k", "--demo", "--brief").out


def test_a_fix_that_is_cut_keeps_its_costs(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """At 38 columns, the first fix of this situation has more lines than are left."""
    monkeypatch.setenv("COLUMNS", "38")
    file = "tests/field/06-ds-equal-priority/in.yaml"
    printed = " ".join(run("explain", "ops/agent-x2", "-f", file, "--brief").out.split())
    assert "…" in printed
    assert "fix, but the pod can then preempt any pod of lower priority; evicts one of" in printed
    assert "restarts 1 running pod of DaemonSet ops/agent" in printed


@pytest.mark.parametrize(("output", "hint"), [("json", " (use --summary)"), ("csv", ""), ("html", "")])
def test_brief_does_not_replace_another_format(run: Run, output: str, hint: str) -> None:
    result = run("explain", "-A", "--demo", "--brief", "-o", output)
    assert (result.code, result.out) == (2, "")
    assert f"--brief does not work with -o {output}{hint}" in result.err


def test_the_brief_form_as_markdown(run: Run) -> None:
    printed = run("explain", "-A", "--demo", "--brief", "-o", "markdown").out
    first, entries, command = printed.strip().split("\n\n")
    assert first == "**10 pods pending across all namespaces, 10 causes**"
    assert all(line.startswith("- ") for line in entries.splitlines())
    assert entries.endswith("- and 6 more")
    assert command == "`kschedctl explain platform/ingress-nginx-7b4f6c9d85-wt7jd --demo`"


def test_the_brief_form_of_a_workload_of_kueue_says_who_holds_the_quota(run: Run) -> None:
    file = "tests/field/19-kueue-podsets-sum/in.yaml"
    printed = " ".join(run("explain", "workload/high", "-n", "ai", "-f", file, "--brief").out.split())
    assert "Workload ai/low (priority 0) holds 8 nvidia.com/gpu of flavor multi" in printed
    assert "To admit this Workload, Kueue would preempt ai/low" in printed


class _Warnings(PlainReport, frozen=True):
    """A report with numbered warnings, a fix and as many entries."""

    number: int = 0
    kind: str = "Warnings"

    def build_headline_parts(self) -> tuple[str, ...]:
        return ("Done",)

    def extend_summary(self, summary: Summary) -> Summary:
        return replace(
            summary,
            warnings=tuple(f"warning {number} {'x ' * 50}" for number in range(self.number)),
            pods=tuple(ShortPods(1, f"d/p{number}", "", "Unschedulable") for number in range(self.number)),
            fixes=(ShortFix("Add a node", "platform", commands=("kubectl get nodes",)),),
        )


@pytest.mark.parametrize("number", [0, 1, 3, 4, 5, 8, 12, 30])
@pytest.mark.parametrize("width", [45, 80, 160])
def test_brief_leaves_out_no_warning_without_saying_so(number: int, width: int) -> None:
    lines = to_brief(_Warnings(number), Style(width=width)).splitlines()
    shown = sum(line.startswith("warning ") for line in lines)
    left_out = [line for line in lines if re.fullmatch(r"and \d+ more warnings?", line)]
    assert len(lines) <= 12
    assert shown >= min(number, 3)
    assert left_out == ([f"and {number - shown} more warning{'s' * (number - shown > 1)}"] if shown < number else [])
    assert "  kubectl get nodes" in lines


def test_brief_says_what_limits_the_answer() -> None:
    """Each of these was only in the long form."""
    cluster = Cluster.from_paths(list(demo.list_files()))
    audited = replace(audit(cluster, ["leader"]), interrupted=True, not_reached=("packing",))
    assert "interrupted: not audited: packing" in to_brief(audited, Style(width=160))

    lost = replace(failures(cluster, "zone"), outside=("n9",))
    assert "1 node belongs to no zone: n9" in " ".join(lost.summary().warnings)

    drained = replace(drain(cluster, ["spot-c1"]), runs=3, over_runs={"unplaced": Spread(0, 1), "moved": Spread(1, 1)})
    assert "3 runs differ, and the rest is about the first: 0 to 1 pods fit nowhere else" in to_brief(
        drained, Style(width=160)
    )

    placed = replace(SimulationReport(0, False, placed=1, unplaced=0), waiting={"d/p": "waits for its gang"})
    assert "1 of the pods with a node waits at Permit: waits for its gang" in to_brief(placed, Style(width=160))


@pytest.mark.parametrize(
    "question", ["failures --zones", "failures --nodes", "simulate --pending", "consolidate", "audit"]
)
def test_brief_shows_the_whole_headline_on_a_narrow_screen(
    run: Run, monkeypatch: pytest.MonkeyPatch, question: str
) -> None:
    """Parts of lists make room for it, since their number is shown."""
    headline = json.loads(run(*question.split(), "--demo", "-o", "json", "--summary").out)["headline"]
    monkeypatch.setenv("COLUMNS", "45")
    lines = run(*question.split(), "--demo", "--brief").out.splitlines()
    assert headline in " ".join(line.strip() for line in lines)
    assert len(lines) <= 12


def test_brief_lists_as_many_entries_as_before_once_the_first_is_whole() -> None:
    """The first of three entries needs five lines; later ones are cut or counted, and no line stays free."""
    report = _Entries(("first " * 30, "second " * 30, "third " * 30))
    lines = to_brief(report, Style(width=45)).splitlines()
    assert " ".join(line.strip() for line in lines).count("first") == 30
    assert len(lines) == 12
    assert any(line.endswith(" …") for line in lines if "second" in line or "third" in line)


class _Entries(PlainReport, frozen=True):
    """A report with nothing but a list of texts."""

    texts: tuple[str, ...] = ()
    kind: str = "Entries"

    def build_headline_parts(self) -> tuple[str, ...]:
        return ("Done",)

    def extend_summary(self, summary: Summary) -> Summary:
        return replace(summary, pods=tuple(ShortPods(1, "d/p", "", text) for text in self.texts))
