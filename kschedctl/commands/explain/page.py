"""The pages of Explanation and Explanations: the answer, what refuses how many nodes and which, what to do."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from shlex import quote

from kschedctl.commands.explain.feasible_nodes_page import extenders_section, reservations_section, scores_section
from kschedctl.commands.explain.new_node_page import new_node_section
from kschedctl.commands.explain.pod_group_page import pod_group_section
from kschedctl.commands.explain.preemption_page import preemption_section
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
TOLD_BETTER = frozenset(
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
"""The advice that says in general what remedies say exactly."""
FOR_GOOD = "UnschedulableAndUnresolvable"


def explanation_page(report: Explanation, style: Style) -> Page:
    """All sections that have something to say; what to type next stands under the best fix, if not its own command."""
    first, more = build_best_fix(report.remedies, style), _more_remedies(report, style)
    if first and not any(isinstance(block, Command) for block in first):
        first, more = (*first, *more), ()
    return (
        *build_held_back_lines(report.waiting_elsewhere),
        *iter_not_created_lines(report.not_created, style, report.fewer_pods),
        *answer_lines(report, style),
        *stand_in_line(report),
        *build_caveats(report.not_replayed, report.ignored, report.extended, report.unknown),
        *build_sampling_lines(report.searched),
        *build_upstream_fault_lines(report.upstream_faults),
        *first,
        *message_line(report),
        *preemption_line(report),
        *pod_group_section(report.pod_group, style),
        *build_fixes_section(report.remedies, report.impossible, style),
        *(() if style.patches else more),
        *advice_section([advice for advice in report.advice if not _told(advice, report)], report.pod),
        *_before_nodes(report),
        *_refusals(report, style),
        *extenders_section(report, style),
        *(() if _held_by_group(report) else scores_section(report, style)),
        *_permit(report),
        *reservations_section(report, style),
        *preemption_section(report.preemption, style),
        *new_node_section(report.new_node, style),
    )


def _told(advice: Advice, report: Explanation) -> bool:
    """Whether remedies say it exactly, or the section on preemption: whom kube-scheduler would evict where."""
    preemption = report.preemption
    if advice.kind == "AwaitPreemption" and preemption and preemption.chosen and not preemption.terminating:
        return True
    return bool(report.remedies) and advice.kind in TOLD_BETTER


def _more_remedies(report: Explanation, style: Style) -> Page:
    if not report.remedies:
        return ()
    commands = style.commands.get(report.pod, ())
    return (paragraph("How to apply it, and more fixes:"), *map(Command, commands)) if commands else ()


def _held_by_group(report: Explanation) -> bool:
    """Whether it fits by itself, and is not placed with the others of its group."""
    return report.pod_group is not None and report.verdict != "Schedulable" and bool(report.feasible)


def _permit(report: Explanation) -> Page:
    """What keeps it from being bound on a best node."""
    rows = [(node, said.plugin, f"{said.code}: {', '.join(said.reasons)}") for node, said in report.permit.items()]
    columns = (Column("node", keep=True), Column("plugin"), Column("Permit"))
    return build_table(rows, columns, return_row, limit=None, title="Not bound at once", full=False)


def _before_nodes(report: Explanation) -> Page:
    """What refused the pod, or narrowed the nodes down, before any node was looked at; nothing that is said already."""
    refusals = [
        (point, plugin, Marked(reason, Tone.BAD))
        for point, answers in (("PreEnqueue", report.queue), ("PreFilter", _asked(report.pre_filter)))
        for plugin, answer in answers.items()
        if answer.code not in ("Success", "Skip")
        for reason in answer.reasons
        if reason not in report.headline
    ]
    narrowed = [
        ("PreFilter", plugin, f"leaves only {_some(answer.node_names)}")
        for plugin, answer in report.pre_filter.items()
        if answer.node_names is not None
    ]
    rows: list[Row] = [*refusals, *narrowed]
    return build_table(
        rows, [*map(Column, ("point", "plugin", "answer"))], return_row, limit=None, title="Before any node"
    )


def _asked(answers: Mapping[str, PreFilterReport]) -> dict[str, PreFilterReport]:
    """The plugins that the framework asks: it stops at the first that refuses the pod for good."""
    codes = [answer.code for answer in answers.values()]
    end = codes.index(FOR_GOOD) + 1 if FOR_GOOD in codes else len(codes)
    return dict(islice(answers.items(), end))


def _some(names: tuple[str, ...]) -> str:
    """``w1, w2, w3 and 7 more``."""
    if len(names) <= 4:
        return ", ".join(names) or "no node"
    return f"{', '.join(names[:3])} and {len(names) - 3:,} more"


def _said_already(report: Explanation) -> bool:
    """Whether all that refuses nodes is what holds the pod back before."""
    held_back = {reason for status in report.queue.values() for reason in status.reasons}
    return bool(report.eliminations) and all(e.reason in held_back for e in report.eliminations)


def _refusals(report: Explanation, style: Style) -> Page:
    """How many nodes are refused for what, and which of them are alike in that."""
    if _said_already(report):
        return ()
    reasons = eliminations_section(report.eliminations, style, nearest=False)
    return (
        *reasons,
        *_refused(report, style),
        *(_nodes(report, style) if style.lists_all_nodes else _groups(report.groups, style)),
    )


def _refused(report: Explanation, style: Style) -> tuple[Plot, ...]:
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


def eliminations_section(eliminations: tuple[Elimination, ...], style: Style, nearest: bool = True) -> Page:
    """One row a reason; with the closest node plugin and miss beside it, or above and beneath it for want of room."""
    stack = style.narrow and nearest
    columns = [
        *number_columns("nodes", "sole blocker"),
        *([] if stack else [Column("plugin", keep=True)]),
        Column("reason"),
    ]
    columns += [Column("closest node")] if nearest and not stack else []
    rows = [_elimination(elimination, stack)[: len(columns)] for elimination in eliminations]
    return build_table(rows, columns, return_row, limit=None, title="Why nodes are refused", full=False)


def _elimination(elimination: Elimination, stack: bool) -> Row:
    only = Marked(f"{elimination.only:,}", Tone.STRONG if elimination.only else Tone.FAINT)
    nearest = f"{elimination.nearest.node}: {elimination.nearest.fact}" if elimination.nearest else ""
    if not stack:
        return (f"{elimination.nodes:,}", only, elimination.plugin, elimination.reason, nearest)
    reason = f"{elimination.plugin}: {elimination.reason}" if elimination.plugin else elimination.reason
    return (
        f"{elimination.nodes:,}",
        only,
        Stack((reason, Marked(f"closest: {nearest}" if nearest else "", Tone.FAINT))),
    )


def _groups(groups: tuple[NodeGroup, ...], style: Style) -> Page:
    """One row for the nodes that are refused for the same reasons, with the facts of the first that is named."""
    columns = [*number_columns("nodes"), Column("pool, such as"), Column("refused by")]
    if style.width >= WIDE_WIDTH:
        columns = [*number_columns("nodes"), Column("pool"), Column("such as"), Column("refused by", keep=True)]
        columns += [Column("why"), Column("also refused by")]
    title, row = "Refused nodes, closest to fitting first", partial(_group, style=style)
    return build_table(groups, columns, row, style, title=title, limit=GROUPS_SHOWN, full=False, each_node=True)


def _group(group: NodeGroup, style: Style) -> Row:
    names = ", ".join(group.such_as) + (", …" if group.nodes > len(group.such_as) else "")
    by, why, also = _against(group.refusals, style)
    if not group.refusals[0].plugin:
        why = ""  # of nodes that were not looked at the answer says why
    fact = f"{group.such_as[0]}: {why}" if why and group.nodes > 1 else why
    pools = ", ".join(group.pools)
    if style.width >= WIDE_WIDTH:
        return (f"{group.nodes:,}", pools, names, by, fact, Marked(also, Tone.FAINT))
    where = Stack((Marked(pools, Tone.FAINT), names))
    return (f"{group.nodes:,}", where, _facts(by, fact, also))


def _facts(by: str, why: str, also: str) -> Stack:
    more = f"also {also}" if also else ""
    return Stack((by, Marked(f"{why} ({more})" if why and more else why or more, Tone.FAINT)))


def _against(refusals: Sequence[Refusal], style: Style) -> tuple[str, str, str]:
    """The plugin that is reported, the facts behind it, and the other plugins, with ``-o wide`` with their facts."""
    first = refusals[0].plugin
    others = [refusal for refusal in refusals if refusal.plugin != first]
    facts = (r.fact or ("" if r.plugin else r.reason) for r in refusals if r.plugin == first)
    also = [f"{r.plugin}: {r.fact or r.reason}" if style.wide else r.plugin for r in others]
    return (
        first or "not looked at",
        "; ".join(filter(None, facts)),
        ("; " if style.wide else ", ").join(dict.fromkeys(also)),
    )


def _nodes(report: Explanation, style: Style) -> Page:
    """Every node: those that fit, then the refused ones, closest to fitting first."""
    nodes = [node for node in report.nodes if node.refusals or node.feasible]
    columns = [Column("node", keep=True), Column("zone/pool", keep=True), Column("refused by", keep=True)]
    columns += [Column("why"), Column("also refused by")]
    if style.narrow:
        columns = [Column("node", keep=True), Column("refused by")]
    return build_table(nodes, columns, partial(_node, style=style), limit=None, title="All nodes", full=False)


def _node(node: NodeReport, style: Style) -> Row:
    """One row, where the node is and the facts beside node and plugin; or beneath them where there is no room."""
    where = "/".join(part for part in (node.zone, node.pool) if part)
    by, why, also = _against(node.refusals, style) if node.refusals else ("", "", "")
    fits = Marked("fits", Tone.GOOD)
    if not style.narrow:
        return (node.name, where, by or fits, why, Marked(also, Tone.FAINT))
    refused = _facts(by, why, also) if by else Stack((fits,))
    return (Stack((node.name, Marked(f"  {where}" if where else "", Tone.FAINT))), refused)


# -- several pods -----------------------------------------------------------------------------------------------------


def explanations_page(report: Explanations, style: Style) -> Page:
    """How many would be scheduled, a line for each, and the pages of the others; of all with ``-o wide``."""
    fine, sentence = report.first_line()
    all_fine = all(explanation.verdict in FINE for explanation in report.explanations)
    tone = (Tone.WARNING if report.waiting_elsewhere else Tone.GOOD) if all_fine else Tone.BAD
    columns = [Column("pod", keep=True), Column("verdict", keep=True), Column("where"), Column("asked about")]
    table = build_table(report.explanations, columns, _answer, limit=None, full=False)
    full = [explanation for explanation in report.explanations if style.wide or explanation.verdict not in FINE]
    pages = [
        build_subsection(explanation.stands_for or explanation.pod, explanation_page(explanation, style))
        for explanation in full
    ]
    return (
        paragraph(Marked(fine, tone), sentence),
        *build_caveats(report.not_replayed, report.ignored, report.extended),
        *table,
        *(block for page in pages for block in page),
        *(build_held_back_section(report.waiting_elsewhere, style) if report.waiting_elsewhere else ()),
    )


def _answer(explanation: Explanation) -> Row:
    """Why one is not scheduled is on its page."""
    verdict = mark_verdict(explanation.verdict)
    return (
        explanation.pod,
        verdict,
        explanation.headline if explanation.verdict in FINE else "",
        Marked(explanation.stands_for, Tone.FAINT),
    )


# -- what to do next ---------------------------------------------------------------------------------------------------


SAID = {
    "MakeRoom": "{text}; try it first in a whatif scenario",
    "CorrectProfile": "Name its configuration with --config, or correct the pod's spec.schedulerName",
}
"""The kind of an advice -> how it is said to somebody who has a command line, where that is more than its text."""
COMMANDS = {
    "CompareLabels": "kubectl get nodes --show-labels",
    "LookAtClaim": "kubectl get pvc -n {namespace}",
    "LookAtDevices": "kubectl get resourceclaims,deviceclasses,resourceslices -n {namespace}",
    "DetachVolumes": "kubectl get csinode",
    "LookAtKubelet": "kubectl describe pod -n {namespace} {pod}",
    "LookAtNode": "kubectl describe node {node}",
    "RemoveGates": "kubectl get pod -n {namespace} {pod} -o yaml --show-managed-fields",
    "AwaitRetry": "kubectl get pod -n {namespace} {pod} --watch",
    "Uncordon": "kubectl uncordon {node}",
}
"""The kind of an advice -> what to type, in one piece."""


def advice_section(advice: Sequence[Advice], pod: str) -> Page:
    """One line each, and beneath it what to type. ``pod``: namespace/name of the one that it is about."""
    namespace, _, name = pod.partition("/")
    blocks: list[Block] = []
    for suggestion in advice:
        blocks.append(Bullets((SAID.get(suggestion.kind, "{text}").replace("{text}", suggestion.text),)))
        if suggestion.kind in COMMANDS:
            words = {"namespace": quote(namespace), "pod": quote(name), "node": quote(suggestion.node)}
            command = COMMANDS[suggestion.kind].format(**words)
            if suggestion.claim:
                command = f"kubectl describe pvc -n {quote(namespace)} {quote(suggestion.claim)}"
            blocks.append(Command(command))
    return section("What to do next", *blocks) if blocks else ()


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
            pod,
            Marked(f"{describe_verdict(report.verdict)}, {describe_verdict_doubts(of_verdict)}:", Tone.WARNING),
            describe_unread(of_verdict),
        )
        yield from _split("", (), report, style)
    else:
        preempting = report.preemption.preempting if report.preemption is not None else ""
        verdict = f"{describe_verdict(report.verdict)}{preempting}" + (":" if report.headline else "")
        tone = VERDICT_TONES.get(report.verdict, Tone.WARNING)
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
    evidence = [cause.describe_closest(nodes) for cause in report.causes]
    if first.conflict:
        evidence = [f"{reason}, {seen}" if seen else reason for reason, seen in zip(refusals, evidence, strict=True)]
    yield paragraph(*parts, first.conflict or "; ".join(refusals))
    if any(evidence):
        yield Bullets(tuple(filter(None, evidence)))


def _in_brackets(cause: Cause, index: int, nodes: int) -> str:
    """The nodes that it stands against; after the first cause it is known of which."""
    place = cause.describe_nodes(nodes)
    shown = place.removesuffix(" eligible nodes") if index else place
    return f" ({shown})" if shown else ""


def _once_created(report: Explanation) -> Iterator[Paragraph]:
    """What scheduling would say of the pod that stands for those that are not there."""
    once = report.once_created
    if once is not None:
        said = f"{once.verdict}: {once.headline}{describe_doubt(report.unknown)}"
        yield paragraph(Marked(report.pod, Tone.STRONG), Marked("once created:", Tone.WARNING), said)
