"""The pages of Explanation and Explanations: the answer, fixes, what to do next, and the rejected nodes."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from shlex import quote

from kschedctl.commands.explain.feasible_nodes_page import build_extenders, build_reservations, build_scores
from kschedctl.commands.explain.new_node_page import build_new_node
from kschedctl.commands.explain.pod_group_page import build_pod_group
from kschedctl.commands.explain.preemption_page import build_preemption
from kschedctl.commands.explain.report import (
    FINE,
    Advice,
    Cause,
    Elimination,
    Explanation,
    Explanations,
    NodeGroup,
    NodeReport,
    PreFilterReport,
    Refusal,
)
from kschedctl.render.fixes import build_best_fix, build_fixes_section
from kschedctl.render.not_created import iter_not_created_lines
from kschedctl.render.page import (
    Block,
    Bullets,
    Command,
    Marked,
    Page,
    Paragraph,
    Stack,
    Style,
    build_subsection,
    describe_verdict,
    paragraph,
    section,
)
from kschedctl.render.plots.plot import Plot, build_bar_plot, differ_in_total
from kschedctl.render.sections import (
    VERDICT_TONES,
    WIDE_WIDTH,
    build_caveats,
    build_sampling_lines,
    build_upstream_fault_lines,
    mark_verdict,
)
from kschedctl.render.tables import Row, build_table, number_columns, return_row
from kschedctl.render.waiting_elsewhere import build_held_back_lines, build_held_back_section
from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.not_created import NOT_CREATED
from kschedctl.reports.unknown import VERDICT, describe_doubt, describe_unread, describe_verdict_doubts

GROUPS_SHOWN = 10
COVERED_BY_FIXES = frozenset(
    [
        "AskForLess",
        "CompareLabels",
        "MakeRoom",
        "Uncordon",
        "Tolerate",
        "LabelDomains",
        "CorrectNodeName",
        "AddDomains",
        "HonorPolicy",
        "StartCloudController",
    ]
)
"""Kinds of advice that fixes state more exactly."""
UNRESOLVABLE = "UnschedulableAndUnresolvable"


def build_explanation_page(report: Explanation, style: Style) -> Page:
    """Build the page of one explanation from all sections that have something to say.

    Below the best fix stands the command for more fixes, unless the fix has a command of its own.
    """
    first, more = build_best_fix(report.remedies, style), _build_more_fixes(report, style)
    if first and not any(isinstance(block, Command) for block in first):
        first, more = (*first, *more), ()
    return (
        *build_held_back_lines(report.waiting_elsewhere),
        *iter_not_created_lines(report.not_created, style, report.fewer_pods),
        *build_answer(report, style),
        *build_stand_in_line(report),
        *build_caveats(report.not_replayed, report.ignored, report.extended, report.unknown),
        *build_sampling_lines(report.searched),
        *build_upstream_fault_lines(report.upstream_faults),
        *first,
        *build_message_line(report),
        *build_preemption_line(report),
        *build_pod_group(report.pod_group, style),
        *build_fixes_section(report.remedies, report.impossible, style),
        *(() if style.patches else more),
        *build_advice([advice for advice in report.advice if not _is_shown_elsewhere(advice, report)], report.pod),
        *_build_pre_filter_table(report),
        *_build_rejections(report, style),
        *build_extenders(report, style),
        *(() if _is_held_by_group(report) else build_scores(report, style)),
        *_build_permit_table(report),
        *build_reservations(report, style),
        *build_preemption(report.preemption, style),
        *build_new_node(report.new_node, style),
    )


def _is_shown_elsewhere(advice: Advice, report: Explanation) -> bool:
    """Return whether fixes or the section about preemption already say what the advice says."""
    preemption = report.preemption
    if advice.kind == "AwaitPreemption" and preemption and preemption.chosen and not preemption.terminating:
        return True
    return bool(report.remedies) and advice.kind in COVERED_BY_FIXES


def _build_more_fixes(report: Explanation, style: Style) -> Page:
    """Build the line with the command for more fixes."""
    if not report.remedies:
        return ()
    commands = style.commands.get(report.pod, ())
    return (paragraph("How to apply it, and more fixes:"), *map(Command, commands)) if commands else ()


def _is_held_by_group(report: Explanation) -> bool:
    """Return whether the pod fits by itself but is not placed with its group."""
    return report.pod_group is not None and report.verdict != "Schedulable" and bool(report.feasible)


def _build_permit_table(report: Explanation) -> Page:
    """Build the table of nodes where Permit keeps the pod from being bound at once."""
    rows = [
        (node, answer.plugin, f"{answer.code}: {', '.join(answer.reasons)}") for node, answer in report.permit.items()
    ]
    columns = (Column("node", keep=True), Column("plugin"), Column("Permit"))
    return build_table(rows, columns, return_row, limit=None, title="Not bound at once", full=False)


def _build_pre_filter_table(report: Explanation) -> Page:
    """Build the table of what rejected the pod, or left only some nodes, before any node was examined.

    Reasons in the headline are left out.
    """
    refusals = [
        (point, plugin, Marked(reason, Tone.BAD))
        for point, answers in (("PreEnqueue", report.queue), ("PreFilter", _keep_called(report.pre_filter)))
        for plugin, answer in answers.items()
        if answer.code not in ("Success", "Skip")
        for reason in answer.reasons
        if reason not in report.headline
    ]
    narrowed = [
        ("PreFilter", plugin, f"leaves only {_list_names(answer.node_names)}")
        for plugin, answer in report.pre_filter.items()
        if answer.node_names is not None
    ]
    rows: list[Row] = [*refusals, *narrowed]
    return build_table(
        rows, [*map(Column, ("point", "plugin", "answer"))], return_row, limit=None, title="Before any node"
    )


def _keep_called(answers: Mapping[str, PreFilterReport]) -> dict[str, PreFilterReport]:
    """Keep the plugins that the framework calls: it stops at the first one that rejects the pod for good."""
    codes = [answer.code for answer in answers.values()]
    end = codes.index(UNRESOLVABLE) + 1 if UNRESOLVABLE in codes else len(codes)
    return dict(islice(answers.items(), end))


def _list_names(names: tuple[str, ...]) -> str:
    """Return the first names and the number of further ones: ``w1, w2, w3 and 7 more``."""
    if len(names) <= 4:
        return ", ".join(names) or "no node"
    return f"{', '.join(names[:3])} and {len(names) - 3:,} more"


def _is_same_as_gates(report: Explanation) -> bool:
    """Return whether nodes are rejected only for the reasons that already gate the pod."""
    held_back = {reason for status in report.queue.values() for reason in status.reasons}
    return bool(report.eliminations) and all(e.reason in held_back for e in report.eliminations)


def _build_rejections(report: Explanation, style: Style) -> Page:
    """Build the sections about rejected nodes: by reason, and by group or one by one."""
    if _is_same_as_gates(report):
        return ()
    reasons = build_eliminations(report.eliminations, style, nearest=False)
    return (
        *reasons,
        *_plot_rejections(report, style),
        *(_build_node_table(report, style) if style.lists_all_nodes else _build_groups(report.groups, style)),
    )


def _plot_rejections(report: Explanation, style: Style) -> tuple[Plot, ...]:
    """Plot the number of rejected nodes by reason, if plots are wanted or the numbers differ much."""
    amounts: dict[str, dict[str, float]] = {}
    for elimination in report.eliminations:
        reason = (
            elimination.reason if elimination.reason not in amounts else f"{elimination.plugin}: {elimination.reason}"
        )
        amounts[reason] = {
            "for this alone": elimination.only,
            "for more than this": elimination.nodes - elimination.only,
        }
    if not (style.plots or differ_in_total(amounts)):
        return ()
    title = f"Nodes that are refused for {report.pod}"
    return build_bar_plot(title, ("reason", "nodes"), amounts, len(amounts), stacked=True)


def build_eliminations(eliminations: tuple[Elimination, ...], style: Style, nearest: bool = True) -> Page:
    """Build the table of reasons, with the closest node of each if there is room."""
    stack = style.narrow and nearest
    columns = [
        *number_columns("nodes", "sole blocker"),
        *([] if stack else [Column("plugin", keep=True)]),
        Column("reason"),
    ]
    columns += [Column("closest node")] if nearest and not stack else []
    rows = [_build_elimination_row(elimination, stack)[: len(columns)] for elimination in eliminations]
    return build_table(rows, columns, return_row, limit=None, title="Why nodes are refused", full=False)


def _build_elimination_row(elimination: Elimination, stacked: bool) -> Row:
    """Build the row of one reason."""
    only = Marked(f"{elimination.only:,}", Tone.STRONG if elimination.only else Tone.FAINT)
    nearest = f"{elimination.nearest.node}: {elimination.nearest.fact}" if elimination.nearest else ""
    if not stacked:
        return (f"{elimination.nodes:,}", only, elimination.plugin, elimination.reason, nearest)
    reason = f"{elimination.plugin}: {elimination.reason}" if elimination.plugin else elimination.reason
    return (
        f"{elimination.nodes:,}",
        only,
        Stack((reason, Marked(f"closest: {nearest}" if nearest else "", Tone.FAINT))),
    )


def _build_groups(groups: tuple[NodeGroup, ...], style: Style) -> Page:
    """Build the table of groups of nodes that are rejected for the same reasons."""
    columns = [*number_columns("nodes"), Column("pool, such as"), Column("refused by")]
    if style.width >= WIDE_WIDTH:
        columns = [*number_columns("nodes"), Column("pool"), Column("such as"), Column("refused by", keep=True)]
        columns += [Column("why"), Column("also refused by")]
    title, row = "Refused nodes, closest to fitting first", partial(_build_group_row, style=style)
    return build_table(groups, columns, row, style, title=title, limit=GROUPS_SHOWN, full=False, each_node=True)


def _build_group_row(group: NodeGroup, style: Style) -> Row:
    """Build the row of one group of nodes."""
    names = ", ".join(group.such_as) + (", …" if group.nodes > len(group.such_as) else "")
    by, why, also = _split_refusals(group.refusals, style)
    if not group.refusals[0].plugin:
        why = ""  # of nodes that were not looked at the answer says why
    fact = f"{group.such_as[0]}: {why}" if why and group.nodes > 1 else why
    pools = ", ".join(group.pools)
    if style.width >= WIDE_WIDTH:
        return (f"{group.nodes:,}", pools, names, by, fact, Marked(also, Tone.FAINT))
    where = Stack((Marked(pools, Tone.FAINT), names))
    return (f"{group.nodes:,}", where, _stack_facts(by, fact, also))


def _stack_facts(by: str, why: str, also: str) -> Stack:
    """Stack the figures, and the further reasons, below the plugin that rejects the nodes."""
    more = f"also {also}" if also else ""
    return Stack((by, Marked(f"{why} ({more})" if why and more else why or more, Tone.FAINT)))


def _split_refusals(refusals: Sequence[Refusal], style: Style) -> tuple[str, str, str]:
    """Return the reported plugin, its figures, and the other plugins; with ``-o wide`` also their figures."""
    first = refusals[0].plugin
    other_refusals = [refusal for refusal in refusals if refusal.plugin != first]
    facts = (r.fact or ("" if r.plugin else r.reason) for r in refusals if r.plugin == first)
    also = [f"{r.plugin}: {r.fact or r.reason}" if style.wide else r.plugin for r in other_refusals]
    return (
        first or "not looked at",
        "; ".join(filter(None, facts)),
        ("; " if style.wide else ", ").join(dict.fromkeys(also)),
    )


def _build_node_table(report: Explanation, style: Style) -> Page:
    """Build the table of all nodes: feasible ones, then the others, closest to fitting first."""
    nodes = [node for node in report.nodes if node.refusals or node.feasible]
    columns = [Column("node", keep=True), Column("zone/pool", keep=True), Column("refused by", keep=True)]
    columns += [Column("why"), Column("also refused by")]
    if style.narrow:
        columns = [Column("node", keep=True), Column("refused by")]
    return build_table(nodes, columns, partial(_build_node_row, style=style), limit=None, title="All nodes", full=False)


def _build_node_row(node: NodeReport, style: Style) -> Row:
    """Build the row of one node. In narrow tables, location and figures stand below the node's name."""
    where = "/".join(part for part in (node.zone, node.pool) if part)
    by, why, also = _split_refusals(node.refusals, style) if node.refusals else ("", "", "")
    fits = Marked("fits", Tone.GOOD)
    if not style.narrow:
        return (node.name, where, by or fits, why, Marked(also, Tone.FAINT))
    refused = _stack_facts(by, why, also) if by else Stack((fits,))
    return (Stack((node.name, Marked(f"  {where}" if where else "", Tone.FAINT))), refused)


