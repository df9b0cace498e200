"""The first lines of an explanation: the verdict and its cause, then the figures on the closest nodes."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from kschedctl.commands.explain.report import Cause, Explanation
from kschedctl.render.page import Block, Bullets, Marked, Page, Paragraph, Style, paragraph, verdict_words
from kschedctl.render.sections import VERDICTS
from kschedctl.reports.columns import Tone
from kschedctl.reports.not_created import NOT_CREATED
from kschedctl.reports.unknown import VERDICT, doubt, reasons, unless

MOST_LINES = 2
"""An answer that takes more is split into its cause and the figures behind it."""


def answer_lines(report: Explanation, style: Style) -> Iterator[Block]:
    """The answer, with what it leans on that is not known."""
    if report.verdict == NOT_CREATED:
        yield from _once_created(report)
        return
    pod = Marked(report.pod, Tone.STRONG)
    of_verdict = [unknown for unknown in report.unknown if unknown.affects == VERDICT]
    if of_verdict:
        yield paragraph(
            pod, Marked(f"{verdict_words(report.verdict)}, {unless(of_verdict)}:", Tone.WARNING), reasons(of_verdict)
        )
        yield from _split("", (), report, style)
    else:
        preempting = report.preemption.preempting if report.preemption is not None else ""
        verdict = f"{verdict_words(report.verdict)}{preempting}" + (":" if report.headline else "")
        tone = VERDICTS.get(report.verdict, Tone.WARNING)
        yield from _split(f"{report.pod} {verdict} ", (pod, Marked(verdict, tone)), report, style)


def stand_in_line(report: Explanation) -> Page:
    """What the pod stands for, where it is none of the cluster's."""
    return (paragraph(Marked(report.stands_for, Tone.FAINT)),) if report.stands_for else ()


def message_line(report: Explanation) -> Page:
    """kube-scheduler's own words, where they are others."""
    if report.verdict == "Unschedulable" and report.message not in (None, report.headline):
        return (paragraph(Marked("kube-scheduler:", Tone.FAINT), report.message or ""),)
    return ()


def preemption_line(report: Explanation) -> Page:
    """Return the line that says why preemption cannot help, if the priorities of the pods are the reason."""
    priorities = report.preemption.no_lower_priority if report.preemption else None
    if report.verdict != "Unschedulable" or priorities is None:
        return ()
    return (paragraph(Marked("priority:", Tone.FAINT), priorities.words),)


def _split(before: str, parts: tuple[Marked, ...], report: Explanation, style: Style) -> Iterator[Block]:
    """The headline in one paragraph; where that is long, the causes, and beneath them the closest nodes."""
    short = not style.answer_first and len(textwrap.wrap(before + report.headline, style.width)) <= MOST_LINES
    first = report.causes[0] if report.causes else None
    if short or first is None or not report.headline.startswith(first.conflict or first.reason):
        yield paragraph(*parts, report.headline)
        return
    nodes = len(report.node_order)
    refusals = [f"{cause.reason}{_in_brackets(cause, i, nodes)}" for i, cause in enumerate(report.causes)]
    evidence = [cause.evidence(nodes) for cause in report.causes]
    if first.conflict:
        evidence = [f"{reason}, {seen}" if seen else reason for reason, seen in zip(refusals, evidence, strict=True)]
    yield paragraph(*parts, first.conflict or "; ".join(refusals))
    if any(evidence):
        yield Bullets(tuple(filter(None, evidence)))


def _in_brackets(cause: Cause, index: int, nodes: int) -> str:
    """The nodes that it stands against; after the first cause it is known of which."""
    place = cause.place(nodes)
    shown = place.removesuffix(" eligible nodes") if index else place
    return f" ({shown})" if shown else ""


def _once_created(report: Explanation) -> Iterator[Paragraph]:
    """What scheduling would say of the pod that stands for those that are not there."""
    once = report.once_created
    if once is not None:
        said = f"{once.verdict}: {once.headline}{doubt(report.unknown)}"
        yield paragraph(Marked(report.pod, Tone.STRONG), Marked("once created:", Tone.WARNING), said)
