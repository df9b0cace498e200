"""Run the examples of ``kschedctl help library``."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import kschedctl

TOPIC = Path(kschedctl.__file__).parent / "cli/topics/library.md"
BLOCKS = re.findall(r"```python\n(.*?)```", TOPIC.read_text(), re.DOTALL)


def test_examples_of_the_help_topic_run(capsys: pytest.CaptureFixture[str]) -> None:
    node = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"capacity": {"cpu": "4", "memory": "8Gi"}}}
    cluster = kschedctl.Cluster.from_objects([{"apiVersion": "v1", **node}])
    (example,) = [block for block in BLOCKS if "kschedctl.admit" in block]
    exec(example, {"kschedctl": kschedctl, "cluster": cluster})
    out = capsys.readouterr().out
    assert 'namespaces "shop" not found' in out
    assert "ScaleUpNotNeeded" in out