# -- several pods -----------------------------------------------------------------------------------------------------


def build_explanations_page(report: Explanations, style: Style) -> Page:
    """Build the page of several explanations: the count, a row for each, and the pages of pods that are not fine."""
    fine, sentence = report.first_line()
    all_fine = all(explanation.verdict in FINE for explanation in report.explanations)
    tone = (Tone.WARNING if report.waiting_elsewhere else Tone.GOOD) if all_fine else Tone.BAD
    columns = [Column("pod", keep=True), Column("verdict", keep=True), Column("where"), Column("asked about")]
    table = build_table(report.explanations, columns, _build_pod_row, limit=None, full=False)
    full = [explanation for explanation in report.explanations if style.wide or explanation.verdict not in FINE]
    pages = [
        build_subsection(explanation.stands_for or explanation.pod, build_explanation_page(explanation, style))
        for explanation in full
    ]
    return (
        paragraph(Marked(fine, tone), sentence),
        *build_caveats(report.not_replayed, report.ignored, report.extended),
        *table,
        *(block for page in pages for block in page),
        *(build_held_back_section(report.waiting_elsewhere, style) if report.waiting_elsewhere else ()),
    )


def _build_pod_row(explanation: Explanation) -> Row:
    """Build the row of one pod."""
    verdict = mark_verdict(explanation.verdict)
    return (
        explanation.pod,
        verdict,
        explanation.headline if explanation.verdict in FINE else "",
        Marked(explanation.stands_for, Tone.FAINT),
    )


