"""Check `versions` on the command line, and `whatif --compare-version`."""

from __future__ import annotations

import json
import re

import jsonschema
import pytest
from command_line import Run, Write, build_node, build_pod

from kschedctl.commands.schema import DOCUMENTS, build_schema


def test_all_versions_and_two_versions(run: Run) -> None:
    code, out, err = run("versions")
    assert (code, err) == (0, "")
    assert out.startswith("Changes in kube-scheduler from 1.30 to 1.37 that kschedctl replays")
    code, out, err = run("versions", "1.34.1", "1.34.2")
    assert (code, err) == (0, "")
    assert re.match(r"\d+ differences? from 1.34.1 to 1.34.2\nThis list covers only the differences ", out)
    assert "Feature gates" not in out
    assert run("versions", "1.35.1", "1.35").out.startswith("No differences between kube-scheduler 1.35.1 and 1.35")


@pytest.mark.parametrize(("arguments", "last"), [([], "1.37"), (["1.33", "1.36"], "1.36")])
def test_document(run: Run, arguments: list[str], last: str) -> None:
    document = json.loads(run("versions", *arguments, "-o", "json").out)
    jsonschema.validate(document, build_schema(DOCUMENTS["version-changes"]))
    assert document["kind"] == "VersionChanges"
    assert (document["versions"][-1], document["compared"]) == (last, bool(arguments))


@pytest.mark.parametrize("columns", [80, 160])
def test_output_fits_the_width_and_keeps_names_whole(run: Run, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = run("versions", "1.33", "1.36").out.splitlines()
    assert max(map(len, lines)) <= columns
    assert any(line.split()[:2] == ["1.34.2", "TaintToleration"] for line in lines)
    assert re.search(
        r"DRAConsumableCapacity (1.33: )?absent (from )?1.34: alpha, off by default (1.36: )?beta, on by default",
        " ".join(" ".join(lines).split()),
    )


def test_default_that_changed_before_the_latest_stage(run: Run) -> None:
    """In-place resize was on by default in 1.33 and GA in 1.35, so a step-by-step upgrade meets the change in 1.33."""
    document = json.loads(run("versions", "1.32", "1.36", "-o", "json").out)
    gates = {change["where"]: change for change in document["changes"] if change["sort"] == "gate"}
    resize = gates["InPlacePodVerticalScaling"]
    assert (resize["since"], resize["switched"], resize["isOn"]) == (["1.35"], "1.33", True)
    assert gates["DynamicResourceAllocation"]["switched"] == "1.34"
    assert (gates["SidecarContainers"]["switched"], gates["SidecarContainers"]["isOn"]) == ("", None)
    assert gates["CSIMigrationPortworx"]["isRemoved"]

    # Each step by itself agrees
    for before, after in (("1.32", "1.33"), ("1.33", "1.34"), ("1.34", "1.35"), ("1.35", "1.36")):
        step = json.loads(run("versions", before, after, "-o", "json").out)["changes"]
        switched_in_step = {change["where"] for change in step if change["sort"] == "gate" and change["isOn"]}
        assert {name for name, change in gates.items() if change["switched"] == after} <= switched_in_step


def test_brief_form_says_what_an_upgrade_brings(run: Run) -> None:
    out = " ".join(run("versions", "1.36", "1.37", "--brief").out.split())
    assert re.match(r"4 features newly on by default, \d+ other differences from 1.36 to 1.37", out)
    assert "newly on by default since 1.37: DRADeviceTaintRules, " in out
    assert "gates removed (a configuration that sets them is rejected): GangScheduling, " in out
    assert "more: kschedctl whatif --compare-version 1.36 1.37" in out


def test_invalid_options_are_errors(run: Run) -> None:
    code, _, err = run("versions", "1.33")
    assert (code, "give a second version to compare 1.33 with" in err) == (2, True)
    code, _, err = run("versions", "1.33", "1.99")
    assert (code, "'1.99' is not supported" in err) == (2, True)


def test_upgrade_is_replayed(run: Run, write: Write) -> None:
    taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    files = ["-f", write(build_node("n1", taints=[taint]), build_pod("web"))]
    code, out, err = run("whatif", "--compare-version", "1.33", "1.36", *files)
    assert (code, err) == (0, "")
    assert "Before: under 1.33. After: under 1.36" in out
    assert "1 node(s) had untolerated taint {gpu: yes}" in " ".join(out.split())
    assert "0 of 0 pods would get a different best node if recreated" in out
    document = json.loads(run("whatif", "--compare-version", "1.33", "1.36", *files, "-o", "json").out)
    jsonschema.validate(document, build_schema(DOCUMENTS["whatif"]))
    assert [change["pods"] for change in document["messages"]] == [["default/web"]]
    brief = " ".join(run("whatif", "--compare-version", "1.33", "1.36", *files, "--brief").out.split())
    assert brief.startswith(
        "No pending pod ends up elsewhere; 1 pending pod gets a different message (alerts on the old message no "
        "longer match)"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--compare-version", "1.33", "1.33"], "the two versions are the same"),
        (["--compare-version", "1.33", "1.99"], "'1.99' is not supported"),
        (["--compare-version", "1.33", "1.36", "--compare-config", "a", "b"], "cannot be combined"),
    ],
)
def test_versions_that_cannot_be_compared(run: Run, arguments: list[str], said: str) -> None:
    code, _, err = run("whatif", "--demo", *arguments)
    assert (code, said in err) == (2, True)
