"""The pages of one and of several explanations."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from shlex import quote
from typing import NamedTuple

from msgspec.structs import replace

from kschedctl.commands.explain.feasible_nodes_page import (
    build_extenders_section,
    build_reservations_section,
    build_scores_section,
)
from kschedctl.commands.explain.headline import quotes_reason
from kschedctl.commands.explain.pod_group_report import PodGroupReport
from kschedctl.commands.explain.preemption_page import build_preemption_section
from kschedctl.commands.explain.report import (
    Advice,
    Elimination,
    Explanation,
    Explanations,
    NodeGroup,
    NodeReport,
    PreFilterReport,
    Refusal,
    ReplicaCount,
)
from kschedctl.render.fixes import build_best_fix, build_fixes_section
from kschedctl.render.page import (
    Block,
    Bullets,
    Command,
    Marked,
    Page,
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
    build_searched_nodes_lines,
    build_upstream_fault_lines,
    mark_verdict,
)
from kschedctl.render.tables import Row, build_table, keep_row, number_columns
from kschedctl.render.unseen_pods import build_held_back_lines, build_held_back_section, iter_not_created_lines
from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.new_node import NewNode
from kschedctl.reports.not_created import NOT_CREATED
from kschedctl.reports.plugin_answers import StatusReport
from kschedctl.reports.unknown import NOT_CERTAIN, VERDICT, describe_doubt, describe_verdict_doubts
from kschedctl.text.counts import capitalize, join_words

WOULD_REJECT = "would also be rejected by"
ONLY_REASON_LEGEND = (
    "Each node is counted under the first plugin that rejects it, once per reason. NO OTHER REASON: those of the nodes "
    "that nothing else would reject"
)
"""The legend of the table of reasons for rejection."""
"""The heading or introduction of plugins other than the first one that rejects a node."""
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
    """Build the page of one explanation. Empty sections are left out.

    The line with the command for more fixes follows the best fix. If there is no best fix, or if it already has a
    command, the line follows the section of fixes instead. There is no such line if the page shows patches.
    """
    advice = [suggestion for suggestion in report.advice if not _is_advice_shown_elsewhere(suggestion, report)]
    best_fix = build_best_fix(report.remedies, style)
    more_fixes: Page = ()
    if not style.patches:
        best_fix_has_command = any(isinstance(block, Command) for block in best_fix)
        if not best_fix or best_fix_has_command:
            more_fixes = _build_more_fixes_line("More fixes:", report, style)
        else:
            best_fix = (*best_fix, *_build_more_fixes_line("This fix in detail, and more fixes:", report, style))
    return (
        *build_held_back_lines(report.waiting_elsewhere),
        *iter_not_created_lines(report.not_created, style, report.fewer_pods),
        *build_replicas_line(report.replicas),
        *iter_verdict_blocks(report, style),
        *build_stand_in_line(report),
        *build_caveats(report.not_replayed, report.ignored, report.extended, report.unknown),
        *build_searched_nodes_lines(report.searched),
        *build_upstream_fault_lines(report.upstream_faults),
        *best_fix,
        *build_message_line(report),
        *build_preemption_line(report),
        *_build_pod_group_section(report.pod_group, style),
        *build_fixes_section(report.remedies, report.impossible, style, gets_new_node=report.gets_new_node),
        *more_fixes,
        *build_advice_section(advice, report.pod),
        *_build_pre_filter_table(report),
        *_build_rejection_sections(report, style),
        *build_extenders_section(report, style),
        *(() if _is_held_by_group(report) else build_scores_section(report, style)),
        *_build_permit_table(report),
        *build_reservations_section(report, style),
        *build_preemption_section(report.preemption, style),
        *_build_new_node_section(report.new_node, style),
    )


def _build_pod_group_section(group: PodGroupReport | None, style: Style) -> Page:
    """Build the section about the pod's group. Return () for a pod without a group."""
    if group is None:
        return ()
    from kschedctl.commands.explain.pod_group_page import build_pod_group_section  # noqa: PLC0415 - few pods have one

    return build_pod_group_section(group, style)


