"""Check that real mistakes are reported by the rule and on the lines that each case marks."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from kschedctl.cluster import Cluster
from kschedctl.lint.context import LintContext
from kschedctl.lint.engine import lint
from kschedctl.lint.rule import Severity
from kschedctl.sources.documents.positions import load_objects

PLANTED = Path(__file__).with_name("planted")
MARK = "  # <- "
IN_CLUSTER = "in_cluster.yaml"


def read_cases() -> list[tuple[str, str]]:
    """Yield the name and the manifests of each case."""
    texts = [path.read_text() for path in sorted(PLANTED.glob("*.yaml")) if path.name != "cluster.yaml"]
    return [tuple(part.split("\n", 1)) for text in texts for part in text.split("## ")[1:]]  # type: ignore[misc]


def find_marks(text: str) -> list[tuple[int, str]]:
    """Return line and rule of each mark."""
    lines = enumerate(text.splitlines(), start=1)
    return [(number, line.partition(MARK)[2]) for number, line in lines if MARK in line]


@pytest.mark.parametrize(("name", "text"), [pytest.param(*case, id=case[0]) for case in read_cases()])
def test_planted_error_is_named(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(text)
    manifests = list(load_objects(str(tmp_path / "m.yaml")))
    cluster = None
    if f"## {name}\n" in (PLANTED / IN_CLUSTER).read_text():
        cluster = Cluster.from_objects(list(yaml.safe_load_all((PLANTED / "cluster.yaml").read_text())))
    found = lint(LintContext.from_manifests(((m.value, m) for m in manifests), cluster)).findings
    grave = [finding for finding in found if finding.severity is not Severity.NOTE]
    expected = find_marks(text)
    assert expected
    assert [(f.line, f.rule) for f in grave if (f.line, f.rule) in expected] == expected
