"""The `audit` command: whether the scheduler is healthy and the cluster is scheduled well.

`sections` lists the sections and runs them on an `audited_cluster`. Each section is a folder with its `section` (the
findings), `report` and analysis. `evidence` and `page` render them, `judging` decides the exit code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from kschedctl.api.copying import replace
from kschedctl.cluster import Cluster
from kschedctl.commands.audit.audited_cluster import AuditedCluster, Thresholds
from kschedctl.commands.audit.report import Audit
from kschedctl.commands.audit.sections import SECTIONS, run_sections
from kschedctl.errors import UsageError
from kschedctl.replay.parallel import NO_PROGRESS, Progress
from kschedctl.reports.section import Section
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.sources.metrics.measured import MetricsReading
from kschedctl.text.version import VERSION


def audit(
    cluster: Cluster,
    sections: Sequence[str] = (),
    *,
    now: str = "",
    earlier: Cluster | None = None,
    thresholds: Thresholds | None = None,
    measured: MetricsReading | None = None,
    progress: Progress = NO_PROGRESS,
) -> Audit:
    """Audit whether the scheduler is healthy and the cluster is scheduled well.

    `sections` selects sections by name; all are run if it is empty. `now` is the RFC 3339 time of the cluster and
    defaults to the time at which the cluster was read; without either, no section says anything about ages. `earlier`
    is the same cluster at an earlier time, `measured` holds kube-scheduler's own metrics, and `thresholds` decide what
    is a finding. A section is sound only if all data that it depends on was read. Raises UsageError for an unknown
    section.

    >>> import kschedctl
    >>> audit(kschedctl.Cluster.from_objects([]), ["pending"]).sections[0].name
    'pending'
    """
    for name in sections:
        if name not in SECTIONS:
            raise UsageError(f'no section "{name}"', where="--section", hint=f"there are: {', '.join(SECTIONS)}")
    read_at = cluster.provenance.read_at if cluster.provenance else ""
    audited = AuditedCluster(
        Scheduler(cluster),
        now or read_at,
        thresholds or Thresholds(),
        earlier=None if earlier is None else Scheduler(earlier),
        measured=measured,
        progress=progress,
    )
    return replace(run_sections(audited, sections), tool_version=VERSION)


SectionT = TypeVar("SectionT", bound=Section)


def with_tool_version(section: SectionT) -> SectionT:
    """Return the section with the version of this program."""
    return replace(section, tool_version=VERSION)
