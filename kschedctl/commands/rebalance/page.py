"""The page of a Rebalancing: evictions in order, what stops them, and whether they loop."""

from __future__ import annotations

from kschedctl.commands.rebalance.report import Rebalancing, RebalancingStep
from kschedctl.render.page import Command, Marked, Page, Style, limit_rows_by_style, paragraph, section
from kschedctl.render.sections import build_caveats, build_interruption_line, build_pools_before_and_after
from kschedctl.render.tables import build_struct_table
from kschedctl.reports.columns import Tone
from kschedctl.text.counts import join_words

COMMANDS_SHOWN = 25
"""The number of commands that are shown unless the style is wide."""


def build_page(report: Rebalancing, style: Style) -> Page:
    """Build the page: the verdict, caveats, evictions in order, held-back pods and the pools before and after."""
    verdict, details = report.build_headline_parts()
    shown, note = limit_rows_by_style(report.commands, style, COMMANDS_SHOWN)
    commands = (*map(Command, shown), *([paragraph(note)] if note else ()))
    return (
        *build_interruption_line(report.interrupted, "the rounds replayed so far"),
        paragraph(Marked(verdict, _choose_verdict_tone(report)), details),
        paragraph(f"Policy: {report.policy} ({', '.join(report.plugins)})"),
        *_build_policy_warning(report),
        *(paragraph(Marked("The descheduler", Tone.WARNING), f"{harm}.") for harm in report.list_harms()),
        *build_caveats(report.not_replayed, report.ignored, report.extended, report.unknown),
        *build_struct_table(
            report.steps,
            style,
            {"target": _describe_target},
            numbered="step",
            title="Evictions, in this order",
            full=False,
        ),
        *build_struct_table(report.removed, style, title="Terminated pods to delete"),
        *(build_struct_table(report.rounds, style, title="Rounds") if len(report.rounds) > 1 else ()),
        *build_struct_table(report.placed, style, title="Pending pods that get a node after the evictions"),
        *build_struct_table(report.held, style, title="Not evicted", full=False),
        *build_pools_before_and_after(report.pools, style, report.fitting),
        *build_struct_table(report.kept, style, title="Pods that DefaultEvictor protects"),
        *(section("Commands that evict the pods of round 1", *commands) if report.commands else ()),
    )


def _build_policy_warning(report: Rebalancing) -> Page:
    """Build a warning about the parts of the policy that the descheduler does not read, if there are any."""
    if not report.policy_ignored:
        return ()
    explanation = f"does not read {join_words(report.policy_ignored)} in the policy."
    return (paragraph(Marked("The descheduler", Tone.WARNING), explanation),)


def _describe_target(step: RebalancingStep) -> Marked:
    """Return the target node. For a step that does not help, the text says so, and why."""
    if step.helps:
        return Marked(step.target, Tone.GOOD)
    if step.again:
        return Marked(f"{step.target} (evicted before: no gain)", Tone.WARNING)
    return Marked(f"{step.target} (its old node: no gain)" if step.stays else f"{step.target} (no gain)", Tone.WARNING)


def _choose_verdict_tone(report: Rebalancing) -> Tone:
    """Return the tone of the verdict.

    It is BAD if evictions loop or do harm, GOOD if the last round evicted nothing and the answer is certain, and
    otherwise WARNING.
    """
    if report.loops or report.unsafe:
        return Tone.BAD
    if report.undecided or report.interrupted or not report.quiet:
        return Tone.WARNING
    return Tone.GOOD
