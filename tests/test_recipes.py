"""Follow the recipes of CONTRIBUTING.md in a copy of the package, and check that the program knows what was added."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from one_interpreter import run_command_lines

ROOT = Path(__file__).parent.parent
COMMAND = '''"""``kschedctl greet``: says hello."""

from __future__ import annotations

EXAMPLES = ("kschedctl greet",)


def greet(*, name: str = "you") -> int:
    """Say hello."""
    print(f"hello {name}")
    return 0
'''


def get_recipe(title: str) -> str:
    """Return the paragraph of CONTRIBUTING.md with this title."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    return next(part for part in text.split("\n\n") if part.startswith(f"**{title}.**"))


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Copy the package as symbolic links. A recipe that changes a file replaces its link."""
    subprocess.run(["cp", "-rs", str(ROOT / "kschedctl"), str(tmp_path)], check=True)
    return tmp_path


def add(copy: Path, path: str, text: str, after: str = "") -> None:
    """Write a new file, or insert `text` behind the line `after` of a file that exists."""
    file = copy / path
    file.parent.mkdir(exist_ok=True)
    if after:
        old = file.read_text()
        assert old.count(after) == 1
        text = old.replace(after, f"{after}\n{text}")
        file.unlink()
    file.write_text(text)


def replace_in_file(copy: Path, path: str, pattern: str, replacement: str) -> None:
    """Replace the only match of a pattern in a file, or only turn the link into a file of its own."""
    file = copy / path
    text = file.read_text()
    if pattern:
        text, count = re.subn(pattern, replacement, text)
        assert count == 1
    file.unlink()
    file.write_text(text)


def run(copy: Path, *lines: str) -> list[str]:
    """Return what the command lines print. They may find fault, for example with a pod that does not schedule."""
    return run_command_lines(copy, *lines, exit_codes=(0, 1))


def test_recipe_for_a_command(copy: Path) -> None:
    (table,) = re.findall(r"`TABLE` in `(kschedctl/[\w/]+\.py)`", get_recipe("A command"))
    add(copy, "kschedctl/commands/greet/__init__.py", "")
    add(copy, "kschedctl/commands/greet/command.py", COMMAND)
    add(copy, table, '    CommandEntry("greet", "Says hello.", HelpHeading.OTHER, 9),', after="TABLE = (")
    lines = ("greet --name us", "--help", "greet --help", "__complete gre", "__complete greet --na")
    greeted, overview, explained, names, options = run_command_lines(copy, *lines)
    assert greeted == "hello us\n"
    assert "Says hello." in overview
    assert "kschedctl greet" in explained
    assert names == "greet\tSays hello.\n:4\n"
    assert options.startswith("--name")


RULE = '''"""Replicas that are a number of legend."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.lint.rule import WARNING, Rule, for_each_workload
from kschedctl.lint.objects.subject import Problem
from kschedctl.lint.objects.workload import Workload


def legendary(workload: Workload) -> Iterator[Problem]:
    if workload.subject.document["spec"].get("replicas") == 42:
        yield workload.subject.build_problem(("spec", "replicas"), "42 replicas")


