"""``latency``: how long does kube-scheduler take, and what holds it up?

The analysis is the audit's section, ``kschedctl/commands/audit/latency``.
"""

from __future__ import annotations

from collections.abc import Sequence

from kschedctl.commands.audit import with_tool_version
from kschedctl.commands.audit.latency.report import LatencySection
from kschedctl.commands.audit.latency.section import measured_section
from kschedctl.commands.audit.latency.verdicts import LatencyLimits
from kschedctl.errors import UsageError
from kschedctl.sources.metrics.measured import Measured
from kschedctl.sources.metrics.read import measured_since_start, told
from kschedctl.sources.metrics.samples import between
from kschedctl.sources.metrics.text import read_text


def latency(
    metrics: Measured | Sequence[str], limits: LatencyLimits | None = None, *, seconds: float | None = None
) -> LatencySection:
    """How long does kube-scheduler take, and what holds it up?

    ``metrics``: the text of its /metrics, for the time since it started, or two of them, the older first, for that
    between, which are so many ``seconds`` apart; or what was measured already. ``limits``: from where on a figure is a
    finding. Raises UsageError, InputError for a text that is none of kube-scheduler.

    >>> latency(['scheduler_pending_pods{queue="active"} 0']).findings
    ()
    """
    measured = metrics if isinstance(metrics, Measured) else _measured(metrics, seconds)
    return with_tool_version(measured_section(measured, limits or LatencyLimits()))


def _measured(texts: Sequence[str], seconds: float | None) -> Measured:
    if isinstance(texts, str) or len(texts) not in (1, 2):
        raise UsageError("one text of metrics, or an older and a newer one, in a list")
    expositions = [read_text(text.encode(), f"text {number}") for number, text in enumerate(texts, 1)]
    if len(expositions) == 1:
        return measured_since_start(expositions[0])
    return told(between(expositions[0], expositions[1], seconds))