def _build_new_node_section(new: NewNode | None, style: Style) -> Page:
    """Build the section about whether the autoscaler would add a node. Return () if there is no autoscaler's answer."""
    if new is None:
        return ()
    from kschedctl.commands.explain.new_node_page import build_new_node_section  # noqa: PLC0415 - only with autoscalers

    return build_new_node_section(new, style)


def _is_advice_shown_elsewhere(advice: Advice, report: Explanation) -> bool:
    """Return whether another section of the page already covers the advice."""
    preemption = report.preemption
    if advice.kind == "AwaitPreemption" and preemption and preemption.chosen and not preemption.terminating:
        return True
    return bool(report.remedies) and advice.kind in COVERED_BY_FIXES


def _build_more_fixes_line(label: str, report: Explanation, style: Style) -> Page:
    """Build the line with the command that shows more fixes. Return () without fixes or without such a command."""
    if not report.remedies:
        return ()
    commands = style.commands.get(report.pod, ())
    return (paragraph(label), *map(Command, commands)) if commands else ()


def _is_held_by_group(report: Explanation) -> bool:
    """Return whether the pod fits but has to wait for its group."""
    return report.pod_group is not None and report.verdict != "Schedulable" and bool(report.feasible)


def _build_permit_table(report: Explanation) -> Page:
    """Build the table of nodes on which Permit rejects the pod or makes it wait."""
    rows = [
        (node, answer.plugin, f"{answer.code}: {', '.join(answer.reasons)}") for node, answer in report.permit.items()
    ]
    columns = (Column("node", keep=True), Column("plugin"), Column("Permit"))
    return build_table(
        rows, columns, keep_row, limit=None, title="Nodes where Permit rejects or delays the pod", full=False
    )


def _build_pre_filter_table(report: Explanation) -> Page:
    """Build the table of plugins that rejected the pod, or left out nodes, before Filter.

    Reasons that are in the headline are left out.
    """
    answers: list[tuple[str, str, StatusReport | PreFilterReport]]
    answers = [("PreEnqueue", plugin, answer) for plugin, answer in report.queue.items()]
    answers += [("PreFilter", plugin, answer) for plugin, answer in _select_called_plugins(report.pre_filter).items()]

    rows: list[Row] = []
    for extension_point, plugin, answer in answers:
        if answer.code not in ("Success", "Skip"):
            new_reasons = (reason for reason in answer.reasons if not quotes_reason(report, reason))
            rows += [(extension_point, plugin, Marked(reason, Tone.BAD)) for reason in new_reasons]
    for plugin, pre_filter in report.pre_filter.items():
        if pre_filter.node_names is not None:
            rows.append(("PreFilter", plugin, f"leaves only {_join_first_names(pre_filter.node_names)}"))
    return build_table(
        rows, [*map(Column, ("point", "plugin", "answer"))], keep_row, limit=None, title="Before any node"
    )


def _select_called_plugins(answers: Mapping[str, PreFilterReport]) -> dict[str, PreFilterReport]:
    """Select the PreFilter plugins that the framework calls: it stops after one with an unresolvable rejection."""
    codes = [answer.code for answer in answers.values()]
    end = codes.index(UNRESOLVABLE) + 1 if UNRESOLVABLE in codes else len(codes)
    return dict(islice(answers.items(), end))


def _join_first_names(names: tuple[str, ...]) -> str:
    """Join the first names, and count the others: "w1, w2, w3 and 7 more". Without names, return "no node"."""
    if len(names) <= 4:
        return ", ".join(names) or "no node"
    return f"{', '.join(names[:3])} and {len(names) - 3:,} more"


def _is_rejected_only_by_gates(report: Explanation) -> bool:
    """Return whether nodes are rejected only for reasons that already gate the pod."""
    gate_reasons = {reason for status in report.queue.values() for reason in status.reasons}
    return bool(report.eliminations) and all(elimination.reason in gate_reasons for elimination in report.eliminations)


