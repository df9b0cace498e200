"""The format `-o name`: one pod per line, as `explain` takes it."""

from __future__ import annotations

from kschedctl.errors import UsageError
from kschedctl.reports.document import Document
from kschedctl.reports.report import Report, kind_of_answers
from kschedctl.text.printable import printable


def render_pod_names(document: Document) -> str:
    """Return a line `namespace/name` per distinct pod. Raises UsageError if the report is not about pods."""
    pods = document.pod_names() if isinstance(document, Report) else None
    if pods is None:
        raise UsageError(f"{kind_of_answers(document)} has no list of pods", hint="-o json has everything")
    return "".join(f"{printable(pod)}\n" for pod in dict.fromkeys(pods))
