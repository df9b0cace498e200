"""The names of the pods that a document is about, one a line, as ``explain`` takes them.

Of a what-if these are the pods that are left without a node, or cannot be evicted.
"""

from __future__ import annotations

from collections.abc import Iterable

from kschedctl.errors import UsageError
from kschedctl.reports.answers import Answers
from kschedctl.reports.document import Document
from kschedctl.reports.drain import Drain
from kschedctl.reports.explanation import Explanation
from kschedctl.reports.explanations import Explanations
from kschedctl.reports.failures import Failures
from kschedctl.reports.pending import PendingPods
from kschedctl.reports.simulation import SimulationReport, UnplacedPods
from kschedctl.reports.whatif import WhatIf
from kschedctl.text.printable import printable


def pod_names(document: Document) -> str:
    """``namespace/name`` lines, each once. Raises UsageError for a document that is about no pods."""
    return "".join(f"{printable(pod)}\n" for pod in dict.fromkeys(_pods(document)))


def _pods(document: Document) -> list[str]:
    match document:
        case Explanation():
            pods = [document.pod]
        case Explanations():
            pods = [explanation.pod for explanation in document.explanations]
        case PendingPods():
            pods = [pod for group in document.groups for pod in group.pods]
        case SimulationReport():
            pods = _unplaced(document.pending)
        case Drain():
            pods = [*(blocked.pod for blocked in document.blocked), *_unplaced(document.unplaced)]
        case Failures():
            pods = [pod for failure in document.failures for pod in _unplaced(failure.reasons)]
        case Answers():
            pods = [pod for answer in document.answers for pod in _pods(answer.document)]
        case WhatIf():
            pods = [change.pod for change in document.changes if change.change == "NewlyPending"]
        case _:
            kind = getattr(document, "kind", "this")
            raise UsageError(f"{kind} has no list of pods", hint="-o json has everything")
    return pods


def _unplaced(groups: Iterable[UnplacedPods]) -> list[str]:
    return [pod for group in groups for pod in group.pods]
