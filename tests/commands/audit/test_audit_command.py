"""Check the first line, exit codes and output forms of ``kschedctl audit``."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest
from command_line import Run, Write, build_node, build_pod

from kschedctl.api.arrays import Row
from kschedctl.commands import audit
from kschedctl.commands.audit.audited_cluster import AuditedCluster
from kschedctl.commands.audit.packing.drains_in_turn import DrainsInTurn, NodeTrial
from kschedctl.commands.audit.report import AnySection
from kschedctl.commands.schema import DOCUMENTS, build_schema

PENDING = ("audit", "--section", "pending", "-f")
UNSERVED = build_pod("lost", schedulerName="volcano")
TOO_BIG = build_pod("big", "64")


def get_first_line(text: str) -> str:
    return text.splitlines()[0]


def test_cluster_without_pending_pods_is_sound(run: Run, write: Write) -> None:
    code, out, _ = run(*PENDING, write(build_node("n1"), build_pod("p", nodeName="n1")))
    assert (code, get_first_line(out)) == (0, "OK: nothing is pending")


def test_unsound_sections_come_first(run: Run, write: Write) -> None:
    code, out, _ = run(*PENDING, write(build_node("n1"), TOO_BIG, UNSERVED))
    assert (code, get_first_line(out)) == (1, "2 warnings in section pending")
    assert out.index("Pod default/lost") < out.index("Pod default/big")
    assert "Correct spec.schedulerName" in out


def test_an_interruption_shows_the_sections_before_it(run: Run, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user interrupts while the placed pods are judged, the third of three sections."""

    def interrupt(audited: AuditedCluster) -> AnySection:
        raise KeyboardInterrupt

    monkeypatch.setattr(audit, "SECTIONS", {**audit.SECTIONS, "placed": interrupt})
    file = write(build_node("n1"), build_pod("p", nodeName="n1"))
    sections = [option for name in ("pending", "queue", "placed") for option in ("--section", name)]
    code, out, err = run("audit", *sections, "-f", file)
    assert (code, err) == (130, "")
    assert out.splitlines()[:2] == ["Interrupted: not audited: placed", "OK so far: 2 sections, nothing found"]
    document = json.loads(run("audit", *sections, "-f", file, "-o", "json").out)
    assert (document["interrupted"], document["state"], document["notReached"]) == (True, "unknown", ["placed"])
    assert [section["name"] for section in document["sections"]] == ["pending", "queue"]

    code, out, err = run("audit", "--section", "placed", "-f", file)
    assert (code, err, get_first_line(out)) == (130, "", "Interrupted: not audited: placed")


