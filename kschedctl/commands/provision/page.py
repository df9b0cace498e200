"""Terminal pages of the reports Provisioning and Disruption."""

from __future__ import annotations

from collections.abc import Sequence

from kschedctl.render.page import Marked, Page, Paragraph, Style, paragraph
from kschedctl.render.sections import build_still_pending_section
from kschedctl.render.tables import build_struct_table, build_table, number_columns
from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.karpenter import Disruption, DisruptionCommand, LaunchedClaim, Provisioning, shorten_error
from kschedctl.reports.unknown import UnknownKind, describe_unread
from kschedctl.text.counts import counted, first_of

TYPES_SHOWN = 3
CHOSEN = ("topology.kubernetes.io/zone", "karpenter.sh/capacity-type")
ONE_RUN = paragraph(
    Marked("One possible run: where Karpenter's order is chance, the first by name is taken.", Tone.FAINT)
)
POOL = Column("nodepool", keep=True)


def build_provisioning_page(report: Provisioning, style: Style) -> Page:
    """Build the page: new nodes first, then pods without a node and the reasons of each pool."""
    return (
        *_build_unknown(report.unknown),
        _build_headline(report.first_line(), Tone.GOOD if report.are_all_placed else Tone.BAD),
        *_build_seen_types(report.seen_types),
        *([paragraph(f"No pool takes part: {report.scheduler_error}")] if report.scheduler_error else []),
        *_build_node_classes(report),
        *_build_new_nodes(report.new_node_claims, style),
        *_build_existing_nodes(report, style),
        *build_still_pending_section(report.still_pending, report.rivals, report.enough, style),
        *_build_refused(report, style),
        *_build_pool_answers(report, style),
        *_build_relaxations(report, style),
        *([ONE_RUN] if report.new_node_claims else []),
    )


def build_disruption_page(report: Disruption, style: Style) -> Page:
    """Build the page: commands first, then what happens to each node."""
    commands = [(name, command) for name, method in report.methods.items() for command in method.commands]
    columns = (Column("by"), Column("what"), Column("nodes", keep=True), *number_columns("saves/h"), Column("instead"))

    def row(of_method: tuple[str, DisruptionCommand]) -> tuple[str, ...]:
        name, command = of_method
        instead = ", ".join(f"{claim.node_pool}: {_describe_types(claim)}" for claim in command.replacements)
        return name, command.decision, ", ".join(command.candidates), f"${command.savings:.4f}", instead

    title = "What each method finds; the first of them ends the round"
    return (
        *_build_unknown(report.unknown),
        _build_headline(report.first_line(), Tone.GOOD if commands else Tone.PLAIN),
        *build_table(commands, columns, row, style, title=title),
        *build_struct_table(report.fates, style, title="Each node alone, whatever budgets say", full=False),
        *([ONE_RUN] if commands else []),
    )


def _build_headline(line: tuple[str, ...], tone: Tone) -> Paragraph:
    """Build the first paragraph, its first part in this tone."""
    first, *more = line
    return paragraph(Marked(first, tone), *filter(None, more))


def _build_unknown(unknown: Sequence[UnknownKind]) -> Page:
    """Build the note on kinds that were not read."""
    return (paragraph(Marked("Not certain:", Tone.WARNING), describe_unread(unknown)),) if unknown else ()


def _build_seen_types(seen: int | None) -> Page:
    """Build the note that only the types of existing nodes are known."""
    if seen is None:
        return ()
    why = "others may fit, and no prices are known; --instance-types FILE gives them"
    return (paragraph(Marked("Known:", Tone.WARNING), f"{counted(seen, 'instance type')} of existing nodes; {why}"),)


def _build_node_classes(report: Provisioning) -> Page:
    """Build a paragraph for each fault of node classes, with the pools that have it."""
    by_why: dict[str, list[str]] = {}
    for pool, why in report.node_classes.items():
        by_why.setdefault(why, []).append(pool)
    return tuple(paragraph(f"{why} (NodePool {', '.join(pools)})") for why, pools in by_why.items())


