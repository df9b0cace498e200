"""The names of the pods that a document is about, one a line, as ``explain`` takes them.

Of a what-if these are the pods that are left without a node, or cannot be evicted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kschedctl.errors import UsageError
from kschedctl.text.printable import printable


def pod_names(document: dict[str, Any]) -> str:
    """``namespace/name`` lines, each once. Raises UsageError for a document that is about no pods."""
    if document["kind"] not in PODS:
        raise UsageError(f"{document['kind']} has no list of pods", hint="-o json has everything")
    pods = dict.fromkeys(PODS[document["kind"]](document))
    return "".join(f"{printable(pod)}\n" for pod in pods)


def _of(groups: Iterable[Mapping[str, Any]]) -> list[str]:
    return [pod for group in groups for pod in group["pods"]]


PODS: dict[str, Callable[[dict[str, Any]], Iterable[str]]] = {
    "Explanation": lambda found: [found["pod"]],
    "Explanations": lambda found: [each["pod"] for each in found["explanations"]],
    "PendingPods": lambda found: _of(found["groups"]),
    "Simulation": lambda found: _of(found["pending"]),
    "Drain": lambda found: [*(blocked["pod"] for blocked in found["blocked"]), *_of(found["unplaced"])],
    "Failures": lambda found: [pod for failure in found["failures"] for pod in _of(failure["reasons"])],
    "Answers": lambda found: [
        pod for each in found["answers"] for pod in PODS[each["document"]["kind"]](each["document"])
    ],
    "WhatIf": lambda found: [c["pod"] for c in found["changes"] if c["change"] == "NewlyPending"],
}
"""The kind of a document -> its pods."""
