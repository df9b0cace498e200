"""Check kube-scheduler's message as a sentence, and verbatim in the full answer."""

from __future__ import annotations

import pytest

from kschedctl.commands.simulate.report import SimulationReport
from kschedctl.render.page import Style
from kschedctl.render.renderers import RENDERERS
from kschedctl.reports.placements import UnplacedPods
from kschedctl.text.printable import rewrite_fit_error

OF_1_30 = (
    "0/5 nodes are available: 1 node(s) had untolerated taint {a: b, c}, 3 Insufficient cpu, 2 Insufficient memory. "
    "preemption: 0/5 nodes are available: 5 No preemption victims found for incoming pod."
)
OF_1_36 = (
    "0/12 nodes are available: 1 node(s) were unschedulable, 4 node(s) had untolerated taint(s), 7 Too many pods. "
    "no new claims to deallocate, preemption: 0/12 nodes are available: 12 Preemption is not helpful for scheduling."
)


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (OF_1_30, "None of 5 nodes fits: 3 lack CPU, 2 lack memory, 1 node(s) had untolerated taint {a: b, c}"),
        (OF_1_36, "None of 12 nodes fits: 7 are full of pods, 4 have untolerated taints, 1 is cordoned"),
        ("0/1 nodes are available: 1 Insufficient cpu.", "The only node does not fit: 1 lacks CPU"),
        (
            "0/1 nodes are available: 1 Some plugin's own words.",
            "The only node does not fit: 1 Some plugin's own words",
        ),
        ("no nodes available to schedule pods", "no nodes available to schedule pods"),
        ("", ""),
    ],
)
def test_what_stands_against_most_nodes_comes_first(message: str, said: str) -> None:
    assert rewrite_fit_error(message) == said


@pytest.mark.parametrize(
    ("form", "style"), [("wide", Style(width=400, wide=True)), ("html", Style()), ("json", Style())]
)
def test_the_message_itself_stays(form: str, style: Style) -> None:
    unplaced = UnplacedPods("Deployment d/web", "Unschedulable", OF_1_36, ("d/web-1",))
    report = SimulationReport(seed=0, sampling=False, placed=0, unplaced=1, pending=(unplaced,))
    assert OF_1_36 in RENDERERS[form](report, style)
    assert "7 are full of pods" not in RENDERERS["json"](report, style)
    assert ("7 are full of pods" in RENDERERS[form](report, style)) is (form != "json")
    assert OF_1_36 not in RENDERERS["table"](report, Style(width=400))