def _build_rejection_sections(report: Explanation, style: Style) -> Page:
    """Build the sections about rejected nodes: a table of reasons, a chart, then the nodes singly or in groups.

    Return () if nodes are rejected only for reasons that already gate the pod.
    """
    if _is_rejected_only_by_gates(report):
        return ()
    title = "Why nodes would be rejected" if report.verdict == "Gated" else "Why nodes are rejected"
    reasons = build_eliminations_table(report.eliminations, style, nearest=False, title=title)
    chart = _plot_rejections(report, style)
    nodes = _build_node_table(report, style) if style.lists_all_nodes else _build_rejected_nodes_table(report, style)
    return (*reasons, *chart, *nodes)


def _plot_rejections(report: Explanation, style: Style) -> tuple[Plot, ...]:
    """Build the plot of rejected nodes by reason.

    Unless plots are requested, return () if all reasons reject equally many nodes.
    """
    amounts: dict[str, dict[str, float]] = {}
    for elimination in report.eliminations:
        reason = elimination.reason
        if reason in amounts:  # another plugin gives the same reason
            reason = f"{elimination.plugin}: {reason}"
        amounts[reason] = {
            "for this alone": elimination.only,
            "for other reasons as well": elimination.nodes - elimination.only,
        }
    if not (style.plots or differ_in_total(amounts)):
        return ()
    title = f"Nodes rejected for {report.pod}"
    return build_bar_plot(title, ("reason", "nodes"), amounts, len(amounts), stacked=True)


def build_eliminations_table(
    eliminations: tuple[Elimination, ...],
    style: Style,
    nearest: bool = True,
    title: str = "Why nodes are rejected",
) -> Page:
    """Build the table of reasons for rejection, with the closest node of each unless `nearest` is False."""
    is_stacked = style.narrow and nearest
    columns = [*number_columns("nodes", "no other reason")]
    if is_stacked:
        columns.append(Column("reason"))
    else:
        columns += [Column("plugin", keep=True), Column("reason")]
        if nearest:
            columns.append(Column("closest node"))
    # Rows end with the closest node, which is cut off if there is no column for it
    rows = [_build_elimination_row(elimination, stacked=is_stacked)[: len(columns)] for elimination in eliminations]
    return build_table(rows, columns, keep_row, limit=None, title=title, note=ONLY_REASON_LEGEND, full=False)


def _build_elimination_row(elimination: Elimination, stacked: bool) -> Row:
    """Build the row of one reason for rejection. With `stacked`, plugin, reason and closest node share a cell.

    Otherwise the closest node, with its fact, is the last cell. The node is not named if the fact is the same on all
    nodes.
    """
    nodes = f"{elimination.nodes:,}"
    only = Marked(f"{elimination.only:,}", Tone.STRONG if elimination.only else Tone.FAINT)
    miss = elimination.nearest
    if miss is None:
        node_and_fact = ""
    elif miss.is_same_on_all_nodes:
        node_and_fact = miss.fact
    else:
        node_and_fact = f"{miss.node}: {miss.fact}"
    if not stacked:
        return (nodes, only, elimination.plugin, elimination.reason, node_and_fact)
    names_node = miss is not None and not miss.is_same_on_all_nodes
    fact_line = f"closest to fitting is {node_and_fact}" if names_node else node_and_fact
    reason = f"{elimination.plugin}: {elimination.reason}" if elimination.plugin else elimination.reason
    return (nodes, only, Stack((reason, Marked(fact_line, Tone.FAINT))))


