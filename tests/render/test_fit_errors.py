"""Check kube-scheduler's message as a sentence, and verbatim in the full answer."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import pytest

from kschedctl.api.kube_version import ByVersion
from kschedctl.commands.simulate.report import SimulationReport
from kschedctl.render.page import Style
from kschedctl.render.renderers import RENDERERS
from kschedctl.reports.placements import UnplacedPods
from kschedctl.scheduler import plugins
from kschedctl.scheduler.plugins.dynamic_resources.claims import CANNOT_ALLOCATE
from kschedctl.scheduler.plugins.dynamic_resources.evaluation import NOT_AVAILABLE
from kschedctl.scheduler.plugins.node_volume_limits.plugin import NO_DRIVER
from kschedctl.text.printable import put_reason_in_plain_words, rewrite_fit_error

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
        (
            OF_1_30,
            "fits on none of the 5 nodes: 3 lack CPU, 2 lack memory, 1 has the untolerated taint a=b, c "
            "(a node may count more than once)",
        ),
        (OF_1_36, "fits on none of the 12 nodes: 7 are full of pods, 4 have untolerated taints, 1 is cordoned"),
        ("0/1 nodes are available: 1 Insufficient cpu.", "does not fit on the only node: 1 lacks CPU"),
        (
            "0/1 nodes are available: 1 Some plugin's own words.",
            "does not fit on the only node: 1 Some plugin's own words",
        ),
        (
            "0/12 nodes are available: 11 node(s) didn't satisfy plugin(s) [NodeAffinity], 1 Insufficient cpu.",
            "fits on none of the 12 nodes: 11 are not named by the pod, 1 lacks CPU",
        ),
        (
            "0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [A B] simultaneously.",
            "fits on none of the 3 nodes: 3 are ruled out by A and B",
        ),
        (
            "0/3 nodes are available: pod affinity terms conflict. preemption: 0/3 nodes are available: 3 Preemption "
            "is not helpful for scheduling.",
            "fits on none of the 3 nodes: its node affinity requires different nodes at once",
        ),
        ("no nodes available to schedule pods", "no nodes available to schedule pods"),
        ("", ""),
    ],
)
def test_most_frequent_reason_comes_first(message: str, said: str) -> None:
    assert rewrite_fit_error(message) == said


@pytest.mark.parametrize(
    ("form", "style"), [("wide", Style(width=400, wide=True)), ("html", Style()), ("json", Style())]
)
def test_message_stays_verbatim(form: str, style: Style) -> None:
    unplaced = UnplacedPods("Deployment d/web", "Unschedulable", OF_1_36, ("d/web-1",))
    report = SimulationReport(seed=0, sampling=False, placed=0, unplaced=1, pending=(unplaced,))
    assert OF_1_36 in RENDERERS[form](report, style)
    assert "7 are full of pods" not in RENDERERS["json"](report, style)
    assert ("7 are full of pods" in RENDERERS[form](report, style)) is (form != "json")
    assert OF_1_36 not in RENDERERS["table"](report, Style(width=400))


def iter_declared_reasons() -> Iterator[str]:
    """Yield the values of all constants named REASON… in the modules of the plugins, in every version."""
    for module in pkgutil.walk_packages(plugins.__path__, f"{plugins.__name__}."):
        for name, value in vars(importlib.import_module(module.name)).items():
            if name.startswith("REASON") and isinstance(value, str):
                yield value
            elif name.startswith("REASON") and isinstance(value, ByVersion):
                yield from (reason for _, reason in value.steps)
    yield from (
        "Insufficient nvidia.com/gpu",
        "Too many pods",
        CANNOT_ALLOCATE,
        NOT_AVAILABLE,
        NO_DRIVER.format("x.io"),
    )


DECLARED_REASONS = sorted(set(iter_declared_reasons()))


def test_plugins_declare_reasons() -> None:
    assert len(DECLARED_REASONS) > 25


@pytest.mark.parametrize("reason", DECLARED_REASONS)
def test_every_declared_reason_has_plain_words(reason: str) -> None:
    """In a message, a reason has the number of its nodes, or stands alone if it concerns all of them."""
    shown = reason.format("feature", key="dedicated", value="db")
    alone = rewrite_fit_error(f"0/3 nodes are available: {shown}.")
    counted = rewrite_fit_error(f"0/3 nodes are available: 2 {shown}, 1 Too many pods.")
    assert shown not in alone or shown not in counted
    if "{" not in reason and "CSI driver" not in reason:
        assert put_reason_in_plain_words(shown).endswith(f" ({shown})")
