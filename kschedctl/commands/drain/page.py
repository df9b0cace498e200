"""The page of a drain."""

from __future__ import annotations

from kschedctl.commands.drain.report import NUMBER_DESCRIPTIONS, Drain
from kschedctl.render.page import Bullets, Cell, Command, Marked, Page, Style, paragraph, section
from kschedctl.render.sections import (
    build_added_nodes_title,
    build_caveats,
    build_data_warning,
    build_headroom_section,
    build_interruption_line,
    build_next_section,
    build_pending_left_out_line,
    build_pods_before_and_after,
    build_pods_section,
    build_preempted_section,
    build_remedy_title,
    build_runs_section,
    build_tried_orders_section,
    build_unplaced_section,
)
from kschedctl.render.tables import build_struct_table
from kschedctl.render.unseen_pods import build_not_created_section
from kschedctl.reports.columns import Tone
from kschedctl.reports.unknown import describe_doubt
from kschedctl.text.counts import agreeing, join_first_few

LOST_INDEXES = "Lost: their Job does not retry their index"
LOST = "Lost: no controller recreates them, and kubectl evicts them only with --force"
DELAYED = "Can be evicted only once replacements of other pods are ready"
LOST_VICTIMS = "Lost: no controller recreates them, and preemption evicts them"
MAX_OUTCOMES_IN_SENTENCE = 3
"""The number of outcomes up to which the first line is a sentence rather than a list."""
TERMINATING = "Already terminating: kubectl drain waits until these pods are gone"
NOMINATED = "Pending pods nominated to these nodes: they lose the room that preemption made for them"
STRANDED = "Pending pods that cannot run on any other node"
UNPLACED_WITHOUT_BUDGETS = "Would fit nowhere else even if the budgets allowed their eviction"
WITH_PENDING_PODS = "Next (simulate this drain together with the pending pods, which are scheduled first)"
WITH_NODE_FOR_WAITING_POD = "Next (find a node for the pod that uses up the budget)"
RETURNED = "Come back to the nodes, since they tolerate the cordon"


def build_page(report: Drain, style: Style) -> Page:
    """Build the page of a drain. Sections without content are left out."""
    return (
        *build_interruption_line(report.interrupted),
        *_build_verdict_lines(report),
        *build_caveats(report.not_replayed, report.ignored, report.extended, report.unknown, report.search_start),
        *build_data_warning(report.pinned_volumes),
        *_build_harm_lines(report),
        *_build_pod_sections(report, style),
        *(build_not_created_section(report.not_created, style) if report.not_created else ()),
        *build_struct_table(report.blocked, style, title="Cannot be evicted"),
        *(paragraph(f"{text}.") for text in report.describe_blocked_kubectl_drain()),
        *build_unplaced_section(report.unplaced_without_budgets, style, title=UNPLACED_WITHOUT_BUDGETS),
        *(section("To drain it anyway", Bullets(report.budget_fixes)) if report.budget_fixes else ()),
        *build_struct_table(report.delayed, style, title=DELAYED),
        *build_unplaced_section(report.unplaced, style),
        *build_preempted_section(report.evicted, style, report.chain),
        *build_struct_table(report.displaced_workloads, style, title="Workloads of Kueue"),
        *build_struct_table(report.list_pods_moved_off_nodes(), style, title="Pods that move", full=False),
        *build_headroom_section(report.headroom, title="Requests on the remaining nodes"),
        *build_pods_before_and_after(report.zones, report.nodes_changed),
        *build_runs_section(report.runs, report.over_runs, NUMBER_DESCRIPTIONS),
        *build_tried_orders_section(report.runs, report.unplaced_over_runs, report.in_no_order),
        *(section("Command", *map(Command, report.commands)) if report.commands else ()),
        *build_next_section(style, _choose_next_title(report)),
    )


def _choose_next_title(report: Drain) -> str:
    """Return the title of the section with the command to go on with."""
    if report.drain_first:
        are = agreeing(len(report.drain_first), "is", "are")
        return build_remedy_title(f"if {join_first_few(report.drain_first)} {are} drained first")
    if report.unfit_in_budgets:
        return WITH_NODE_FOR_WAITING_POD
    return build_added_nodes_title(report.remedy) if report.remedy else WITH_PENDING_PODS


def _build_harm_lines(report: Drain) -> Page:
    """Build the lines about a better order of nodes, and about the harm that this drain does."""
    return (
        *(paragraph(Marked("Another order:", Tone.WARNING), f"{text}.") for text in report.describe_safe_order()),
        *(paragraph(Marked("The drain", Tone.WARNING), f"{harm}.") for harm in report.list_harms()),
        *build_pending_left_out_line(report.pending_left_out),
        *(paragraph(Marked(f"{text}.", Tone.WARNING)) for text in report.describe_other_unready_nodes()),
        *(
            paragraph(Marked(f"{text[:1].upper()}{text[1:]}.", Tone.WARNING))
            for text in report.describe_violated_budgets()
        ),
        *(paragraph(Marked("Lost:", Tone.WARNING), f"{job.describe()}.") for job in report.failed_jobs),
    )


def _build_pod_sections(report: Drain, style: Style) -> Page:
    """Build a section for each group of pods that are lost, already terminating, left Pending, or come back."""
    return (
        *build_pods_section(LOST_INDEXES, report.pods_of_failed_indexes, style),
        *build_pods_section(LOST, report.without_controller, style),
        *build_pods_section(LOST_VICTIMS, report.bare_victims, style),
        *build_pods_section(TERMINATING, report.terminating, style),
        *build_pods_section(NOMINATED, report.nominated, style),
        *build_pods_section(STRANDED, report.stranded, style),
        *build_pods_section(RETURNED, report.returned, style),
    )


def _build_verdict_lines(report: Drain) -> Page:
    """Build the lines with the nodes, the verdict, and the number of pods with each outcome.

    More than MAX_OUTCOMES_IN_SENTENCE outcomes become a list, unless some of the nodes are down.
    """
    nodes, verdict, *sentence = report.build_headline_parts()
    if report.safe:
        tone = Tone.WARNING if report.undecided else Tone.GOOD
    elif report.interrupted and not report.blocked:
        tone = Tone.WARNING  # the drain might have ended well
    else:
        tone = Tone.BAD
    first_words: tuple[Cell, ...] = (Marked(nodes, Tone.STRONG), Marked(verdict, tone))
    outcomes = report.list_outcomes_after_verdict()
    if report.down_nodes or len(outcomes) <= MAX_OUTCOMES_IN_SENTENCE:
        return (paragraph(*first_words, *sentence),)
    doubt = describe_doubt(report.unknown).strip()
    if report.verdict_names_harm:
        first_words = (Marked(nodes, Tone.STRONG), Marked(f"{verdict.removesuffix(';')}.", tone), "Other outcomes:")
    return (paragraph(*first_words), Bullets(tuple(outcomes)), *((paragraph(doubt),) if doubt else ()))
