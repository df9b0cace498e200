"""Build the package that ``kschedctl help plugins`` prints and check that it works."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from command_line import Outcome, Run, Write, build_node, build_pod

from kschedctl import plugins

Json = dict[str, Any]
PRICE, OUT_OF_ORDER = "example.com/price", "example.com/out-of-order"


@pytest.fixture
def printed(run: Run) -> dict[str, str]:
    """Return the code blocks by language."""
    code, out, err = run("help", "plugins")
    assert (code, err) == (0, "")
    return dict(re.findall(r"```(\w+)\n(.*?)```", out, re.DOTALL))


@pytest.fixture
def config(printed: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Install the package as its pyproject.toml says, and return a configuration that enables its plugins."""
    (tmp_path / "my_plugins.py").write_text(printed["python"])
    project = tomllib.loads(printed["toml"])["project"]
    (group, points), *_ = project["entry-points"].items()
    info = tmp_path / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    lines = (f"{name} = {target}" for name, target in points.items())
    (info / "entry_points.txt").write_text("\n".join((f"[{group}]", *lines)))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "my_plugins", raising=False)
    file = tmp_path / "scheduler.yaml"
    file.write_text(printed["yaml"])
    return str(file)


def build_labelled_node(name: str, **labels: str) -> Json:
    found = build_node(name)
    found["metadata"]["labels"] = {**found["metadata"].get("labels", {}), **labels}
    return found


def build_approved_pod(answer: str | None) -> Json:
    found = build_pod("web")
    found["metadata"]["labels"] = {} if answer is None else {"example.com/approved": answer}
    return found


def explain_with_plugins(run: Run, write: Write, config: str, answer: str | None, *command: str) -> Outcome:
    """Explain the pod with the example plugins and three nodes."""
    nodes = [
        build_labelled_node("broken", **{OUT_OF_ORDER: "yes"}),
        build_labelled_node("dear", **{PRICE: "30"}),
        build_labelled_node("cheap", **{PRICE: "10"}),
    ]
    return run(*(command or ("explain", "web")), "-f", write(*nodes, build_approved_pod(answer)), "--config", config)


def test_filter_and_score(run: Run, write: Write, config: str) -> None:
    found = explain_with_plugins(run, write, config, "yes", "explain", "web", "-o", "json")
    report = json.loads(found.out)
    assert found.code == 0
    assert report["filter"]["broken"]["Maintenance"]["reasons"] == ["node(s) are in maintenance"]
    assert report["normalized"]["LowPrice"] == {"cheap": 100 - 33, "dear": 0}
    assert report["weighted"]["LowPrice"]["cheap"] == 2 * 67
    assert report["best"] == ["cheap"]
    assert report["permit"] == {}
    assert report["notReplayed"] == []


def test_permit_waits(run: Run, write: Write, config: str) -> None:
    found = explain_with_plugins(run, write, config, None)
    assert found.code == 0
    best = "on cheap, the best of 2 feasible nodes"
    waits = f"{best}, where it waits: waiting for an approval, one or more plugins asked to wait"
    assert waits in " ".join(found.out.split())


def test_permit_refuses(run: Run, write: Write, config: str) -> None:
    found = explain_with_plugins(run, write, config, "no")
    assert found.code == 1
    assert "0/1 nodes are available: 1 nobody pays for it." in found.out
    assert "Unschedulable: nobody pays for it" in found.out


@pytest.mark.parametrize(("answer", "code"), [("yes", 0), ("no", 1), (None, 0)])
def test_in_simulations(run: Run, write: Write, config: str, answer: str | None, code: int) -> None:
    found = explain_with_plugins(run, write, config, answer, "simulate", "--pending")
    assert found.code == code
    assert ("nobody pays for it" in found.out) == (code == 1)
    assert ("1 of these waits at Permit: waiting for an approval" in found.out) == (answer is None)


def test_arguments_are_checked_and_the_package_is_named(run: Run, write: Write, config: str) -> None:
    text = Path(config).read_text()
    Path(config).write_text(text.replace("{label: example.com/out-of-order}", "{labels: x}"))
    assert 'unknown field "labels"' in explain_with_plugins(run, write, config, "yes").err
    Path(config).write_text(text)
    module = Path(config).with_name("my_plugins.py")
    module.write_text(module.read_text().replace("return k.SUCCESS", "return True"))
    sys.modules.pop("my_plugins", None)
    error = 'plugin "Approval" of package my-plugins 1.0 fails in permit: TypeError: it returned bool, not Status'
    assert error in explain_with_plugins(run, write, config, "yes").err


def test_all_documented_names_exist() -> None:
    assert all(hasattr(plugins, name) for name in plugins.__all__)


def test_help_of_commands_and_of_unknown_topics(run: Run) -> None:
    assert run("help", "explain").out.startswith("Usage: kschedctl explain")
    assert "Ask:" in run("help").out
    assert run("help", "nonsense").err.startswith('error: no command or topic "nonsense"')
