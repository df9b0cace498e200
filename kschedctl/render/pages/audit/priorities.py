"""What an audit tells of priorities: the tiers, the first victims, who starves, and who serves users below others."""

from __future__ import annotations

from kschedctl.render.page import (
    Cell,
    Column,
    Marked,
    Page,
    Stack,
    Style,
    Table,
    Tone,
    first_rows,
    names,
    paragraph,
    section,
)
from kschedctl.render.pages.sections import ROWS_SHOWN, in_brief, rounded
from kschedctl.reports.audit.priorities import (
    EvictedWorkload,
    ExposedWorkload,
    PrioritiesSection,
    PriorityTier,
    StarvingPods,
)

SHOWN = ("cpu", "memory")


def priorities_blocks(report: PrioritiesSection, style: Style) -> Page:
    """The tiers first, the highest at the top; who starves is among what is found, with its figures."""
    return (
        *_tiers(report, style),
        *_victims(report, style),
        *(_starving(report, style) if style.wide else ()),
        *_preempted(report, style),
        *_exposed(report, style),
    )


def _tiers(report: PrioritiesSection, style: Style) -> Page:
    if not report.tiers:
        return ()
    resources: tuple[str, ...] = SHOWN
    if style.wide:
        more = (name for tier in report.tiers for name in tier.requests if name not in (*SHOWN, "pods"))
        resources = (*SHOWN, *dict.fromkeys(more))
    numbers = ("priority", "pods", "pending", "nodes", *resources, "serving")
    columns = (Column("tier", keep=True), *(Column(name, right=True) for name in numbers), Column("preempts"))
    note = "serving: pods behind a Service"
    rows = tuple(_tier(tier, resources) for tier in report.tiers)
    return (Table(columns, rows, note).without_empty_columns(),)


def _tier(tier: PriorityTier, resources: tuple[str, ...]) -> tuple[Cell, ...]:
    amounts = (rounded(name, tier.requests[name]) if name in tier.requests else "" for name in resources)
    name = Marked(tier.name or "no class", Tone.FAINT if tier.system else Tone.STRONG)
    counts = (f"{tier.priority:,}", f"{tier.pods:,}", f"{tier.pending:,}", f"{tier.nodes:,}")
    return (name, *counts, *amounts, f"{tier.user_facing:,}", "" if tier.preempts else "never")


def _victims(report: PrioritiesSection, style: Style) -> Page:
    grown = report.grown
    if grown is None:
        return ()
    placed = f"{grown.placed:,} of {grown.asked:,} more pods like {grown.like} ({grown.workload}) find a node"
    told = paragraph(placed + (f"; the others: {in_brief(grown.message, style)}" if grown.message else ""))
    title = f"If {grown.tier} grew"
    if not report.victims:
        return section(title, told, paragraph("nobody is evicted for them"))
    shown, note = first_rows(report.victims, style, ROWS_SHOWN)
    columns = (
        Column("evicted", keep=True),
        Column("tier", keep=True, beneath="tier"),
        Column("pods", right=True),
        Column("then"),
        Column("behind", beneath="behind"),
    )
    return section(
        title, told, Table(columns, tuple(_victim(each, style) for each in shown), note).without_empty_columns()
    )


def _victim(each: EvictedWorkload, style: Style) -> tuple[Cell | Stack, ...]:
    fates = {fate: sum(pod.fate == fate for pod in each.pods) for fate in ("Moved", "Pending", "Lost")}
    then = ", ".join(f"{number:,} {fate}" for fate, number in fates.items() if number)
    pods = Marked(names([pod.pod for pod in each.pods]), Tone.FAINT) if style.wide else ""
    return Stack((each.workload, pods)), each.tier, f"{len(each.pods):,}", then, ", ".join(each.services)


def _starving(report: PrioritiesSection, style: Style) -> Page:
    if not report.starving:
        return ()
    shown, note = first_rows(report.starving, style, ROWS_SHOWN)
    numbers = ("pods", "waits", "below run", "came", "above came")
    columns = (
        Column("workload", keep=True),
        Column("tier", keep=True, beneath="tier"),
        *(Column(name, right=True) for name in numbers),
    )
    explained = "came: started since they wait"
    table = Table(columns, tuple(map(_starved, shown)), f"{note}; {explained}" if note else explained)
    return section("Waiting too long", table)


def _starved(each: StarvingPods) -> tuple[Cell, ...]:
    counts = (f"{number:,}" for number in (each.lower_pods, each.lower_started, each.higher_started))
    return each.workload, each.tier, f"{len(each.pods):,}", each.age, *counts


def _preempted(report: PrioritiesSection, style: Style) -> Page:
    if not report.preempted:
        return ()
    shown, note = first_rows(report.preempted, style, ROWS_SHOWN // 2)
    columns = (Column("workload", keep=True), Column("times", right=True), Column("pods now", right=True))
    rows = tuple((each.workload, f"{each.times:,}", f"{each.pods:,}", each.last) for each in shown)
    return section("Preempted lately", Table((*columns, Column("last")), rows, note).without_empty_columns())


def _exposed(report: PrioritiesSection, style: Style) -> Page:
    if not report.exposed:
        return ()
    shown, note = first_rows(report.exposed, style, ROWS_SHOWN // 2)
    numbers = (Column("tier", keep=True, beneath="tier"), Column("pods", right=True), Column("behind"))
    columns = (
        Column("workload", keep=True),
        *numbers,
        Column("tiers above", beneath="below"),
        Column("their pods", right=True),
    )
    return section(
        "Behind Services, below others",
        Table((*columns, Column("budgets", beneath="budgets")), tuple(map(_facing, shown)), note),
    )


def _facing(each: ExposedWorkload) -> tuple[Cell, ...]:
    budgets = ", ".join(each.budgets) or Marked("none", Tone.WARNING)
    above = ", ".join(each.tiers_above)
    services = ", ".join(each.services)
    return each.workload, each.tier, f"{each.pods:,}", services, above, f"{each.pods_above:,}", budgets
