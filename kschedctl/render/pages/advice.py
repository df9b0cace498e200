"""What to do next, with the commands that can be typed for it."""

from __future__ import annotations

from collections.abc import Sequence

from kschedctl.render.page import Bullets, Page, section
from kschedctl.reports.explanation import Advice

WITH_COMMANDS = {
    "CompareLabels": "{text}: kubectl get nodes --show-labels",
    "LookAtClaim": "{text}: kubectl describe pvc",
    "LookAtDevices": "{text}: kubectl get resourceclaims,deviceclasses,resourceslices",
    "DetachVolumes": "{text}: kubectl get csinode",
    "LookAtKubelet": "{text}: kubectl describe pod",
    "LookAtNode": "{text}: kubectl describe node {node}",
    "Uncordon": "{text}: kubectl uncordon {node}",
    "MakeRoom": "{text}: kschedctl whatif tries it before it is done",
    "CorrectProfile": "Name its configuration with --config, or correct the pod's spec.schedulerName",
}
"""The kind of an advice -> how it is said to somebody who has a command line."""


def advice_section(advice: Sequence[Advice]) -> Page:
    """One line each."""
    return section("What to do next", Bullets(tuple(map(_told, advice)))) if advice else ()


def _told(advice: Advice) -> str:
    """
    >>> _told(Advice("Uncordon", "Once w1 is uncordoned the pod fits there", "w1"))
    'Once w1 is uncordoned the pod fits there: kubectl uncordon w1'
    """
    return WITH_COMMANDS.get(advice.kind, "{text}").format(text=advice.text, node=advice.node)