def _build_rejected_nodes_table(report: Explanation, style: Style) -> Page:
    """Build the table of the rejected nodes, in which nodes with the same rejections share a row.

    If no rejected node was evaluated, only the plugins that would reject the nodes are listed.
    """
    # The refusals of nodes that were not evaluated name no plugin
    is_any_evaluated = any(group.refusals[0].plugin for group in report.groups)
    if is_any_evaluated:
        title = "Rejected nodes, closest to fitting first"
    elif any(node.feasible for node in report.nodes):
        title = "Nodes that were not evaluated, closest to fitting first"
    else:
        title = "No node was evaluated: PreFilter already ruled all of them out"
    columns = [*number_columns("nodes")]
    if style.width >= WIDE_WIDTH:
        columns += [Column("pool"), Column("examples")]
        columns += [Column("rejected by", keep=True), Column("reason")] if is_any_evaluated else []
        columns.append(Column(WOULD_REJECT))
    else:
        columns += [Column("pool, examples"), Column("plugin, reason" if is_any_evaluated else WOULD_REJECT)]
    return build_table(
        report.groups,
        columns,
        partial(_build_node_group_row, style=style, evaluated=is_any_evaluated),
        style,
        title=title,
        limit=GROUPS_SHOWN,
        full=False,
        each_node=True,
    )


def _build_node_group_row(group: NodeGroup, style: Style, *, evaluated: bool) -> Row:
    """Build the row of one group of nodes: its size, pools, node names, the plugins that reject it, and facts.

    The facts are about the first rejecting plugin and the group's first node, which is named before them if the group
    has several nodes. On a narrow page, the pools are stacked above the names, and the facts and other plugins below
    the first plugin. If no node was `evaluated`, the row ends with the plugins that would reject the nodes.
    """
    count = f"{group.nodes:,}"
    names = ", ".join(group.such_as) + (", …" if group.nodes > len(group.such_as) else "")
    pools = ", ".join(group.pools)
    is_wide = style.width >= WIDE_WIDTH
    node_cells: Row = (pools, names) if is_wide else (Stack((Marked(pools, Tone.FAINT), names)),)
    texts = _describe_group_refusals(group, style)
    if not evaluated:
        return (count, *node_cells, texts.also or "no other plugin")
    if is_wide:
        return (count, *node_cells, texts.plugin, Stack(texts.facts or ("",)), Marked(texts.also, Tone.FAINT))
    return (count, *node_cells, _stack_refusals(texts))


class _RefusalTexts(NamedTuple):
    """The refusals of a node as the texts of a table."""

    plugin: str
    """The plugin that rejects the node first."""
    facts: tuple[str, ...]
    """The facts of that plugin."""
    also: str
    """The other plugins that would reject the node; empty if there are none."""
    also_clause: str
    """The clause that says that these plugins would reject the node; empty if there are none."""


def _stack_refusals(texts: _RefusalTexts) -> Stack:
    """Stack the facts below the first plugin's name, one on each line. The last line also names the further plugins."""
    *facts, last_fact = texts.facts or ("",)
    if last_fact and texts.also_clause:
        last_line = f"{last_fact} ({texts.also_clause})"
    else:
        last_line = last_fact or texts.also_clause
    return Stack((texts.plugin, *(Marked(fact, Tone.FAINT) for fact in facts), Marked(last_line, Tone.FAINT)))


def _describe_group_refusals(group: NodeGroup, style: Style) -> _RefusalTexts:
    """Describe the refusals of a group's first node, which is named before its facts if the group has several nodes.

    Nodes that no plugin evaluated get no facts, because the headline already has the reason.
    """
    texts = _describe_refusals(group.refusals, style)
    was_evaluated = bool(group.refusals[0].plugin)
    if not was_evaluated:
        return texts._replace(facts=())
    if group.nodes > 1:
        first_node = group.such_as[0]
        return texts._replace(facts=(f"{first_node}: {'; '.join(texts.facts)}",) if texts.facts else ())
    return texts


