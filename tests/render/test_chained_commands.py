"""Check that no command of a fix runs after another one failed, however the commands are copied."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from kschedctl.api.objects import Pod, PodMeta, PodSpec, PodStatus
from kschedctl.commands.browse.answers import describe_remedy
from kschedctl.commands.browse.session import format_fix_commands
from kschedctl.commands.remedies.report import Remedies, SearchReport
from kschedctl.render.page import Style
from kschedctl.render.renderers import RENDERERS
from kschedctl.replay.kubectl import render_wait_for_replacement
from kschedctl.reports.remedy import Remedy, chain_commands

COMMANDS = ("kubectl cordon n1", "kubectl drain n1", "kubectl uncordon n1")
FIX = Remedy("Empty n1", "operator", None, ("n1",), COMMANDS, (), holds=True)
REPORT = Remedies("d/p", "Unschedulable", "needs 2 CPUs", (FIX,), searched=SearchReport(max_changes=1, replays=9))


@pytest.mark.parametrize(
    ("form", "and_then"), [("table", "&&"), ("brief", "&&"), ("markdown", "&&"), ("html", "&amp;")]
)
def test_each_form_for_people_joins_the_commands(form: str, and_then: str) -> None:
    text = RENDERERS[form](REPORT, Style(width=120))
    assert f"kubectl cordon n1 {and_then}" in text
    assert "kubectl drain n1 ||" in text
    assert f"{{ kubectl uncordon n1; false; }} {and_then}" in text
    assert f"kubectl uncordon n1 {and_then}" not in text


def test_commands_in_the_browser_are_joined() -> None:
    assert format_fix_commands(FIX).splitlines() == list(chain_commands(COMMANDS))
    assert describe_remedy(FIX)[-4:] == list(chain_commands(COMMANDS))


def test_json_has_a_list() -> None:
    assert json.loads(RENDERERS["json"](REPORT, Style()))["remedies"][0]["commands"] == list(COMMANDS)


@pytest.mark.parametrize(
    ("typed", "calls"),
    [("\n", ["cordon n1", "uncordon n1", "patch"]), ("", ["cordon n1", "uncordon n1"])],
    ids=["the user presses Enter", "there is no terminal"],
)
@pytest.mark.parametrize("shell", ["bash", "sh"])
def test_commands_wait_for_the_user_if_kubectl_cannot_wait(
    tmp_path: Path, shell: str, typed: str, calls: list[str]
) -> None:
    pod = Pod(PodMeta("p", "d"), PodSpec(), PodStatus())
    wait = render_wait_for_replacement(pod, are_others_available=True)  # a pod without a controller
    kubectl = 'kubectl() { echo "$*" >> calls; }'
    script = "\n".join((kubectl, *chain_commands(("kubectl cordon n1", wait, "kubectl uncordon n1", "kubectl patch"))))
    subprocess.run([shell, "-c", script], cwd=tmp_path, input=typed, text=True, check=False)
    assert (tmp_path / "calls").read_text().splitlines() == calls


def test_shell_stops_at_the_first_failure(tmp_path: Path) -> None:
    script = "\n".join(chain_commands(("# first", "touch one", "false | false", "# then", "touch two")))
    subprocess.run(["bash", "-c", script], cwd=tmp_path, check=False)
    assert [path.name for path in tmp_path.iterdir()] == ["one"]
    script = "\n".join(chain_commands(("touch one", "# then", "touch two", "# in the end")))
    subprocess.run(["bash", "-c", script], cwd=tmp_path, check=True)
    assert {path.name for path in tmp_path.iterdir()} == {"one", "two"}


@pytest.mark.parametrize(
    ("failing", "calls"),
    [
        ("", ["cordon n1", "cordon n2", "evict a", "uncordon n2", "evict b", "uncordon n1", "patch"]),
        ("evict a", ["cordon n1", "cordon n2", "evict a", "uncordon n1 n2", "uncordon n1"]),
        ("evict b", ["cordon n1", "cordon n2", "evict a", "uncordon n2", "evict b", "uncordon n1"]),
    ],
)
def test_no_node_stays_cordoned_if_a_command_fails(tmp_path: Path, failing: str, calls: list[str]) -> None:
    kubectl = f'kubectl() {{ echo "$*" >> calls; [ "$*" != "{failing}" ]; }}'
    steps = ("cordon n1", "cordon n2", "evict a", "# wait", "uncordon n2", "evict b", "uncordon n1", "patch")
    commands = [step if step.startswith("#") else f"kubectl {step}" for step in steps]
    script = "\n".join((kubectl, *chain_commands(commands)))
    code = subprocess.run(["bash", "-c", script], cwd=tmp_path, check=False).returncode
    assert code == (1 if failing else 0)
    assert (tmp_path / "calls").read_text().splitlines() == calls
