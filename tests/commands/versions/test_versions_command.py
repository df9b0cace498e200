"""Check `versions` on the command line, and `whatif --compare-version`."""

from __future__ import annotations

import json
import re

import jsonschema
import pytest
from command_line import Run, Write, node, pod

from kschedctl.commands.schema import DOCUMENTS, build_schema


def test_all_and_two(run: Run) -> None:
    code, out, err = run("versions")
    assert (code, err) == (0, "")
    assert out.startswith("Replayed changes of kube-scheduler from 1.30 to 1.37")
    code, out, err = run("versions", "1.34.1", "1.34.2")
    assert (code, err) == (0, "")
    assert out.startswith("Replayed differences between kube-scheduler 1.34.1 and 1.34.2")
    assert "Feature gates" not in out
    assert run("versions", "1.35.1", "1.35").out.startswith(
        "No replayed differences between kube-scheduler 1.35.1 and 1.35"
    )


@pytest.mark.parametrize(("arguments", "last"), [([], "1.37"), (["1.33", "1.36"], "1.36")])
def test_the_document(run: Run, arguments: list[str], last: str) -> None:
    document = json.loads(run("versions", *arguments, "-o", "json").out)
    jsonschema.validate(document, build_schema(DOCUMENTS["version-changes"]))
    assert document["kind"] == "VersionChanges"
    assert (document["versions"][-1], document["compared"]) == (last, bool(arguments))


@pytest.mark.parametrize("columns", [80, 160])
def test_it_keeps_to_the_width_and_to_names(run: Run, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = run("versions", "1.33", "1.36").out.splitlines()
    assert max(map(len, lines)) <= columns
    assert any(line.split()[:2] == ["1.34.2", "TaintToleration"] for line in lines)
    assert re.search(r"DRAConsumableCapacity unknown (→ )?beta, on", " ".join(" ".join(lines).split()))


def test_wrong_use(run: Run) -> None:
    code, _, err = run("versions", "1.33")
    assert (code, "needs a second version to compare 1.33 with" in err) == (2, True)
    code, _, err = run("versions", "1.33", "1.99")
    assert (code, "'1.99' is not supported" in err) == (2, True)


def test_an_upgrade_is_tried(run: Run, write: Write) -> None:
    taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    files = ["-f", write(node("n1", taints=[taint]), pod("web"))]
    code, out, err = run("whatif", "--compare-version", "1.33", "1.36", *files)
    assert (code, err) == (0, "")
    assert "before: under 1.33; after: under 1.36" in out
    assert "1 node(s) had untolerated taint {gpu: yes}" in " ".join(out.split())
    assert "0 of 0 pods would have other best nodes if recreated" in out
    document = json.loads(run("whatif", "--compare-version", "1.33", "1.36", *files, "-o", "json").out)
    jsonschema.validate(document, build_schema(DOCUMENTS["whatif"]))
    assert [change["pods"] for change in document["messages"]] == [["default/web"]]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--compare-version", "1.33", "1.33"], "the two versions are the same"),
        (["--compare-version", "1.33", "1.99"], "'1.99' is not supported"),
        (["--compare-version", "1.33", "1.36", "--compare-config", "a", "b"], "cannot be combined"),
    ],
)
def test_what_cannot_be_compared(run: Run, arguments: list[str], said: str) -> None:
    code, _, err = run("whatif", "--demo", *arguments)
    assert (code, said in err) == (2, True)