# -- what to do next ---------------------------------------------------------------------------------------------------


TEXTS = {
    "MakeRoom": "{text}; try it first in a whatif scenario",
    "CorrectProfile": "Name its configuration with --config, or correct the pod's spec.schedulerName",
}
"""Kind of advice -> how to say it to somebody with a command line, where this is more than its text."""
COMMANDS = {
    "CompareLabels": "kubectl get nodes --show-labels",
    "LookAtClaim": "kubectl get pvc -n {namespace}",
    "CheckDeviceDriver": "kubectl get resourceslices,daemonsets -A",
    "LookAtDevices": "kubectl get resourceclaims,deviceclasses,resourceslices -n {namespace}",
    "DetachVolumes": "kubectl get csinode",
    "LookAtKubelet": "kubectl describe pod -n {namespace} {pod}",
    "LookAtNode": "kubectl describe node {node}",
    "RemoveGates": "kubectl get pod -n {namespace} {pod} -o yaml --show-managed-fields",
    "AwaitRetry": "kubectl get pod -n {namespace} {pod} --watch",
    "Uncordon": "kubectl uncordon {node}",
}
"""Kind of advice -> the command to type."""


def build_advice(advice: Sequence[Advice], pod: str) -> Page:
    """Build the list of advice, each with the command to type below it."""
    namespace, _, name = pod.partition("/")
    blocks: list[Block] = []
    for suggestion in advice:
        blocks.append(Bullets((TEXTS.get(suggestion.kind, "{text}").replace("{text}", suggestion.text),)))
        if suggestion.kind in COMMANDS:
            words = {"namespace": quote(namespace), "pod": quote(name), "node": quote(suggestion.node)}
            command = COMMANDS[suggestion.kind].format(**words)
            if suggestion.claim:
                command = f"kubectl describe pvc -n {quote(namespace)} {quote(suggestion.claim)}"
            blocks.append(Command(command))
    return section("What to do next", *blocks) if blocks else ()