PC_LEGENDARY = Rule(
    "pc-legendary",
    WARNING,
    for_each_workload(legendary),
    summary="42 replicas",
    why="Nobody knows the question.",
    fix="Ask",
    source="https://example.com",
)
'''
DEPLOYMENT = """apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 42
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web}]}
"""


def test_recipe_for_a_lint_rule(copy: Path) -> None:
    (folder,) = re.findall(r"`(kschedctl/lint/rules/)<family>/`", get_recipe("A lint rule"))
    (update,) = re.findall(r"run `python (-m [\w.]+)`", get_recipe("A lint rule"))
    add(copy, f"{folder}priority/legends.py", RULE)
    (examples,) = re.findall(r"`(kschedctl/lint/examples/)` with the rule's id as name", get_recipe("A lint rule"))
    good = DEPLOYMENT.replace("42", "41")
    add(copy, f"{examples}pc-legendary.yaml", f"# bad\n{DEPLOYMENT.replace('42', '42  # <-')}# good\n{good}")
    (copy / "web.yaml").write_text(DEPLOYMENT)
    (copy / "good.yaml").write_text(good)
    explained, table, clean = run_command_lines(
        copy,
        "lint explain pc-legendary",
        "lint web.yaml --select pc-legendary --fail-on error",
        "lint good.yaml --select pc-legendary",
    )
    assert "pc-legendary" in explained
    assert re.search(r"^ +5:\d+ +warning +pc-legendary +Deployment shop/web +42 replicas", table, re.MULTILINE)
    assert "42 replicas" not in clean
    (copy / "kschedctl/lint/RULES.md").unlink()
    subprocess.run([sys.executable, *update.split()], check=True, cwd=copy)
    shutil.copy(ROOT / "tests/lint/test_rules.py", copy)
    chosen = "legendary or table_is_current or every_rule_has_examples or new_file"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_rules.py", "-k", chosen]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=copy)
    assert "5 passed" in done.stdout, done.stdout


PLUGIN = '''"""NodeLegend: nodes that are of legend."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kschedctl.scheduler.framework import Code, Fragment, Reads, Rejection
from kschedctl.scheduler.framework.declaration import DeclaredPlugin
from kschedctl.scheduler.framework.events import ADD, NODE, ActionType, ClusterEventWithHint, WakeTrigger
from kschedctl.scheduler.framework.facts import Fact
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

REASON = "node(s) were of legend"


class Legendary(Fact, frozen=True):
    """The node's label says what it is told of."""

    legend: str

    def describe(self) -> str:
        return f"a legend of {self.legend}"


class NodeLegend(DeclaredPlugin):
    """Rejects nodes with the label ``legend``."""

    name = "NodeLegend"
    facts = (Legendary,)
    without = "pods are placed on nodes of legend"
    fixes = "legends"
    reads = Reads.NODES

    def filter(self, info: PodInfo, view: Fork, state: None, delta: Delta) -> Iterator[Rejection]:
        legends = [node.metadata.labels.get("legend", "") for node in view.nodes.objects]
        yield Rejection(np.array(legends) != "", Code.UNRESOLVABLE, REASON, lambda row: Legendary(legend=legends[row]))

    def sign(self, info: PodInfo, view: Fork) -> Fragment:
        return {}  # no field of the pod is read

    def events_to_register(self, gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
        yield ClusterEventWithHint(NODE, ActionType.ADD)

    def iter_waking_changes(self, info: PodInfo, view: Fork, gates: FeatureGates) -> Iterator[WakeTrigger]:
        yield WakeTrigger(NODE, ADD, "a node is added that is no legend")
'''
REMEDY = '''"""Nodes of legend: take the label off."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from kschedctl.api.objects import Node
from kschedctl.scheduler.plugins.node_legend import NodeLegend
from kschedctl.replay import kubectl
from kschedctl.fixes.trial.changes import Fix, build_node_edits
from kschedctl.fixes.trial.fix_kinds import FixKind
from kschedctl.fixes.trial.trial_node import NodeRejection, PluginRemedies, TrialNode


def forgotten(trial_node: TrialNode, refusal: NodeRejection) -> Iterator[Fix]:
    node = trial_node.cycle.view.nodes.objects[trial_node.known_row]
    name = node.metadata.name
    command = kubectl.render_command("label", "node", name, "legend-")
    edits = build_node_edits(node, _plain)
    yield Fix(FixKind.LABEL_NODE, name, f"forget {name}", "operator", edits, 10, commands=(command,))


def _plain(node: Node) -> Node:
    return replace(node, metadata=replace(node.metadata, labels={}))


REMEDIES = {NodeLegend: PluginRemedies((forgotten,))}
'''
LEGENDARY = """apiVersion: v1
kind: Node
metadata: {name: avalon, labels: {legend: Arthur}}
status: {allocatable: {cpu: 4, memory: 8Gi, pods: 110}}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
spec: {containers: [{name: web, image: web}]}
"""


def add_plugin(copy: Path, plugin: str) -> None:
    folder, table = re.findall(
        r"file in `(kschedctl/[\w/]+/)`|table of `(kschedctl/[\w/]+\.py)`", get_recipe("A plugin")
    )
    add(copy, f"{folder[0]}node_legend.py", plugin)
    if "NodeLegend" not in (copy / table[1]).read_text():
        module = "from kschedctl.scheduler.plugins.node_"
        add(copy, table[1], f"{module}legend import NodeLegend", after=f"{module}name import NodeName")
        add(copy, table[1], "    NodeLegend,", after="    NodeUnschedulable,\n    NodeName,")


def test_recipe_for_a_plugin_with_fact_fix_and_hint(copy: Path) -> None:
    add_plugin(copy, PLUGIN)
    (ways,) = re.findall(r"file of `(kschedctl/[\w/]+/)`", get_recipe("A fix"))
    assert "names that file in its `fixes`" in get_recipe("A fix")
    add(copy, f"{ways}legends.py", REMEDY)
    (copy / "cluster.yaml").write_text(LEGENDARY)
    pod = "shop/web -f cluster.yaml --assume-complete"
    lines = (f"explain {pod} -o json", f"explain {pod} -o wide", f"remedies {pod}", f"wakes {pod}")
    document, explained, fixes, wakes = run(copy, *lines)
    assert json.loads(document)["message"].startswith("0/1 nodes are available: 1 node(s) were of legend.")
    assert "a legend of Arthur" in explained
    assert "kubectl label node avalon legend-" in fixes
    assert "a node is added that is no legend" in wakes


SIGNED = """if True:
    from kschedctl import Cluster
    from kschedctl.api.copying import replace
    from kschedctl.scheduler.queue_run.exact_search import Signer
    from kschedctl.scheduler.scheduler import Scheduler
    from kschedctl.snapshot.pod_info import PodInfo

    spread = {"name": "PodTopologySpread", "args": {"defaultingType": "List"}}  # with system defaults it does not sign
    profiles = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
                "profiles": [{"pluginConfig": [spread]}]}
    scheduler = Scheduler(replace(Cluster.from_paths(["cluster.yaml"]), configuration=profiles))
    framework = scheduler.find_framework("default-scheduler")
    signer = Signer(framework, scheduler.gates, extenders=False, view=scheduler.view)
    infos = [PodInfo(pod, scheduler.view.settings.requests) for pod in scheduler.cluster.pods]
    print([signer.sign(info) is not None for info in infos])
