"""The page of a Rebalancing: evictions in order, what stops them, and whether they loop."""

from __future__ import annotations

from kschedctl.commands.rebalance.report import Rebalancing, RebalancingStep
from kschedctl.render.page import Command, Marked, Page, Style, limit_rows_by_style, paragraph, section
from kschedctl.render.sections import build_caveats, build_interruption_line, build_pools_before_and_after
from kschedctl.render.tables import build_struct_table
from kschedctl.reports.columns import Tone


def build_page(report: Rebalancing, style: Style) -> Page:
    """All sections that have something to say."""
    verdict, rest = report.first_line()
    shown, note = limit_rows_by_style(report.commands, style, 25)
    commands = (*map(Command, shown), *([paragraph(note)] if note else ()))
    return (
        *build_interruption_line(report.interrupted, "the rounds so far"),
        paragraph(Marked(verdict, _choose_tone(report)), rest),
        paragraph(f"Policy: {report.policy} ({', '.join(report.plugins)})"),
        *_describe_ignored(report),
        *build_caveats(report.not_replayed, report.ignored, report.extended, report.unknown),
        *build_struct_table(
            report.steps,
            style,
            {"target": _mark_target},
            numbered="step",
            title="Evictions, in this order",
            full=False,
        ),
        *build_struct_table(report.removed, style, title="Pods that have ended, and are deleted"),
        *(build_struct_table(report.rounds, style, title="Rounds") if len(report.rounds) > 1 else ()),
        *build_struct_table(report.placed, style, title="Pods that waited, and fit then"),
        *build_struct_table(report.held, style, title="Not evicted", full=False),
        *build_pools_before_and_after(report.pools, style),
        *build_struct_table(report.kept, style, title="Pods that DefaultEvictor keeps"),
        *(section("Commands of the first round", *commands) if report.commands else ()),
    )


def _describe_ignored(report: Rebalancing) -> Page:
    if not report.policy_ignored:
        return ()
    sentence = f"{', '.join(report.policy_ignored)} of the policy, which the descheduler does not read"
    return (paragraph(Marked("ignored:", Tone.WARNING), sentence),)


def _mark_target(step: RebalancingStep) -> Marked:
    """Mark the target, with a check mark if the step helps."""
    if step.helps:
        return Marked(f"✓ {step.target}", Tone.GOOD)
    return Marked(f"✗ {step.target}", Tone.WARNING)


def _choose_tone(report: Rebalancing) -> Tone:
    if report.loops or report.unsafe:
        return Tone.BAD
    return Tone.WARNING if report.undecided or report.interrupted or not report.quiet else Tone.GOOD