MOST_LINES = 2
"""A longer answer is split into its causes and the figures behind them."""


def build_answer(report: Explanation, style: Style) -> Iterator[Block]:
    """Yield the answer, with what it depends on that was not read."""
    if report.verdict == NOT_CREATED:
        yield from _build_once_created(report)
        return
    pod = Marked(report.pod, Tone.STRONG)
    of_verdict = [unknown for unknown in report.unknown if unknown.affects == VERDICT]
    if of_verdict:
        yield paragraph(
            pod,
            Marked(f"{describe_verdict(report.verdict)}, {describe_verdict_doubts(of_verdict)}:", Tone.WARNING),
            describe_unread(of_verdict),
        )
        yield from _split_headline("", (), report, style)
    else:
        preempting = report.preemption.preempting if report.preemption is not None else ""
        verdict = f"{describe_verdict(report.verdict)}{preempting}" + (":" if report.headline else "")
        tone = VERDICT_TONES.get(report.verdict, Tone.WARNING)
        yield from _split_headline(f"{report.pod} {verdict} ", (pod, Marked(verdict, tone)), report, style)


def build_stand_in_line(report: Explanation) -> Page:
    """Build the line that says for which workload the pod stands."""
    return (paragraph(Marked(report.stands_for, Tone.FAINT)),) if report.stands_for else ()