def test_an_interrupted_section_ends_the_audit(run: Run, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user interrupts at the second of two nodes that are emptied on trial."""
    drain_node, drained = DrainsInTurn.drain_node, list[int]()

    def drain_until_second(drains: DrainsInTurn, row: Row) -> NodeTrial:
        drained.append(row)
        if len(drained) % 2 == 0:
            raise KeyboardInterrupt
        return drain_node(drains, row)

    monkeypatch.setattr(DrainsInTurn, "drain_node", drain_until_second)
    owner = [{"kind": "ReplicaSet", "name": "web", "controller": True, "apiVersion": "apps/v1", "uid": "u"}]
    pods = [build_pod(f"p{number}", nodeName=f"n{number}") for number in (1, 2)]
    for document in pods:
        document["metadata"]["ownerReferences"] = owner
    file = write(build_node("n1"), build_node("n2"), build_node("n3"), *pods)
    code, out, err = run("audit", "--section", "packing", "-f", file)
    assert (code, err, get_first_line(out)) == (130, "", "Interrupted: the last section is incomplete")
    code, out, err = run("packing", "-f", file)
    assert (code, err, get_first_line(out)) == (130, "", "Interrupted: a partial result")
    assert "the only other node checked can be removed (1 not tried)" in out


@pytest.mark.parametrize(("level", "code"), [("error", 0), ("warning", 1), ("note", 1), ("never", 0)])
def test_fail_on(run: Run, write: Write, level: str, code: int) -> None:
    assert run(*PENDING, write(build_node("n1"), TOO_BIG), "--fail-on", level).code == code


def test_nothing_is_called_sound_without_grounds(run: Run, write: Write) -> None:
    file = write(build_node("n1"), build_pod("p", nodeName="n1"), whole=False)
    nodes_alone = write(build_node("n1"), name="nodes.json", whole=False)
    assert run(*PENDING, file).code == 0
    code, out, _ = run(*PENDING, nodes_alone)
    assert (code, get_first_line(out)) == (5, "Not enough data to judge section pending")
    assert "the files may lack Pods, so some findings may be missing" in out


def test_unknowns_are_findings_of_their_own(run: Run, write: Write) -> None:
    """They are not failures, even if notes count as failures."""
    nodes_alone = write(build_node("n1"), whole=False)
    assert run(*PENDING, nodes_alone, "--fail-on", "note").code == 5
    (result,) = json.loads(run(*PENDING, nodes_alone, "-o", "sarif").out)["runs"][0]["results"]
    assert (result["ruleId"], result["level"]) == ("audit-pending-not-known", "note")
    assert "the files may lack Pods" in result["message"]["text"]
    assert "the files may lack Pods" in run(*PENDING, nodes_alone, "-o", "junit").out
    assert run(*PENDING, nodes_alone, "-o", "github").out.startswith("::notice title=audit-pending-not-known::")


def test_waiting_time_of_a_fitting_pod_needs_the_current_time(run: Run, write: Write) -> None:
    fits = build_pod("fits")
    fits["metadata"]["creationTimestamp"] = "2026-05-06T09:00:00Z"
    file = write(build_node("n1"), fits)
    assert run(*PENDING, file).code == 5
    young, old = (run(*PENDING, file, "--now", f"2026-05-06T{time}Z") for time in ("09:00:05", "09:12:00"))
    assert (young.code, get_first_line(young.out)) == (0, "OK: 1 pod pending: 1 not yet tried by the scheduler")
    assert (old.code, get_first_line(old.out)) == (1, "1 error in section pending")
    assert "  12m  " in old.out


@pytest.mark.parametrize("options", [["--section", "no-such"], ["--now", "yesterday"], ["--fail-on", "always"]])
def test_wrong_usage(run: Run, options: list[str]) -> None:
    code, out, err = run("audit", "--demo", *options)
    assert (code, out) == (2, "")
    assert options[0] in err
    assert len(err.splitlines()) == 1


def test_json_follows_its_schema(run: Run) -> None:
    document = json.loads(run("audit", "--demo", "-o", "json").out)
    jsonschema.validate(document, build_schema(DOCUMENTS["audit"]))
    assert (document["apiVersion"], document["kind"]) == ("kschedctl.dev/v1", "Audit")
    assert document["at"] == "2026-05-06T09:12:00Z"


def test_forms_of_findings_name_the_rules_of_the_audit(run: Run, write: Write) -> None:
    file = write(build_node("n1"), TOO_BIG, UNSERVED)
    (found,) = json.loads(run(*PENDING, file, "-o", "sarif").out)["runs"]
    assert [result["ruleId"] for result in found["results"]] == [
        "audit-pending-unserved",
        "audit-pending-unschedulable",
    ]
    assert {rule["id"] for rule in found["tool"]["driver"]["rules"]} == {each["ruleId"] for each in found["results"]}
    told = run(*PENDING, file, "-o", "github").out.splitlines()
    assert [line.partition(" ")[0] for line in told] == ["::warning", "::warning"]
    suites = ElementTree.fromstring(run(*PENDING, file, "-o", "junit").out)
    assert (suites.get("name"), suites.get("failures")) == ("kschedctl audit", "2")


def test_suggested_commands_use_the_same_cluster(run: Run, write: Write) -> None:
    file = write(build_node("n1"), TOO_BIG)
    command = f"remedies default/big -f {file}"
    assert f"  kschedctl {command}" in run(*PENDING, file).out.splitlines()
    assert run(*command.split()).code in (0, 1)
    (section,) = json.loads(run(*PENDING, file, "-o", "json").out)["sections"]
    (finding,) = section["findings"]
    assert file not in finding["fix"]


def test_several_unsound_sections_fit_the_first_line(run: Run) -> None:
    out = run("audit", "--demo").out
    assert get_first_line(out) == "17 warnings in sections pending, priorities, packing and drains"
    assert "  9 warnings  pending     10 pods pending:" in out


def test_equal_advice_is_printed_once(run: Run, write: Write) -> None:
    file = write(build_node("n1", "1"), build_node("n2", "1", taints=[{"key": "k", "effect": "NoSchedule"}]), TOO_BIG)
    other = build_pod("picky", "1")
    other["spec"]["nodeSelector"] = {"no": "such"}
    more = write(other, name="other.yaml")
    out = run(*PENDING, file, "-f", more).out
    assert (out.count("  warning  "), out.count("→ The remedies command finds the smallest change")) == (2, 1)


def test_markdown_and_yaml(run: Run) -> None:
    assert "## Pending, by cause" in run("audit", "--demo", "-o", "markdown").out
    assert "kind: Audit" in run("audit", "--demo", "-o", "yaml").out


def test_changes_since_an_earlier_snapshot(run: Run, write: Write, tmp_path: Path) -> None:
    """The node has grown, which wakes the pod. It fits now, but still waits."""
    before, waits = str(tmp_path / "a.ksnap"), build_pod("waits", "3", uid="1")
    assert run("snapshot", "save", "-f", write(build_node("n1", "2"), waits), "-o", before, "-q").code == 0
    code, out, _ = run("audit", "--section", "queue", "-f", write(build_node("n1", "4"), waits), "--since", before)
    assert (code, get_first_line(out)) == (1, "1 warning in section queue")
    assert "Node n1 changed (NodeResourcesFit) woke it, but it is still pending" in " ".join(out.split())


@pytest.mark.parametrize(
    "objects", [(), (build_node("n1"),), (build_pod("waits"),), (build_pod("placed", nodeName="n1"),)]
)
def test_partial_clusters_are_audited_without_errors(
    run: Run, write: Write, objects: tuple[dict[str, object], ...]
) -> None:
    """Every section has an answer without nodes or pods.

    Sections are sound only if a pod is read and none is pending.
    """
    file = write(*objects, whole=False)
    sections = json.loads(run("audit", "-f", file, "-o", "json").out)["sections"]
    assert len(sections) == 11
    placed = any("nodeName" in each["spec"] for each in objects)  # type: ignore[operator]
    assert [each["name"] for each in sections if each["state"] == "sound"] == ["pending", "queue"] * placed
    assert run("audit", "-f", file, "--assume-complete").code in (0, 1)


def test_notes_are_shown(run: Run, write: Write) -> None:
    """The missing lease is a note, not a failure."""
    code, out, _ = run("audit", "--section", "pending", "--section", "leader", "-f", write(build_node("n1")))
    assert (code, get_first_line(out)) == (0, "OK: 1 section, 1 note; section leader was not judged")


def test_summary_begins_with_problems_and_omits_sound_sections(run: Run) -> None:
    summary = json.loads(run("audit", "--demo", "-o", "json", "--summary").out)
    sections = [cause["reason"].partition(":")[0] for cause in summary["causes"]]
    assert sections == ["pending", "priorities", "drains", "packing"]
    assert summary["warnings"]
    assert not {*summary["warnings"]} & {*summary["advice"]}


def test_summary_has_a_finding_of_each_unsound_section(run: Run) -> None:
    """The demo cluster has ten pending pods, and more findings about them than a summary has entries."""
    report = json.loads(run("audit", "--demo", "-o", "json").out)
    summary = json.loads(run("audit", "--demo", "-o", "json", "--summary").out)
    assert summary["figures"]["pendingPods"] == 10
    unsound = [section for section in report["sections"] if section["state"] == "findings"]
    for section in unsound:
        texts = [f"{finding['object']}: {finding['message']}" for finding in section["findings"]]
        assert any(text[:100] == entry[:100] for text in texts for entry in summary["warnings"][: len(unsound)])


@pytest.mark.parametrize("command", ["priorities", "packing", "topology"])
def test_brief_form_of_a_section_lists_its_findings(run: Run, command: str) -> None:
    findings = json.loads(run(command, "--demo", "-o", "json").out)["findings"]
    lines = " ".join(run(command, "--demo", "--brief").out.split())
    first = findings[0]
    assert f"{first['object']}: {first['message'][:40]}" in lines
    summary = json.loads(run(command, "--demo", "-o", "json", "--summary").out)
    assert len(summary["warnings"]) == sum(finding["severity"] != "note" for finding in findings)


def test_section_without_anything_to_judge_is_not_called_sound(run: Run, write: Write) -> None:
    """Nothing runs, so nothing can be misplaced or alone in a domain; there is neither a leader lease nor a budget."""
    out = run("audit", "-f", write(build_node("n1"))).out
    not_judged = {line.split()[2] for line in out.splitlines() if line.startswith("  not judged")}
    assert not_judged == {"placed", "races", "leader", "priorities", "topology", "drains"}


def test_html_shows_sections_with_warnings_unfolded(run: Run) -> None:
    page = run("audit", "--demo", "-o", "html").out
    summaries = re.findall(r'<details class="part"( open)?><summary><h2[^>]*>([^<]*)<', page)
    assert [title for is_open, title in summaries if is_open] == [
        "Pending, by cause",
        "Priority tiers",
        "Drains blocked by PodDisruptionBudgets",
        "Fragmentation and packing",
    ]
    assert ("", "Scheduler leader election") in summaries
