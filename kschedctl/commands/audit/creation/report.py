"""The report of the section about pods that could not be created."""

from __future__ import annotations

from kschedctl.reports.not_created import NotCreated
from kschedctl.reports.section import Section


class CreationSection(Section, frozen=True, kw_only=True, tag="creation"):
    """The section about pods that workloads want and that could not be created."""

    workloads: tuple[NotCreated, ...] = ()
    """The workloads that lack pods now, each with the API server's reasons."""