def build_message_line(report: Explanation) -> Page:
    """Build the line with kube-scheduler's message, if it differs from the headline."""
    if report.verdict == "Unschedulable" and report.message not in (None, report.headline):
        return (paragraph(Marked("kube-scheduler:", Tone.FAINT), report.message or ""),)
    return ()


def build_preemption_line(report: Explanation) -> Page:
    """Build the line that says why preemption cannot help, if the priorities of the pods are the reason."""
    priorities = report.preemption.no_lower_priority if report.preemption else None
    if report.verdict != "Unschedulable" or priorities is None:
        return ()
    return (paragraph(Marked("priority:", Tone.FAINT), priorities.words),)


def _split_headline(before: str, parts: tuple[Marked, ...], report: Explanation, style: Style) -> Iterator[Block]:
    """Yield the headline as one paragraph or, if it is long, as the causes with the closest nodes below."""
    short = not style.answer_first and len(textwrap.wrap(before + report.headline, style.width)) <= MOST_LINES
    first = report.causes[0] if report.causes else None
    if short or first is None or not report.headline.startswith(first.conflict or first.reason):
        yield paragraph(*parts, report.headline)
        return
    nodes = len(report.node_order)
    refusals = [f"{cause.reason}{_describe_place(cause, i, nodes)}" for i, cause in enumerate(report.causes)]
    evidence = [cause.describe_closest(nodes) for cause in report.causes]
    if first.conflict:
        evidence = [f"{reason}, {seen}" if seen else reason for reason, seen in zip(refusals, evidence, strict=True)]
    yield paragraph(*parts, first.conflict or "; ".join(refusals))
    if any(evidence):
        yield Bullets(tuple(filter(None, evidence)))


def _describe_place(cause: Cause, index: int, nodes: int) -> str:
    """Return the nodes of a cause in parentheses. After the first cause, "eligible nodes" is left out."""
    place = cause.describe_nodes(nodes)
    shown = place.removesuffix(" eligible nodes") if index else place
    return f" ({shown})" if shown else ""


def _build_once_created(report: Explanation) -> Iterator[Paragraph]:
    """Yield what scheduling would say about the pod once it is created."""
    once = report.once_created
    if once is not None:
        answer = f"{once.verdict}: {once.headline}{describe_doubt(report.unknown)}"
        yield paragraph(Marked(report.pod, Tone.STRONG), Marked("once created:", Tone.WARNING), answer)
