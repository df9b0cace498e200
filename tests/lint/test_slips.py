"""Check that common slips are reported on their lines, and lookalikes are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from kschedctl.cli.main import main
from kschedctl.lint.context import LintContext
from kschedctl.lint.engine import lint
from kschedctl.lint.rule import Severity
from kschedctl.reports.findings import Finding
from kschedctl.sources.documents.positions import load_objects

FOLDER = Path(__file__).with_name("slips")
MARK = "  # <- "
CONTAINER = "containers: [{name: main, image: main, resources: {requests: {cpu: 100m, memory: 64Mi}}}]"
UNASKED = {"rq-missing"}
"""Rules that are ignored here, because most containers have no requests."""
KINDS = {"pod": "Pod", "deployment": "Deployment", "statefulset": "StatefulSet", "daemonset": "DaemonSet"}


def read_cases(folder: str) -> list[tuple[str, str]]:
    """Yield the name and the manifests of each case."""
    texts = [path.read_text() for path in sorted((FOLDER / folder).glob("*.yaml"))]
    named = (part.split("\n", 1) for text in texts for part in text.split("## ")[1:])
    return [(name, "---\n".join(map(expand_document, text.split("---\n")))) for name, text in named]


def expand_document(document: str) -> str:
    """Return the manifest that a line such as ``@deployment name=web replicas=3`` and fields of the pod spec stand
    for.
    """
    first, _, fields = document.partition("\n")
    if not first.startswith("@"):
        return document
    word, *options = first[1:].split()
    given = {"name": "web", "replicas": "3"} | dict(option.split("=") for option in options)
    lines = fields.splitlines()
    lines += [] if any(line.startswith("containers:") for line in lines) else [CONTAINER]
    namespace = f", namespace: {given['namespace']}" if "namespace" in given else ""
    head = f"kind: {KINDS[word]}\nmetadata: {{name: {given['name']}{namespace}}}\nspec:\n"
    if word == "pod":
        return f"apiVersion: v1\n{head}" + "".join(f"  {line}\n" for line in lines)
    labels = f"{{app: {given['name']}}}"
    head += "" if word == "daemonset" else f"  replicas: {given['replicas']}\n"
    if "maxUnavailable" in given:
        head += f"  strategy: {{rollingUpdate: {{maxSurge: 1, maxUnavailable: {given['maxUnavailable']}}}}}\n"
    head += f"  selector: {{matchLabels: {labels}}}\n  template:\n    metadata: {{labels: {labels}}}\n    spec:\n"
    return f"apiVersion: apps/v1\n{head}" + "".join(f"      {line}\n" for line in lines)


def find_mistakes(text: str, folder: Path) -> list[Finding]:
    """Return what lint finds in manifests apart from advice."""
    (folder / "m.yaml").write_text(text)
    manifests = list(load_objects(str(folder / "m.yaml")))
    found = lint(LintContext.from_manifests(((m.value, m) for m in manifests), None)).findings
    return [f for f in found if f.severity is not Severity.NOTE and f.rule not in UNASKED]


@pytest.mark.parametrize(("name", "text"), [pytest.param(*case, id=case[0]) for case in read_cases("planted")])
def test_slip_is_named(name: str, text: str, tmp_path: Path) -> None:
    marked = [
        (number, rule)
        for number, line in enumerate(text.splitlines(), start=1)
        for rule in line.partition(MARK)[2].split(", ")
        if rule
    ]
    assert marked
    assert sorted((f.line, f.rule) for f in find_mistakes(text, tmp_path)) == marked


@pytest.mark.parametrize(("name", "text"), [pytest.param(*case, id=case[0]) for case in read_cases("look_alikes")])
def test_lookalike_of_a_slip_is_not_reported(name: str, text: str, tmp_path: Path) -> None:
    assert MARK not in text
    assert [(f.line, f.rule, f.message) for f in find_mistakes(text, tmp_path)] == []


CORRECTED = {
    "an architecture as uname says it": ("arch: x86_64", "arch: amd64"),
    "an architecture in required affinity": ("- x86-64", "- amd64"),
    "a capacity type in capitals": ("SPOT", "spot"),
    "Karpenter's annotation by its old name": ("do-not-evict", "do-not-disrupt"),
    "the autoscaler's annotation with a letter too few": ("safe-to-evit:", "safe-to-evict:"),
}
"""Slips that are corrected automatically, each with its text before and after."""


@pytest.mark.parametrize("name", CORRECTED)
def test_slip_is_corrected(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = dict(read_cases("planted"))[name].replace("apiVersion", "# as it was\napiVersion", 1)
    (tmp_path / "m.yaml").write_text(text)
    assert main(["lint", "m.yaml", "--fix", "--fail-on", "error"]) == 0
    assert text.count(CORRECTED[name][0]) == 1
    assert (tmp_path / "m.yaml").read_text() == text.replace(*CORRECTED[name])


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("a class of storage with two letters swapped", "Write fast-ssd"),
        ("a runtime class with a letter too few", "Write gvisor-net"),
        ("a priority class with a letter too few", "Write business-critical"),
        ("a namespace with letters swapped", "Write checkout"),
        ("required affinity to oneself by a misspelled long key", "Write app.kubernetes.io/name=web"),
        ("affinity to another workload by a misspelled value", "Write app=redis"),
        ("arch in the wrong domain", "Write kubernetes.io/arch"),
        ("the control plane's taint with a letter too few", "Write node-role.kubernetes.io/control-plane"),
        ("a node pool's taint with another value", "Write analytics"),
        ("a GPU without its domain", "Write nvidia.com/gpu"),
        ("the autoscaler's annotation on the CronJob", "Move it to the metadata of the pod template"),
    ],
)
def test_finding_says_what_was_meant(name: str, fix: str, tmp_path: Path) -> None:
    assert [finding.fix for finding in find_mistakes(dict(read_cases("planted"))[name], tmp_path)] == [fix]


def test_number_of_slips_and_lookalikes() -> None:
    assert len(read_cases("planted")) >= 150
    assert len(read_cases("look_alikes")) >= 80
    assert len({name for folder in ("planted", "look_alikes") for name, _ in read_cases(folder)}) >= 230
