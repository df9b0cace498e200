"""The section of an audit about pods that workloads want and that could not be created: kind AuditSection."""

from __future__ import annotations

from kschedctl.reports.not_created import NotCreated
from kschedctl.reports.section import Section


class CreationSection(Section, frozen=True, kw_only=True, tag="creation"):
    """``workloads``: those that lack pods now, each with the API server's reasons."""

    workloads: tuple[NotCreated, ...] = ()
