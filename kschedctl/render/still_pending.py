"""The section about pods that stay pending although nodes are added for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kschedctl.render.page import Page, Style, paragraph
from kschedctl.render.tables import build_table
from kschedctl.reports.columns import Column
from kschedctl.text.counts import counted, first_few, first_of


def build_still_pending(
    still_pending: Mapping[str, str], rivals: Sequence[str], enough_nodes: int | None, style: Style
) -> Page:
    """Return the pods that stay pending, the pods that take their room, and how many nodes would be enough."""
    if not still_pending:
        return ()
    by_message: dict[str, list[str]] = {}
    for pod, message in still_pending.items():
        by_message.setdefault(message, []).append(pod)
    rows = [(first_of(pods), message) for message, pods in by_message.items()]
    columns = (Column("pods"), Column("kube-scheduler"))
    verb = "takes" if len(rivals) == 1 else "take"
    parts = (
        f"{counted(len(rivals), 'pod')} ahead in the queue {verb} their room: {first_few(rivals)}" if rivals else "",
        f"{counted(enough_nodes, 'new node')} would be enough"
        if enough_nodes is not None
        else "what the autoscaler adds in its next loops does not place them",
    )
    return (
        *build_table(rows, columns, lambda row: row, style, title="Pending all the same, once these nodes are there"),
        paragraph(f"{'; '.join(filter(None, parts))}."),
    )
