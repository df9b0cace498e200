"""A DaemonSet's pod on a node without a free pod slot, where every pod has its priority (kubernetes/kubernetes#140984).

Node w2 takes 5 pods and has 5, all of priority 0 as the waiting one. So kube-scheduler finds no victim, and a higher
PriorityClass, a pod that moves or a higher pod limit helps.
"""

from __future__ import annotations

from pathlib import Path

import kschedctl
from kschedctl.commands.explain.report import NoLowerPriority
from kschedctl.render.page import Style
from kschedctl.render.renderers import RENDERERS

SITUATION = Path(__file__).parent / "06-ds-equal-priority" / "in.yaml"
WHY = "Preemption cannot help: every pod on w2 has the same priority as this pod (0)"


def test_equal_priority_is_named() -> None:
    report = kschedctl.explain(kschedctl.Cluster.from_paths([SITUATION]), "ops/agent-x2")
    assert report.preemption is not None
    priorities = report.preemption.no_lower_priority
    assert priorities == NoLowerPriority(priority=0, lowest=0, highest=0, nodes=1, such_as="w2")
    assert priorities.explanation == WHY
    for form in ("table", "brief", "markdown"):
        assert WHY in RENDERERS[form](report, Style(width=120))
    assert report.summary().preemption == WHY


def test_daemon_set_is_advised_to_have_a_higher_priority() -> None:
    report = kschedctl.explain(kschedctl.Cluster.from_paths([SITUATION]), "ops/agent-x2")
    assert "give the DaemonSet a PriorityClass above 0" in next(
        a.text for a in report.advice if a.kind == "RaisePriority"
    )


def test_fix_with_an_existing_class_replaces_the_advice(tmp_path: Path) -> None:
    high = tmp_path / "high.yaml"
    high.write_text("{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 10}")
    report = kschedctl.explain(kschedctl.Cluster.from_paths([SITUATION, high]), "ops/agent-x2", remedies=True)
    assert any("high" in remedy.summary for remedy in report.remedies)
    assert not any(advice.kind == "RaisePriority" for advice in report.advice)
