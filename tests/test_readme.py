"""What the README shows is what the program prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from readme import README, examples, run


@pytest.mark.parametrize(("command", "printed"), examples(), ids=lambda value: value.split("\n")[0][:60])
def test_example(command: str, printed: str) -> None:
    assert run(command) == printed


def test_there_are_examples() -> None:
    assert len(examples()) >= 4


def test_the_scenario_runs(tmp_path: Path) -> None:
    (scenario,) = re.findall(r"```yaml\n(steps:\n.*?)```", README.read_text(), re.DOTALL)
    file = tmp_path / "scenario.yaml"
    file.write_text(scenario)
    assert "Pods are affected" in run(f"kschedctl whatif {file} --demo")
