"""Check that every rule reports its bad example at the marked lines only, and not its good one."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from pkgutil import iter_modules

import pytest
import yaml

from kschedctl.api.kube_version import KUBE_VERSION
from kschedctl.cluster import Cluster
from kschedctl.lint import rules as rules_package
from kschedctl.lint.catalogue import (
    EXAMPLES,
    FAMILIES,
    HEADINGS,
    PEERS,
    RULES,
    TABLE,
    iter_rules,
    read_example,
    render_rules_document,
)
from kschedctl.lint.context import LintContext
from kschedctl.lint.engine import lint
from kschedctl.lint.rule import Rule
from kschedctl.lint.rules import spread
from kschedctl.reports.findings import Findings
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.sources.documents.positions import LocatedObject, load_objects

MARK = "# <-"
MANY_NODES = [{"kind": "Node", "metadata": {"name": f"n{i}"}} for i in range(501)]


def run(rule: Rule, part: str, tmp_path: Path) -> Findings:
    """Run a rule alone on a part of its example. Nodes among the manifests are its cluster."""
    text = read_example(rule.id)
    (tmp_path / "m.yaml").write_text(text[part])
    manifests: list[LocatedObject] = list(load_objects(str(tmp_path / "m.yaml")))
    around = list(yaml.safe_load_all(text["cluster"])) if text["cluster"] else [m.value for m in manifests]
    around += MANY_NODES if rule.id == "af-large-cluster" else []
    cluster = Cluster.from_objects(around) if any(o["kind"] == "Node" for o in around) else None
    if cluster and text["config"]:
        cluster = replace(cluster, configuration=yaml.safe_load(text["config"]))
    gates = FeatureGates(text["version"].strip() or KUBE_VERSION)
    return lint(LintContext.from_manifests(((m.value, m) for m in manifests), cluster, gates), [rule])


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_bad_example_is_reported(rule: Rule, tmp_path: Path) -> None:
    found = run(rule, "bad", tmp_path).findings
    lines = (tmp_path / "m.yaml").read_text().splitlines()
    marked = [number for number, line in enumerate(lines, start=1) if line.endswith(MARK)]
    assert found
    assert {f.rule for f in found} == {rule.id}
    assert [f.line for f in found if f.line] == marked


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_good_example_is_not_reported(rule: Rule, tmp_path: Path) -> None:
    assert run(rule, "good", tmp_path).findings == ()


def test_every_rule_has_examples() -> None:
    assert sorted(rule.id for rule in RULES) == sorted(path.stem for path in EXAMPLES.glob("*.yaml"))


def test_comparison_with_other_linters_names_rules() -> None:
    rows = [line.split("|")[1:-1] for line in PEERS.read_text().splitlines() if line.startswith("| ")][2:]
    named = {rule for row in rows for rule in re.findall("`(.*?)`", row[2])}
    assert len(rows) > 20
    assert named <= {rule.id for rule in RULES}
    assert all("`" in here or why.strip() for _, _, here, why in rows)


def test_table_is_current() -> None:
    assert TABLE.read_text() == render_rules_document(), "run python -m kschedctl.lint.catalogue"


NEW_RULE = """
from kschedctl.lint.rule import NOTE, Rule


def check(context):
    for workload in context.workloads:
        if workload.labels.get("tier") == "gold":
            yield workload.build_problem((), "gold")


TS_GOLD = Rule("ts-gold", NOTE, check, summary="Gold", why="It is gold.", fix="Leave it", source="here")
"""


def test_new_file_in_the_folder_of_a_family_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As CONTRIBUTING.md says, only this file is written, and no other file is changed."""
    (tmp_path / "zz_added_by_a_test.py").write_text(NEW_RULE)
    monkeypatch.setattr(spread, "__path__", [*spread.__path__, str(tmp_path)])
    monkeypatch.delitem(sys.modules, "kschedctl.lint.rules.spread.zz_added_by_a_test", raising=False)
    rules = list(iter_rules("spread"))
    assert rules[:-1] == list(FAMILIES["Topology spread"])
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "labels": {"tier": "gold"}}, "spec": {}}
    (tmp_path / "pod.json").write_text(json.dumps(pod))
    manifests = load_objects(str(tmp_path / "pod.json"))
    context = LintContext.from_manifests(((m.value, m) for m in manifests), None)
    assert [(f.rule, f.object) for f in lint(context, rules[-1:]).findings] == [("ts-gold", "Pod web")]


def test_every_family_has_a_heading() -> None:
    assert {found.name for found in iter_modules(rules_package.__path__)} == HEADINGS.keys()
