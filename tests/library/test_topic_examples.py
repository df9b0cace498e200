"""Run the examples of ``kschedctl help library``."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import kschedctl
from kschedctl.cli import topics

BLOCKS = re.findall(r"```python\n(.*?)```", (Path(topics.__file__).parent / "library.md").read_text(), re.DOTALL)


def test_examples_of_the_help_topic_run(capsys: pytest.CaptureFixture[str]) -> None:
    node = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"capacity": {"cpu": "4", "memory": "8Gi"}}}
    cluster = kschedctl.Cluster.from_objects([{"apiVersion": "v1", **node}])
    (example,) = [block for block in BLOCKS if "kschedctl.admit" in block]
    exec(example, {"kschedctl": kschedctl, "cluster": cluster})
    out = capsys.readouterr().out
    assert 'namespaces "shop" not found' in out
    assert "ScaleUpNotNeeded" in out
