"""``-o name``: the pods that a report is about, one a line, in the form that ``explain`` takes."""

from __future__ import annotations

from kschedctl.errors import UsageError
from kschedctl.reports.answers import kind_of_answers
from kschedctl.reports.document import Document
from kschedctl.reports.report import Report
from kschedctl.text.printable import printable


def pod_names(document: Document) -> str:
    """Return a line ``namespace/name`` for each distinct pod. Raises UsageError if the report is about no pods."""
    pods = document.pod_names() if isinstance(document, Report) else None
    if pods is None:
        raise UsageError(f"{kind_of_answers(document)} has no list of pods", hint="-o json has everything")
    return "".join(f"{printable(pod)}\n" for pod in dict.fromkeys(pods))