def _describe_refusals(refusals: Sequence[Refusal], style: Style) -> _RefusalTexts:
    """Split a node's refusals into the first plugin, its facts, and the other plugins.

    With -o wide, each of the other plugins comes with its fact or, without a fact, with its reason. A node that no
    plugin evaluated is described as "not evaluated", with the reason as its fact.
    """
    first_plugin = refusals[0].plugin
    first_refusals = [refusal for refusal in refusals if refusal.plugin == first_plugin]
    other_refusals = [refusal for refusal in refusals if refusal.plugin != first_plugin]

    if style.wide:
        other_texts = [f"{refusal.plugin}: {refusal.fact or refusal.reason}" for refusal in other_refusals]
        also = "; ".join(dict.fromkeys(other_texts))
        also_clause = f"{WOULD_REJECT} {also}" if also else ""
    else:
        other_plugins = list(dict.fromkeys(refusal.plugin for refusal in other_refusals))
        also = ", ".join(other_plugins)
        also_clause = f"{join_words(other_plugins)} would also reject the node" if also else ""

    if not first_plugin:
        facts = [refusal.fact or refusal.reason for refusal in first_refusals]
        return _RefusalTexts("not evaluated", tuple(filter(None, facts)), also, also_clause)
    facts = [refusal.fact for refusal in first_refusals]
    return _RefusalTexts(first_plugin, tuple(filter(None, facts)), also, also_clause)


def _build_node_table(report: Explanation, style: Style) -> Page:
    """Build the table of the feasible and rejected nodes, in the order of the report.

    Nodes that are neither feasible nor rejected are left out. A narrow table has only the columns `node` and
    `rejected by`.
    """
    nodes = [node for node in report.nodes if node.refusals or node.feasible]
    if style.narrow:
        columns = [Column("node", keep=True), Column("rejected by")]
        build_row = _build_narrow_node_row
    else:
        columns = [Column("node", keep=True), Column("zone/pool", keep=True), Column("rejected by", keep=True)]
        columns += [Column("reason"), Column(WOULD_REJECT)]
        build_row = _build_wide_node_row
    return build_table(nodes, columns, partial(build_row, style=style), limit=None, title="All nodes", full=False)


_FITS = Marked("fits", Tone.GOOD)


def _build_wide_node_row(node: NodeReport, style: Style) -> Row:
    """Build a node's row of a wide table: name, location, first plugin with its facts, and other plugins.

    The first plugin is replaced by "fits" for a feasible node.
    """
    location = _format_location(node)
    if not node.refusals:
        return (node.name, location, _FITS, "", "")
    texts = _describe_refusals(node.refusals, style)
    return (node.name, location, texts.plugin, Stack(texts.facts or ("",)), Marked(texts.also, Tone.FAINT))


def _build_narrow_node_row(node: NodeReport, style: Style) -> Row:
    """Build a node's row of a narrow table, with the location below the name and the facts below the plugin.

    The plugin is replaced by "fits" for a feasible node.
    """
    location = _format_location(node)
    name_and_location = Stack((node.name, Marked(f"  {location}" if location else "", Tone.FAINT)))
    if not node.refusals:
        return (name_and_location, Stack((_FITS,)))
    return (name_and_location, _stack_refusals(_describe_refusals(node.refusals, style)))


def _format_location(node: NodeReport) -> str:
    """Return the node's zone and pool, as far as they are known, separated by a slash."""
    return "/".join(part for part in (node.zone, node.pool) if part)


# -- several pods -----------------------------------------------------------------------------------------------------


def build_explanations_page(report: Explanations, style: Style) -> Page:
    """Build the page of several explanations: an overview table, then the pods that need attention.

    With -o wide, all pods follow.
    """
    fine_count, sentence = report.build_headline_parts()
    all_fine = all(
        explanation.is_fine and not explanation.leaves_victims_without_node for explanation in report.explanations
    )
    if not all_fine:
        tone = Tone.BAD
    elif report.waiting_elsewhere:
        tone = Tone.WARNING
    else:
        tone = Tone.GOOD
    columns = [Column("pod", keep=True), Column("verdict", keep=True), Column("where"), Column("asked about")]
    table = build_table(report.explanations, columns, _build_pod_row, limit=None, full=False)
    pages = [
        build_subsection(
            explanation.stands_for or explanation.pod,
            build_explanation_page(replace(explanation, stands_for=""), style),
        )
        for explanation in report.explanations
        if style.wide or not explanation.is_fine or explanation.replicas is not None
    ]
    return (
        paragraph(Marked(fine_count, tone), sentence),
        *build_caveats(report.not_replayed, report.ignored, report.extended),
        *table,
        *(block for page in pages for block in page),
        *(build_held_back_section(report.waiting_elsewhere, style) if report.waiting_elsewhere else ()),
    )


