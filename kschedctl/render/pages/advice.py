"""What to do next, with the commands that can be typed for it."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote

from kschedctl.render.page import Block, Bullets, Command, Page, section
from kschedctl.reports.explanation import Advice

SAID = {
    "MakeRoom": "{text}; try it first in a whatif scenario",
    "CorrectProfile": "Name its configuration with --config, or correct the pod's spec.schedulerName",
}
"""The kind of an advice -> how it is said to somebody who has a command line, where that is more than its text."""
COMMANDS = {
    "CompareLabels": "kubectl get nodes --show-labels",
    "LookAtClaim": "kubectl describe pvc -n {namespace}",
    "LookAtDevices": "kubectl get resourceclaims,deviceclasses,resourceslices -n {namespace}",
    "DetachVolumes": "kubectl get csinode",
    "LookAtKubelet": "kubectl describe pod -n {namespace} {pod}",
    "LookAtNode": "kubectl describe node {node}",
    "Uncordon": "kubectl uncordon {node}",
}
"""The kind of an advice -> what to type, in one piece."""


def advice_section(advice: Sequence[Advice], pod: str) -> Page:
    """One line each, and beneath it what to type. ``pod``: namespace/name of the one that it is about."""
    namespace, _, name = pod.partition("/")
    blocks: list[Block] = []
    for each in advice:
        blocks.append(Bullets((SAID.get(each.kind, "{text}").replace("{text}", each.text),)))
        if each.kind in COMMANDS:
            words = {"namespace": quote(namespace), "pod": quote(name), "node": quote(each.node)}
            blocks.append(Command(COMMANDS[each.kind].format(**words)))
    return section("What to do next", *blocks) if blocks else ()
