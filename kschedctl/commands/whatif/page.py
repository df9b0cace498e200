"""The page of a WhatIf: what each step did, which pods end up elsewhere, and how full zones are before and after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kschedctl.commands.whatif.report import (
    CHANGES,
    DomainBalance,
    MessageChange,
    PodChange,
    PodsElsewhere,
    Replacement,
    WhatIf,
)
from kschedctl.render.page import Cell, Marked, Page, Paragraph, Stack, Style, Table, count, names, paragraph, section
from kschedctl.render.plots.plot import MAX_PLACES, Plot, build_bar_plot
from kschedctl.render.sections import (
    PODS,
    build_caveats,
    build_interruption,
    build_runs_section,
    build_unplaced_section,
    build_zone_plot,
)
from kschedctl.render.tables import Cells, build_struct_table
from kschedctl.render.unseen_pods import build_not_created_section
from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.placements import PodCount, UnplacedPods

if TYPE_CHECKING:
    from kschedctl.render.html.sections import HtmlSection

CHANGES_SHOWN = 30
TOGETHER = " together with "
TONES = {"NewlyPending": Tone.BAD, "Gone": Tone.WARNING, "NewlyScheduled": Tone.GOOD}


def build_page(report: WhatIf, style: Style) -> Page:
    """All sections that have something to say."""
    return (
        *build_interruption(report.interrupted),
        *_build_summary(report),
        *build_caveats(report.not_replayed, report.ignored, report.extended, report.unknown, report.search_start),
        *build_struct_table(report.steps, style, limit=None, numbered="step", title="Steps", full=False),
        *(build_not_created_section(report.not_created, style) if report.not_created else ()),
        *_list_changes(report.changes, style),
        *_messages(report.messages, style),
        *_replacement(report.replacement, style),
        *_balance(report.balance, report.compared),
        *build_runs_section(report.runs, report.over_runs, CHANGES),
    )


def _build_summary(report: WhatIf) -> Iterator[Paragraph]:
    verdict, *sentences = report.first_line()
    fine = Tone.WARNING if report.undecided else Tone.GOOD
    newly_pending = any(change.change == "NewlyPending" for change in report.changes)
    yield paragraph(Marked(verdict, Tone.BAD if newly_pending or report.not_created else fine), *sentences)
    yield paragraph(f"{count(report.pending[0], 'pod')} pending before, {report.pending[1]:,} after")
    if report.compared:
        before, after = report.compared
        yield paragraph(f"before: under {before}; after: under {after}")


def _list_changes(changes: Sequence[PodChange], style: Style) -> Page:
    if not changes:
        return ()
    order = list(CHANGES)
    first = sorted(changes, key=lambda change: order.index(change.change))
    cells: Cells[PodChange] = {"change": _mark_change, "because": _because}
    table = build_struct_table(first, style, cells, title="Pods", limit=CHANGES_SHOWN, full=False)
    return (*_waiting(changes, style), *table, *_moves_plot(changes))


def _mark_change(change: PodChange) -> Marked:
    return Marked(CHANGES[change.change], TONES.get(change.change, Tone.PLAIN))


def _messages(messages: Sequence[MessageChange], style: Style) -> Page:
    """What is said in other words of pods that wait all the same."""
    return build_struct_table(
        messages, style, {"before": _before}, title="Messages of pods that wait", limit=CHANGES_SHOWN
    )


def _before(message: MessageChange) -> Stack:
    """Why a pod waited before, and which pods did."""
    because = (f"because of {TOGETHER.join(message.because)}",) if message.because else ()
    return Stack((message.before, *because, Marked(names(message.pods), Tone.FAINT)))


def _because(changed: PodChange | PodsElsewhere) -> str:
    return TOGETHER.join(changed.because)


def _replacement(replacement: Replacement | None, style: Style) -> Page:
    """The running pods for which other nodes are the best, most first."""
    if replacement is None:
        return ()
    number = sum(len(group.pods) for group in replacement.elsewhere)
    some = f", some of all {replacement.running:,}," if replacement.asked < replacement.running else ""
    pods = f"{number:,} of {count(replacement.asked, 'pod')}{some}"
    summary = paragraph(f"for {pods} other nodes would be best, if recreated")
    doubtful = (paragraph(f"nothing is known of {replacement.failed:,}: a plugin fails"),) if replacement.failed else ()
    groups = sorted(replacement.elsewhere, key=lambda group: -len(group.pods))
    tables = build_struct_table(groups, style, {"because": _because}, limit=CHANGES_SHOWN)
    return section("Running pods", summary, *doubtful, *_rescored(replacement), *tables)


def _rescored(replacement: Replacement) -> Iterator[Paragraph]:
    """For how many pods the best nodes stay the best, by why."""
    numbers = Counter[tuple[str, ...]]()
    for group in replacement.rescored:
        numbers[group.because] += len(group.pods)
    for because, number in numbers.most_common():
        why = f", because of {TOGETHER.join(because)}" if because else ""
        yield paragraph(f"for {count(number, 'pod')} nodes score otherwise, and the best stay the best{why}")


def _waiting(changes: Sequence[PodChange], style: Style) -> Page:
    """The pods that wait now and did not before, by workload and reason."""
    groups: dict[tuple[str, str], list[str]] = {}
    for change in changes:
        if change.change == "NewlyPending":
            groups.setdefault((change.workload, change.message), []).append(change.pod)
    return build_unplaced_section(
        [UnplacedPods(w, CHANGES["NewlyPending"], why, tuple(pods)) for (w, why), pods in groups.items()], style
    )


def _balance(balance: Sequence[DomainBalance], compared: Sequence[str]) -> Page:
    if not balance:
        return ()
    resources = list(balance[0].requested)
    columns = [Column("zone", keep=True), Column("nodes", right=True), Column("pods", right=True)]
    columns += [Column(f"{resource} requested", right=True) for resource in resources]
    rows = tuple(_domain(domain) for domain in balance)
    pods = [PodCount(domain.domain, *domain.pods) for domain in balance]
    title = "Zones, before and after" if not compared else "Zones"
    return section(title, Table(tuple(columns), rows), *build_zone_plot(pods))


def _domain(domain: DomainBalance) -> tuple[Cell, ...]:
    shares = (_pair(*(f"{share:.1f} %" for share in pair)) for pair in domain.requested.values())
    counts = (_pair(*(f"{number:,}" for number in pair)) for pair in (domain.nodes, domain.pods))
    return (domain.domain, *counts, *shares)


def _pair(before: str, after: str) -> str:
    return before if before == after else f"{before} → {after}"


def _moves_plot(changes: Sequence[PodChange]) -> tuple[Plot, ...]:
    """The nodes that most pods leave or come to."""
    left = Counter(change.before for change in changes if change.before)
    come = Counter(change.after for change in changes if change.after)
    nodes = sorted({*left, *come}, key=lambda node: (-left[node] - come[node], node))
    amounts = {node: {"leave": left[node], "come": come[node]} for node in nodes[:MAX_PLACES]}
    return build_bar_plot("Pods that leave nodes and come to them", ("node", PODS), amounts, len(nodes))


def build_widgets(report: WhatIf) -> list[HtmlSection]:
    """Build the HTML matrices of newly pending pods, for which `kschedctl explain` cannot be run."""
    from kschedctl.commands.explain.html_widgets import build_matrices_of_some  # noqa: PLC0415 - only for HTML

    pods = sum(change.change == "NewlyPending" for change in report.changes)
    return build_matrices_of_some(
        report.explained, pods, title="Nodes and plugins, for each newly pending pod", elsewhere=""
    )
