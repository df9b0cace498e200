"""The evidence of section "queues"."""

from __future__ import annotations

from kschedctl.commands.audit.queues.report import QueuesSection
from kschedctl.render.page import Page, Style
from kschedctl.render.tables import ROWS_SHOWN, build_struct_table


def build_queues_evidence(section: QueuesSection, style: Style) -> Page:
    """Build tables of inactive and starving queues, of waiting and unplaced Workloads, and of unused flavors."""
    return (
        *build_struct_table(section.inactive, style, title="ClusterQueues that admit nothing"),
        *build_struct_table(section.waiting, style, title="Workloads that wait longest", limit=ROWS_SHOWN // 2),
        *build_struct_table(section.starving, style, title="ClusterQueues that wait while others borrow"),
        *build_struct_table(section.unplaced, style, title="Admitted Workloads with pods without a node"),
        *build_struct_table(section.unused, style, title="Flavors that no Workload uses", limit=ROWS_SHOWN // 2),
    )
