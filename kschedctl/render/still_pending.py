"""The part of ScaleUp and Provisioning about pods that wait although nodes were made for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kschedctl.render.page import Page, Style, paragraph
from kschedctl.render.tables import table_of
from kschedctl.reports.columns import Column
from kschedctl.text.counts import counted, first_few, first_of


def still_pending_table(
    still_pending: Mapping[str, str], rivals: Sequence[str], enough: int | None, style: Style
) -> Page:
    """Show the pods that wait all the same, which pods take their room, and how many nodes would be enough."""
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
        f"{counted(enough, 'new node')} would be enough"
        if enough is not None
        else "what the autoscaler adds in its next loops does not place them",
    )
    return (
        *table_of(rows, columns, lambda row: row, style, title="Pending all the same, once these nodes are there"),
        paragraph(f"{'; '.join(filter(None, parts))}."),
    )
