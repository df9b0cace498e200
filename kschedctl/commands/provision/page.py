"""The pages of the reports Provisioning and Disruption."""

from __future__ import annotations

from collections.abc import Sequence

from kschedctl.render.page import Marked, Page, Paragraph, Style, paragraph
from kschedctl.render.sections import build_still_pending_section
from kschedctl.render.tables import build_struct_table, build_table, number_columns
from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.karpenter import (
    ClaimOfferings,
    Disruption,
    DisruptionCommand,
    LaunchedClaim,
    NodeFate,
    Provisioning,
    describe_exhausted_budgets,
    shorten_error,
)
from kschedctl.reports.unknown import UnknownKind, describe_unread_kinds
from kschedctl.text.counts import agreeing, counted, first_few, first_of, format_price

TYPES_SHOWN = 3
ONE_RUN = paragraph(
    Marked("This is one possible run: where Karpenter's order is random, the replay goes by name.", Tone.FAINT)
)
POOL = Column("nodepool", keep=True)


def build_provisioning_page(report: Provisioning, style: Style) -> Page:
    """Build the page: the summary and the new nodes first, then pods without a node and each NodePool's reasons."""
    return (
        *_build_unread_note(report.unknown),
        _build_headline(report.build_headline_parts(), Tone.GOOD if report.are_all_placed else Tone.BAD),
        *_build_note_on_existing_types(report.seen_types),
        *([paragraph(f"No pool can be used: {report.scheduler_error}")] if report.scheduler_error else []),
        *_build_node_class_fault_lines(report),
        *_build_new_nodes_table(report, style),
        *_build_existing_nodes_table(report, style),
        *build_still_pending_section(report.still_pending, report.rivals, report.enough, style),
        *_build_rejected_pods_tables(report, style),
        *_build_pool_answers_table(report, style),
        *_build_relaxations_section(report, style),
        *([ONE_RUN] if report.new_node_claims else []),
    )


def build_disruption_page(report: Disruption, style: Style) -> Page:
    """Build the page: Karpenter's commands first, then what it would do with each node on its own."""
    # The commands of each disruption method, such as Emptiness
    commands = [(name, command) for name, method in report.methods.items() for command in method.commands]
    columns = (
        Column("by"),
        Column("what"),
        Column("nodes", keep=True),
        *number_columns("saves/h"),
        Column("instead"),
        Column("loses"),
    )

    def build_row(named_command: tuple[str, DisruptionCommand]) -> tuple[str, ...]:
        """Return the cells for a command."""
        name, command = named_command
        replacements = ", ".join(
            f"{claim.node_pool}: {_describe_instance_types(claim)}" for claim in command.replacements
        )
        nodes, savings = ", ".join(command.candidates), format_price(command.savings)
        return name, command.decision, nodes, savings, replacements, first_few(report.list_lost_pods(command))

    def describe_cause(decision: NodeFate) -> str:
        """Return the cause of a decision about a node, or the exhausted disruption budgets that keep the node."""
        pool = report.budget_blocked.get(decision.node)
        return describe_exhausted_budgets(pool) if pool and not decision.cause else decision.cause

    title = "What each method finds; the first of them ends the round"
    return (
        *_build_unread_note(report.unknown),
        _build_headline(report.build_headline_parts(), Tone.GOOD if commands else Tone.PLAIN),
        *build_table(commands, columns, build_row, style, title=title),
        *build_struct_table(
            report.fates,
            style,
            {"cause": describe_cause},
            title="Each node on its own, regardless of budgets",
            full=False,
        ),
        *([ONE_RUN] if commands else []),
    )


def _build_headline(line: tuple[str, ...], tone: Tone) -> Paragraph:
    """Build the first paragraph from the parts of the first line. Its first part has the tone."""
    first, *details = line
    return paragraph(Marked(first, tone), *filter(None, details))


def _build_unread_note(unknown: Sequence[UnknownKind]) -> Page:
    """Build a note about kinds that were not read, or return () if all were read."""
    return (paragraph(Marked("Not certain:", Tone.WARNING), describe_unread_kinds(unknown)),) if unknown else ()


def _build_note_on_existing_types(type_count: int | None) -> Page:
    """Build a note that only the instance types of existing nodes are known, without prices.

    `type_count` is the number of these types. It is None if instance types were given, and then there is no note.
    """
    if type_count is None:
        return ()
    types = agreeing(type_count, "instance type", f"{type_count:,} instance types")
    if type_count:
        are = agreeing(type_count, "is", "are")
        known, advice = f"Only the {types} of existing nodes {are} known, without prices.", "Specify others and prices"
    else:
        known, advice = "No instance type is known.", "Specify instance types and prices"
    return (paragraph(Marked(known, Tone.WARNING), f"{advice} with --instance-types FILE"),)


def _build_node_class_fault_lines(report: Provisioning) -> Page:
    """Build a paragraph for each distinct fault of node classes, with the NodePools that have the fault."""
    return tuple(paragraph(fault) for fault in report.iter_node_class_faults())