def _build_new_nodes(claims: tuple[LaunchedClaim, ...], style: Style) -> Page:
    """Build the table of NodeClaims that would be launched."""
    columns = (POOL, *number_columns("pods"), Column("instance types"), Column("zone and capacity"))

    def row(claim: LaunchedClaim) -> tuple[str, ...]:
        values = {
            requirement.key: ", ".join(requirement.values)
            for requirement in claim.requirements
            if requirement.operator == "In"
        }
        where = "; ".join(values[key] for key in CHOSEN if key in values)
        return claim.node_pool, f"{len(claim.pods):,}", _describe_types(claim), where

    return build_table(claims, columns, row, style, title="New nodes")


def _describe_types(claim: LaunchedClaim) -> str:
    """Describe the cheapest instance types, with prices if known."""
    shown = [f"{name} (${price:.4f}/h)" if price else name for name, price in claim.instance_types[:TYPES_SHOWN]]
    more = len(claim.instance_types) - TYPES_SHOWN
    return ", ".join(shown) + (f" and {more:,} more" if more > 0 else "")


def _build_existing_nodes(report: Provisioning, style: Style) -> Page:
    """Build the table of existing nodes that take pods."""
    rows = [(node.node, f"{len(node.pods):,}", ", ".join(node.pods)) for node in report.existing_nodes]
    columns = (Column("node", keep=True), *number_columns("pods"), Column("which"))
    return build_table(rows, columns, lambda row: row, style, title="Need no new node, as Karpenter sees it")


def _build_refused(report: Provisioning, style: Style) -> Page:
    """Build the tables of pods without a new node, with the reason of each pool."""
    by_reasons: dict[tuple[str, ...], list[str]] = {}
    for pod, error in report.pod_errors.items():
        by_reasons.setdefault(tuple(part if style.wide else shorten_error(part) for part in error.parts), []).append(
            pod
        )
    for event in report.rejected:
        by_reasons.setdefault((event.message,), []).append(event.name)
    pools = report.templates
    rows = [
        (first_of(pods), pools[at] if len(parts) == len(pools) else "", why)
        for parts, pods in by_reasons.items()
        for at, why in enumerate(parts)
    ]
    limits = list(report.limits_exceeded.items())
    columns = (Column("pods"), POOL, Column("why, in Karpenter's words"))
    return (
        *_build_missing(report, style),
        *build_table(rows, columns, lambda row: row, style, title="No new node", full=False),
        *build_table(limits, (POOL, Column("why")), lambda row: row, style, title="Launch nothing more"),
    )


def _build_missing(report: Provisioning, style: Style) -> Page:
    """Build the table of what each pool lacks; pods with equal answers share rows."""
    by_answers: dict[tuple[tuple[str, tuple[str, ...]], ...], list[str]] = {}
    for pod, pools in report.missing.items():
        by_answers.setdefault(tuple((pool, stops) for pool, stops in pools.items() if stops), []).append(pod)
    rows = [
        (first_of(pods), pool, stop)
        for answers, pods in by_answers.items()
        for pool, stops in answers
        for stop in stops
    ]
    columns = (Column("pods"), POOL, Column("what stops it"))
    return build_table(rows, columns, lambda row: row, style, title="What stops each NodePool", full=False)


def _build_pool_answers(report: Provisioning, style: Style) -> Page:
    """Build the table of each pool's answer to single pods; pods with equal answers share rows."""
    by_answers: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for pod, pools in report.per_pool.items():
        error = report.pod_errors.get(pod)
        if error and set(error.parts) == {answer.error for answer in pools.values()}:
            continue  # the table of refused pods says the same
        answers = tuple((pool, answer.describe(in_full=style.wide)) for pool, answer in pools.items())
        by_answers.setdefault(answers, []).append(pod)
    rows = [(first_of(pods), pool, text) for answers, pods in by_answers.items() for pool, text in answers]
    columns = (Column("pods"), POOL, Column("answer"))
    return build_table(rows, columns, lambda row: row, style, title="Each NodePool alone, for a pod alone")


def _build_relaxations(report: Provisioning, style: Style) -> Page:
    """Build the list or the count of preferences that pods gave up."""
    dropped = report.relaxations
    if style.wide:
        return build_struct_table(dropped, style, title="Wishes given up, in order")
    pods = counted(len({wish.pod for wish in dropped}), "pod")
    wishes = counted(len(dropped), "wish", "wishes")
    return (paragraph(f"{pods} gave up {wishes} to find a place; -o wide lists them."),) if dropped else ()