"""


def test_recipe_for_a_plugin_that_signs(copy: Path) -> None:
    """Check that a pod is signed only if the added plugin signs, because every plugin of the profile has to."""
    assert "`sign` in `kschedctl/scheduler/framework/__init__.py`" in get_recipe("A plugin")
    (copy / "cluster.yaml").write_text(LEGENDARY)
    for plugin, signed in ((PLUGIN, "[True]"), (PLUGIN.replace("def sign(", "def unsigned("), "[False]")):
        add_plugin(copy, plugin)
        printed = subprocess.run([sys.executable, "-c", SIGNED], capture_output=True, text=True, check=True, cwd=copy)
        assert printed.stdout == f"{signed}\n"


def test_recipe_for_a_json_field(copy: Path) -> None:
    assert "Add the field to the struct in the command's `report.py`" in get_recipe("A JSON field")
    report, analysis = ("kschedctl/commands/pools/report.py", "kschedctl/commands/pools/__init__.py")
    field = '    legends: Annotated[int, Column("legends")] = 0'
    add(copy, report, field, after='    node_class: Annotated[str, Column("node class")] = ""')
    counted = '        legends=sum("legend" in node.metadata.labels for node in nodes),'
    add(copy, analysis, counted, after="        free_memory=int(free[:, memory].sum()),")
    (copy / "cluster.yaml").write_text(LEGENDARY)
    pools = "pools -f cluster.yaml --assume-complete"
    document, table, schema = run(copy, f"{pools} -o json", pools, "schema node-pools")
    (pool,) = json.loads(document)["pools"]
    assert pool["legends"] == 1
    assert "LEGENDS" in table
    assert "legends" in json.dumps(json.loads(schema)["$defs"]["PoolReport"])


def test_recipe_for_a_version(copy: Path) -> None:
    """Add a minor version with a changed message and a new feature gate."""
    constant, path = re.findall(r"`(\w+)` in `(kschedctl/[\w/]+\.py)`", get_recipe("A version"))[0]
    (script,) = re.findall(r"`python (tests/[\w/]+\.py) 1\.N", get_recipe("A version"))
    replace_in_file(copy, path, rf"(?m)^(OLDEST_MINOR, VERIFIED_MINOR, {constant} = 30, \d\d), \d\d$", r"\1, 99")
    replace_in_file(
        copy, "kschedctl/scheduler/plugins/taint_toleration.py", r'(\("1\.34\.2", "[^"]+"\))', r'\1, ("1.99", "cursed")'
    )
    replace_in_file(copy, "kschedctl/scheduler/framework/feature_gates.py", "", "")
    replace_in_file(copy, "kschedctl/scheduler/framework/unread_gates.py", "", "")
    (copy / script).parent.mkdir(parents=True)
    (copy / script).write_text((ROOT / script).read_text())
    (copy / "facts").write_text("KnightsOfTheRound alpha\n")
    subprocess.run(
        [sys.executable, script, "1.99", "facts"], check=True, cwd=copy, env=os.environ | {"PYTHONPATH": "."}
    )
    (copy / "cluster.yaml").write_text(
        LEGENDARY.replace("status:", "spec: {taints: [{key: a, effect: NoSchedule}]}\nstatus:", 1)
    )
    settings = "--assume-complete --kube-version 1.99 --feature-gates KnightsOfTheRound=true"
    compared, explained = run(
        copy, "versions 1.98 1.99 -o json", f"explain shop/web -f cluster.yaml {settings} -o json"
    )
    changes = json.loads(compared)["changes"]
    assert [(change["where"], change["after"]) for change in changes] == [("TaintToleration", "cursed")]
    assert json.loads(explained)["message"].startswith("0/1 nodes are available: 1 cursed.")


def test_recipe_for_a_text(copy: Path) -> None:
    """Check that the words of a fact are defined in one place, beside its plugin."""
    (path,) = re.findall(r"such as `Cordoned` in\s+`(kschedctl/[\w/]+\.py)`", get_recipe("A text"))
    file = copy / path
    old = file.read_text()
    assert old.count('return "the node is cordoned"') == 1
    file.unlink()
    file.write_text(old.replace('return "the node is cordoned"', 'return "out of bounds"'))
    cordoned = LEGENDARY.replace("status:", "spec: {unschedulable: true}\nstatus:", 1)
    (copy / "cluster.yaml").write_text(cordoned)
    (shown,) = run(copy, "explain shop/web -f cluster.yaml --assume-complete -o wide")
    assert "out of bounds" in shown


REPORT = '''"""Who is greeted, as a document: apiVersion kschedctl.dev/v1, kind Greeting."""

from __future__ import annotations

from typing import Annotated

from kschedctl.reports.columns import Column
from kschedctl.reports.document import Document
from kschedctl.reports.report import Report


class Greeted(Document, frozen=True):
    name: Annotated[str, Column("who")]
    times: Annotated[int, Column("how often")]


class Greeting(Report, frozen=True):
    headline: str
    greeted: tuple[Greeted, ...]
    kind: str = "Greeting"
'''
PAGE = '''"""The page of Greeting."""

from __future__ import annotations

from kschedctl.render.page import Page, Style, paragraph
from kschedctl.render.tables import build_struct_table
from kschedctl.commands.greet.report import Greeting


def greeting_page(report: Greeting, style: Style) -> Page:
    return (paragraph(report.headline), *build_struct_table(report.greeted, style))
'''
REPORTING = '''"""``kschedctl greet``: says hello."""

from __future__ import annotations

from kschedctl.cli.output_options import Answer
from kschedctl.cli.options import with_options
from kschedctl.cli.output_options import Output
from kschedctl.commands.greet.report import Greeted, Greeting

EXAMPLES = ("kschedctl greet",)


@with_options
def greet(*, result: Output) -> Answer:
    """Say hello."""
    return result.build_answer(Greeting("Hello all", (Greeted("us", 7),)))
'''


def test_recipe_for_a_report(copy: Path) -> None:
    assert "`schemas`, `pages`" in get_recipe("A report")
    folder = "kschedctl/commands/greet"
    add(copy, f"{folder}/__init__.py", "")
    add(copy, f"{folder}/report.py", REPORT)
    add(copy, f"{folder}/page.py", PAGE)
    add(copy, f"{folder}/command.py", REPORTING)
    documents = 'schemas={"greeting": "commands.greet.report:Greeting"}'
    pages = 'pages={"Greeting": "commands.greet.page:greeting_page"}'
    entry = f'    CommandEntry("greet", "Says hello.", HelpHeading.OTHER, 9, {documents}, {pages}),'
    add(copy, "kschedctl/commands/table.py", entry, after="TABLE = (")
    formats = ("greet -o json", "greet", "greet -o markdown", "greet -o html", "greet --summary -o json")
    document, table, markdown, html, summary, schema = run_command_lines(copy, *formats, "schema greeting")
    assert json.loads(document)["greeted"] == [{"name": "us", "times": 7}]
    assert re.search(r"(?i)hello all\n(.*\n)*.*who +how often", table)
    assert re.search(r"\| us +\| +7 \|", markdown)
    assert "how often" in html
    assert json.loads(summary)["headline"] == "Hello all"
    assert "Greeted" in json.loads(schema)["$defs"]


SECTION = '''"""The section of an audit about legends."""

from __future__ import annotations

from kschedctl.reports.section import Section


class LegendSection(Section, frozen=True, kw_only=True, tag="legends"):
    told: tuple[str, ...] = ()
'''
SECTION_STUDY = '''"""Legends: nodes of which something is told."""

from __future__ import annotations

from kschedctl.commands.audit.legends_report import LegendSection
from kschedctl.commands.audit.audited_cluster import AuditedCluster
from kschedctl.replay.audit_rules import WARNING, AuditRule, build_verdict

LEGENDARY = AuditRule("audit-legends-told", WARNING, "A legend", "Nobody has seen it.", "Look for it")


def legends_section(audited: AuditedCluster) -> LegendSection:
    told = tuple(node.metadata.name for node in audited.cluster.nodes if "legend" in node.metadata.labels)
    findings = [LEGENDARY.build_finding(f"Node {name}", "is of legend", name) for name in told]
    verdict = build_verdict((LEGENDARY,), findings)
    return LegendSection(title="Legends", headline=f"{len(told)} legends", told=told, **verdict)
'''


def test_recipe_for_a_section_of_the_audit(copy: Path) -> None:
    report, sections, page = re.findall(r"in\s+`(kschedctl/[\w/]+\.py)`", get_recipe("A section of the audit"))
    folder = "kschedctl/commands/audit"
    imported = "from kschedctl.commands.audit.legends_report import LegendSection"
    add(copy, f"{folder}/legends_report.py", SECTION)
    add(copy, report, imported, after="from kschedctl.commands.audit.leader.report import LeaderSection")
    add(copy, report, "    | LegendSection", after="    | PackingSection")
    add(copy, f"{folder}/legends.py", SECTION_STUDY)
    after = "from kschedctl.commands.audit.leader import build_leader_section"
    add(copy, sections, "from kschedctl.commands.audit.legends import legends_section", after=after)
    add(copy, sections, '    "legends": legends_section,', after='    "packing": build_packing_section,')
    add(copy, page, imported, after="from kschedctl.commands.audit.leader.report import LeaderSection")
    case = '        case LegendSection():\n            evidence = (paragraph(f"Told of: {names(section.told)}"),)'
    add(copy, page, case, after="            evidence = build_packing_tables_and_plots(section, style)")
    (copy / "cluster.yaml").write_text(LEGENDARY)
    audit = "audit --section legends -f cluster.yaml"
    shown, document = run(copy, f"{audit} --assume-complete", f"{audit} -o json")
    assert "Told of: avalon" in shown
    assert "is of legend" in shown
    (section,) = json.loads(document)["sections"]
    assert [section["name"], section["told"]] == ["legends", ["avalon"]]


def test_recipe_for_a_kind(copy: Path) -> None:
    structs, table = re.findall(r"`(kschedctl/api/\w+\.py)`", get_recipe("A kind"))[:2]
    file = copy / structs
    text = file.read_text()
    file.unlink()
    file.write_text(f"{text}\n\nclass Legend(Struct, frozen=True):\n    metadata: ObjectMeta = ObjectMeta()\n")
    line = '    legends: tuple[api.Legend, ...] = _declare_kind(api.Legend, "myths.k8s.io/v1")'
    add(copy, table, line, after='    """All objects that are read from a cluster, by kind."""\n')
    legend = "apiVersion: myths.k8s.io/v1\nkind: Legend\nmetadata: {name: grail, namespace: shop}\n"
    (copy / "cluster.yaml").write_text(f"{LEGENDARY}---\n{legend}")
    _, compared = run(copy, "snapshot save -o saved -f cluster.yaml", "snapshot diff saved saved -o json")
    assert json.loads(compared)["changes"] == []
    code = """if True:
        from kschedctl import Cluster
        for cluster in (Cluster.from_paths(["cluster.yaml"]), Cluster.from_snapshot("saved")):
            print([legend.metadata.name for legend in cluster.legends])
    """
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=copy).stdout
    assert printed == "['grail']\n['grail']\n"