def _build_new_nodes_table(report: Provisioning, style: Style) -> Page:
    """Build a table of the NodeClaims that would be launched."""
    columns = (POOL, *number_columns("pods"), Column("instance types"), Column("zone; capacity type"))

    def build_row(claim_with_offerings: tuple[LaunchedClaim, ClaimOfferings]) -> tuple[str, ...]:
        """Return the cells for a NodeClaim."""
        claim, offerings = claim_with_offerings
        places = filter(None, (", ".join(offerings.zones), ", ".join(offerings.capacity_types)))
        return claim.node_pool, f"{len(claim.pods):,}", _describe_instance_types(claim), "; ".join(places)

    rows = list(zip(report.new_node_claims, report.claim_offerings, strict=True))
    return build_table(rows, columns, build_row, style, title="New nodes")


def _describe_instance_types(claim: LaunchedClaim) -> str:
    """Return the TYPES_SHOWN cheapest instance types as text, with prices if known, and the number of further types."""
    shown = [
        f"{name} ({format_price(price)}/h)" if price else name for name, price in claim.instance_types[:TYPES_SHOWN]
    ]
    hidden_count = len(claim.instance_types) - TYPES_SHOWN
    return ", ".join(shown) + (f" and {hidden_count:,} more" if hidden_count > 0 else "")


def _build_existing_nodes_table(report: Provisioning, style: Style) -> Page:
    """Build a table of the existing nodes on which Karpenter expects pending pods to fit."""
    rows = [(node.node, f"{len(node.pods):,}", ", ".join(node.pods)) for node in report.existing_nodes]
    columns = (Column("node", keep=True), *number_columns("pods"), Column("names"))
    return build_table(rows, columns, lambda row: row, style, title="Pods that fit on existing nodes, says Karpenter")


def _build_rejected_pods_tables(report: Provisioning, style: Style) -> Page:
    """Build tables of the obstacles in each NodePool, of pods without a new node, and of NodePools at their limits.

    Pods with the same reasons share rows. Unless the output is wide, the reasons are shortened.
    """
    pods_by_reasons: dict[tuple[str, ...], list[str]] = {}
    for pod, error in report.pod_errors.items():
        reasons = error.parts if style.wide else [shorten_error(part) for part in error.parts]
        pods_by_reasons.setdefault(tuple(reasons), []).append(pod)
    for event in report.rejected:
        pods_by_reasons.setdefault((event.message,), []).append(event.name)

    rows: list[tuple[str, str, str]] = []
    for reasons, pods in pods_by_reasons.items():
        has_reason_per_pool = len(reasons) == len(report.templates)
        pools = report.templates if has_reason_per_pool else [""] * len(reasons)
        rows += [(first_of(pods), pool, reason) for pool, reason in zip(pools, reasons, strict=True)]
    limits = list(report.limits_exceeded.items())
    columns = (Column("pods"), POOL, Column("reason, in Karpenter's words"))
    return (
        *_build_pool_obstacles_table(report, style),
        *build_table(rows, columns, lambda row: row, style, title="Pods without a new node", full=False),
        *build_table(
            limits, (POOL, Column("reason")), lambda row: row, style, title="NodePools that launch no more nodes"
        ),
    )


def _build_pool_obstacles_table(report: Provisioning, style: Style) -> Page:
    """Build a table of what stops each NodePool from launching a node. Pods with equal obstacles share rows."""
    pods_by_obstacles: dict[tuple[tuple[str, tuple[str, ...]], ...], list[str]] = {}
    for pod, obstacles_by_pool in report.missing.items():
        stopped_pools = tuple((pool, obstacles) for pool, obstacles in obstacles_by_pool.items() if obstacles)
        pods_by_obstacles.setdefault(stopped_pools, []).append(pod)
    rows: list[tuple[str, str, str]] = []
    for stopped_pools, pods in pods_by_obstacles.items():
        for pool, obstacles in stopped_pools:
            rows += [(first_of(pods), pool, obstacle) for obstacle in obstacles]
    columns = (Column("pods"), POOL, Column("what stops it"))
    return build_table(rows, columns, lambda row: row, style, title="What stops each NodePool", full=False)


def _build_pool_answers_table(report: Provisioning, style: Style) -> Page:
    """Build a table of each NodePool's answer to each pod, as if there were no other NodePools and pods.

    Pods with equal answers share rows. Pods whose answers are already in the table "Pods without a new node" are left
    out.
    """
    pods_by_answers: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for pod, pools in report.per_pool.items():
        error = report.pod_errors.get(pod)
        if error and set(error.parts) == {answer.error for answer in pools.values()}:
            continue  # the table "Pods without a new node" has these errors
        answers = tuple((pool, answer.describe(in_full=style.wide)) for pool, answer in pools.items())
        pods_by_answers.setdefault(answers, []).append(pod)
    rows = [(first_of(pods), pool, text) for answers, pods in pods_by_answers.items() for pool, text in answers]
    columns = (Column("pods"), POOL, Column("answer"))
    title = "Could each NodePool alone launch a node for the pod alone?"
    return build_table(rows, columns, lambda row: row, style, title=title)


def _build_relaxations_section(report: Provisioning, style: Style) -> Page:
    """Build a table of the preferences that pods gave up or, unless the output is wide, a sentence with their number.

    Return () if no pod gave up a preference.
    """
    relaxations = report.relaxations
    if style.wide:
        return build_struct_table(relaxations, style, title="Preferences that pods gave up, in order")
    if not relaxations:
        return ()
    pods = counted(len({relaxation.pod for relaxation in relaxations}), "pod")
    preferences = counted(len(relaxations), "preference")
    return (paragraph(f"{pods} gave up {preferences} to get a node; -o wide lists them."),)