def _build_pod_row(explanation: Explanation) -> Row:
    """Build a pod's row of the overview table.

    The headline is left out if the pod needs attention and so has its own page.
    """
    verdict = mark_verdict(explanation.verdict)
    return (
        explanation.pod,
        verdict,
        explanation.headline if explanation.is_fine else "",
        Marked(explanation.stands_for, Tone.FAINT),
    )


# -- what to do next ---------------------------------------------------------------------------------------------------


TEXT_BY_KIND = {
    "MakeRoom": "{text} (whatif shows the outcome first)",
    "CorrectProfile": "If it is a profile of your kube-scheduler, pass its configuration with --config; "
    "otherwise correct the pod's spec.schedulerName",
}
"""Kind of advice -> the text for readers at a command line, if it differs from the advice's own."""
COMMAND_BY_KIND = {
    "CompareLabels": "kubectl get nodes --show-labels",
    "LookAtClaim": "kubectl get pvc -n {namespace}",
    "CheckDeviceDriver": "kubectl get resourceslices,daemonsets -A",
    "LookAtDevices": "kubectl get resourceclaimtemplates,resourceclaims,deviceclasses,resourceslices -n {namespace}",
    "FreeDevices": "kubectl get resourceclaims -A",
    "DetachVolumes": "kubectl describe csinode {node}",
    "LookAtKubelet": "kubectl describe pod -n {namespace} {pod}",
    "LookAtNode": "kubectl describe node {node}",
    "RemoveGates": "kubectl get pod -n {namespace} {pod} -o yaml --show-managed-fields",
    "AwaitRetry": "kubectl get pod -n {namespace} {pod} --watch",
    "Uncordon": "kubectl uncordon {node}",
}
"""Kind of advice -> the command to type."""


def build_advice_section(advice: Sequence[Advice], pod: str) -> Page:
    """Build the list of advice, each item followed by its command if there is one. Return () without advice.

    `pod` is `namespace/name`.
    """
    blocks: list[Block] = []
    for suggestion in advice:
        template = TEXT_BY_KIND.get(suggestion.kind, "{text}")
        blocks.append(Bullets((template.replace("{text}", suggestion.text),)))
        if suggestion.kind in COMMAND_BY_KIND:
            blocks.append(Command(_build_advice_command(suggestion, pod)))
    return section("What to do next", *blocks) if blocks else ()


def _build_advice_command(advice: Advice, pod: str) -> str:
    """Build the command to type for the advice, about the claim if the advice names one."""
    namespace, _, name = pod.partition("/")
    if advice.claim:
        return f"kubectl describe pvc -n {quote(namespace)} {quote(advice.claim)}"
    return COMMAND_BY_KIND[advice.kind].format(namespace=quote(namespace), pod=quote(name), node=quote(advice.node))


MAX_HEADLINE_LINES = 2
"""The number of lines above which a headline is split into causes and figures."""


