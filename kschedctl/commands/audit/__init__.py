"""``audit``: is the scheduler healthy, and is the cluster scheduled well?

``sections`` lists the sections and runs them on an ``audited_cluster``. Each section is a folder with its ``section``
(the findings), ``report`` and analysis. ``evidence`` and ``page`` show them, ``judging`` decides the exit code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from kschedctl.api.copying import replace
from kschedctl.cluster import Cluster
from kschedctl.commands.audit.audited_cluster import AuditedCluster, Thresholds
from kschedctl.commands.audit.report import Audit
from kschedctl.commands.audit.sections import SECTIONS
from kschedctl.commands.audit.sections import audit as sections_of
from kschedctl.errors import UsageError
from kschedctl.replay.parallel import NO_PROGRESS, Progress
from kschedctl.reports.section import Section
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.sources.metrics.measured import Measured
from kschedctl.text.version import VERSION


def audit(
    cluster: Cluster,
    sections: Sequence[str] = (),
    *,
    now: str = "",
    earlier: Cluster | None = None,
    thresholds: Thresholds | None = None,
    measured: Measured | None = None,
    progress: Progress = NO_PROGRESS,
) -> Audit:
    """Is the scheduler healthy, and is the cluster scheduled well? In ``sections``, all where none is named.

    ``now``: the RFC 3339 time of the cluster; when it was read, and where nobody knows that, no section claims anything
    about ages. ``earlier``: the same cluster before; ``measured``: kube-scheduler's own metrics; ``thresholds``: from
    where on something is a finding. A section is sound only if all that it depends on was read. Raises UsageError.

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
    return replace(sections_of(audited, sections), tool_version=VERSION)


OfKind = TypeVar("OfKind", bound=Section)


def signed(section: OfKind) -> OfKind:
    """With the version of the program that made it."""
    return replace(section, tool_version=VERSION)