def iter_verdict_blocks(report: Explanation, style: Style) -> Iterator[Block]:
    """Yield the verdict and the headline.

    If unread objects could change the verdict, the line with the verdict says so. For a pod that cannot be created,
    only yield a line about the verdict that it would get once created.
    """
    if report.verdict == NOT_CREATED:
        yield from _build_once_created_line(report)
        return
    condition = (Marked(f"As if {report.as_if}:", Tone.WARNING),) if report.as_if else ()
    condition_and_pod = (*condition, Marked(report.pod, Tone.STRONG))
    verdict = describe_verdict(report.verdict)
    preemption_text = report.preemption.preemption_text if report.preemption is not None else ""
    verdict_doubts = [unknown for unknown in report.unknown if unknown.affects == VERDICT]
    if verdict_doubts:
        doubtful_verdict = Marked(f"{verdict}, but {NOT_CERTAIN}:", Tone.WARNING)
        yield paragraph(*condition_and_pod, doubtful_verdict, describe_verdict_doubts(verdict_doubts))
        preemption = (Marked(f"{preemption_text}:", Tone.WARNING),) if preemption_text else ()
        yield from _iter_headline_blocks(preemption, report, style)
        return
    preemption_clause = f", {preemption_text}" if preemption_text else ""
    colon = ":" if report.headline else ""
    tone = VERDICT_TONES.get(report.verdict, Tone.WARNING)
    marked_verdict = Marked(f"{verdict}{preemption_clause}{colon}", tone)
    yield from _iter_headline_blocks((*condition_and_pod, marked_verdict), report, style)


def build_replicas_line(replicas: ReplicaCount | None) -> Page:
    """Build the line that says how many pods of a workload get a node, and which running pods they evict.

    It is empty if none of them gets a node, or if all get one without evicting others.
    """
    if replicas is None:
        return ()
    is_harmless = replicas.are_all_placed and not replicas.victims_without_node
    return (paragraph(Marked(capitalize(replicas.placement_sentence), Tone.WARNING if is_harmless else Tone.BAD)),)


def build_stand_in_line(report: Explanation) -> Page:
    """Build the line that names the workload for which the pod stands in. It is empty for a pod that was named."""
    return (paragraph(Marked(f"This is {report.stands_for}", Tone.FAINT)),) if report.stands_for else ()


def build_message_line(report: Explanation) -> Page:
    """Build the line with kube-scheduler's message for an unschedulable pod, unless it equals the headline."""
    if report.verdict == "Unschedulable" and report.message not in (None, report.headline):
        return (paragraph(Marked("kube-scheduler:", Tone.FAINT), report.message or ""),)
    return ()


def build_preemption_line(report: Explanation) -> Page:
    """Build the line that explains why pod priorities rule out preemption.

    Return () if they do not, or if the pod is not unschedulable.
    """
    priorities = report.preemption.no_lower_priority if report.preemption else None
    if report.verdict != "Unschedulable" or priorities is None:
        return ()
    return (paragraph(priorities.explanation),)


def _iter_headline_blocks(prefix: tuple[Marked, ...], report: Explanation, style: Style) -> Iterator[Block]:
    """Yield the headline as one paragraph or, if it is long, as the first cause and a list of the other causes.

    `prefix` comes before the headline, and counts toward the length. A conflict between two demands of the pod is
    listed as the first cause.
    """
    conflicts = [cause.conflict for cause in report.causes if cause.conflict]
    causes = [*conflicts, *(cause.plain or cause.reason for cause in report.causes)]
    text = " ".join((*(part.text for part in prefix), report.headline))
    line_count = len(textwrap.wrap(text, style.width))
    is_short = line_count <= MAX_HEADLINE_LINES and not style.answer_first
    if is_short or len(causes) < 2 or not report.headline_lists_causes:
        yield paragraph(*prefix, report.headline)
        return
    yield paragraph(*prefix, causes[0])
    yield Bullets(tuple(causes[1:]))


def _build_once_created_line(report: Explanation) -> Page:
    """Build the line with the verdict that the pod would get if it were created, or return () if it is unknown."""
    once = report.once_created
    if once is None:
        return ()
    answer = f"{once.verdict}: {once.headline}{describe_doubt(report.unknown)}"
    return (paragraph(Marked(report.pod, Tone.STRONG), Marked("once created:", Tone.WARNING), answer),)
