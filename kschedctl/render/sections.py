"""Sections that several pages share: caveats, pending and preempted pods, runs, next commands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from kschedctl.api.copying import replace
from kschedctl.render.page import (
    Bullets,
    Cell,
    Command,
    Marked,
    Page,
    Stack,
    Style,
    count,
    describe_verdict,
    limit_rows,
    limit_rows_by_style,
    names,
    paragraph,
    section,
)
from kschedctl.render.plots.plot import MAX_PLACES, Plot, build_bar_plot
from kschedctl.render.tables import (
    ROWS_SHOWN,
    Row,
    build_struct_table,
    build_table,
    format_rounded,
    keep_row,
    number_columns,
)
from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.not_created import NOT_CREATED
from kschedctl.reports.placements import (
    NO_POOL,
    EvictedPod,
    EvictionChain,
    EvictionFate,
    Headroom,
    PendingLeftOut,
    PinnedVolume,
    PodCount,
    PoolChange,
    RetriedPods,
    Spread,
    UnplacedPods,
    Variation,
    WorkloadVariation,
    describe_data_on_nodes,
    describe_victims,
)
from kschedctl.reports.plugin_answers import SearchedNodes, SearchStart
from kschedctl.reports.unknown import VERDICT, UnknownKind, advise_reading, describe_unread_kinds
from kschedctl.text.counts import agreeing, counted, first_few, first_of, format_percentage, join_first_few, join_words
from kschedctl.text.printable import describe_misfit, rewrite_fit_error

TIES_SHOWN = 3
WORKLOADS_PER_REASON = 5
"""Up to this many workloads that stay without a node for the same reason have rows of their own."""
WIDE_WIDTH = 140
"""From this width on reasons have a column of their own."""


def build_caveats(
    not_replayed: tuple[str, ...],
    ignored: tuple[str, ...] = (),
    extended: tuple[str, ...] = (),
    unknown: Sequence[UnknownKind] = (),
    start: SearchStart | None = None,
) -> Page:
    """Return lines about everything that an answer leaves out, assumes or does not know."""
    left_out = (*build_left_out_lines(not_replayed, ignored), *build_extender_line(extended))
    return (*left_out, *build_unread_kind_lines(unknown), *build_search_start_line(start))


def build_left_out_lines(not_replayed: tuple[str, ...], ignored: tuple[str, ...]) -> Page:
    """Build a line for each feature that is not replayed, and one line for the fields that the version ignores."""
    paragraphs = [paragraph(Marked("Not replayed:", Tone.WARNING), feature) for feature in not_replayed]
    if ignored:
        consequence = "this version's API server drops it from new objects, or its scheduler ignores or rejects it"
        paragraphs.append(paragraph(Marked("Ignored:", Tone.WARNING), f"{'; '.join(ignored)}: {consequence}"))
    return tuple(paragraphs)


def build_search_start_line(start: SearchStart | None) -> Page:
    """Build a line about the node where sampling starts, or return () if all nodes were looked at."""
    if start is None:
        return ()
    note = "" if start.known else "; where kube-scheduler would start is unknown: set it with --start-index NUMBER"
    return (paragraph(Marked("Sampling:", Tone.WARNING), f"the first search begins at node {start.index:,}{note}"),)


def build_searched_nodes_lines(searched: SearchedNodes | None) -> Page:
    """Build the lines that say how many nodes were evaluated and where the next search starts, or () if all were."""
    if searched is None:
        return ()
    evaluated = f"{searched.examined:,} of {count(searched.nodes, 'node')} evaluated"
    fitting = f"{searched.found:,} {agreeing(searched.found, 'fits', 'fit')}"
    description = f"{evaluated}, {fitting}; the next search begins at node {searched.next:,}"
    return (*build_search_start_line(searched.start), paragraph(Marked("searched:", Tone.FAINT), description))


def build_upstream_fault_lines(faults: tuple[str, ...]) -> Page:
    """Return a line per bug of kube-scheduler that makes a difference."""
    return tuple(paragraph(Marked("kube-scheduler bug:", Tone.WARNING), what) for what in faults)


def build_unread_kind_lines(unknown: Sequence[UnknownKind]) -> Page:
    """Build lines about what unread kinds could change in the answer, except for the verdict.

    The last line says how to get the kinds read, unless the line about the verdict says it already.
    """
    consequences = {
        "message": "kube-scheduler's message and the pods that it preempts could differ",
        "scores": "the scores could differ",
        "victims": "the preempted pods could differ",
        "remedies": "better fixes may be missing",
        "replacement": "the best nodes for running pods could differ",
        "creation": "this answer may miss pods that could not be created",
    }
    lines = []
    for affects, consequence in consequences.items():
        kinds = [kind for kind in unknown if kind.affects == affects]
        if kinds:
            lines.append(f"{describe_unread_kinds(kinds)}, so {consequence}")
    kinds_with_consequence = [kind for kind in unknown if kind.affects in consequences]
    if lines and not any(kind.affects == VERDICT for kind in unknown):
        lines[-1] += advise_reading(kinds_with_consequence)
    return tuple(paragraph(Marked("Incomplete:", Tone.WARNING), line) for line in lines)


def build_extender_line(extended: tuple[str, ...]) -> Page:
    """Build the line about what extenders answered, or return () if there is nothing to say."""
    return (paragraph(Marked("Note:", Tone.WARNING), "; ".join(extended)),) if extended else ()


def build_interruption_line(interrupted: bool, description: str = "a partial result") -> Page:
    """Return a line that calls an interrupted result partial, or () if it was not interrupted."""
    return (paragraph(Marked("Interrupted:", Tone.WARNING), description),) if interrupted else ()


def build_remedy_title(condition: str) -> str:
    """Build the title above the next command, if replay verified that every pod gets a node under the condition."""
    return f"Next (verified by replay: {condition}, every pod gets a node)"


def build_added_nodes_title(scenario: Mapping[str, Any]) -> str:
    """Build the title above the `whatif` command of the scenario, which adds enough nodes for every pod.

    >>> build_added_nodes_title({"steps": [{"addNodes": {"like": "n1", "count": 2}}, {"drain": {"nodes": ["n1"]}}]})
    'Next (verified by replay: with 2 more nodes like n1, every pod gets a node)'
    """
    additions = [step["addNodes"] for step in scenario["steps"] if "addNodes" in step]
    nodes = [
        f"{counted(addition['count'], 'more node' if index == 0 else 'node')} like {addition['like']}"
        for index, addition in enumerate(additions)
    ]
    return build_remedy_title(f"with {join_words(nodes)}" if nodes else "with the steps below")


def build_data_warning(volumes: Iterable[PinnedVolume]) -> Page:
    """Build the warning about local volumes, whose data is lost if their nodes are deleted, or () without any."""
    return tuple(paragraph(Marked("Local data:", Tone.WARNING), f"{text}.") for text in describe_data_on_nodes(volumes))


def build_next_section(style: Style, title: str = "Next") -> Page:
    """Build the section with commands to try next, or return () if there are none."""
    commands = style.commands.get("", ())
    return section(title, *map(Command, commands)) if commands else ()


VERDICT_TONES = {
    "Schedulable": Tone.GOOD,
    **dict.fromkeys(("Unschedulable", "Error", NOT_CREATED, "newly pending"), Tone.BAD),
}
"""Verdict -> its tone; all other verdicts are warnings."""


def mark_verdict(verdict: str, end: str = "") -> Marked:
    """Return a verdict in words with its tone, followed by `end`."""
    return Marked(describe_verdict(verdict) + end, VERDICT_TONES.get(verdict, Tone.WARNING))


def build_pending_left_out_line(left_out: PendingLeftOut) -> Page:
    """Return a line on the pending pods that take no part in the replay, or () if there are none."""
    tone = Tone.WARNING if left_out.may_take_room else Tone.FAINT
    return tuple(paragraph(Marked(f"{text}.", tone)) for text in left_out.describe())


def build_pods_section(title: str, pods: Sequence[str], style: Style) -> Page:
    """Build a section with a list of pods. Without pods, it is empty.

    Unless the style is wide, only the first ROWS_SHOWN pods are listed.
    """
    if not pods:
        return ()
    shown_pods, note = limit_rows_by_style(pods, style, ROWS_SHOWN)
    items = (*shown_pods, note) if note else tuple(shown_pods)
    return section(title, Bullets(items))


def build_unplaced_section(groups: Sequence[UnplacedPods], style: Style, title: str = "Not scheduled") -> Page:
    """Build the table of pods without a node, with kube-scheduler's reasons.

    Unless the style is wide, a reason that many workloads share is one row.
    """
    if not style.wide:
        groups = _merge_workloads_by_reason(groups)
    columns = [Column("pods", right=True), Column("workload, reason")]
    if style.width >= WIDE_WIDTH:
        columns = [Column("pods", right=True), Column("workload", keep=True), Column("verdict"), Column("reason")]
    return build_table(groups, columns, partial(_build_unplaced_row, style=style), style, title=title)


def _merge_workloads_by_reason(groups: Sequence[UnplacedPods]) -> list[UnplacedPods]:
    """Merge groups of pods with the same reason if these are more than WORKLOADS_PER_REASON workloads.

    All groups with the same reason are moved to the place of the first of them. A merged group names its first
    workloads. Groups are not merged if a workload is unknown.
    """
    groups_by_reason: dict[tuple[str, str, str], list[UnplacedPods]] = {}
    for group in groups:
        groups_by_reason.setdefault((group.verdict, group.message, group.cause), []).append(group)

    rows = []
    for same_reason in groups_by_reason.values():
        workloads = [group.workload for group in same_reason]
        if len(workloads) <= WORKLOADS_PER_REASON or not all(workloads):
            rows += same_reason
            continue
        pods = tuple(pod for group in same_reason for pod in group.pods)
        evicted_from = {pod: node for group in same_reason for pod, node in group.evicted_from.items()}
        title = f"{counted(len(workloads), 'workload')}: {join_first_few(workloads)}"
        rows.append(replace(same_reason[0], workload=title, pods=pods, evicted_from=evicted_from))
    return rows


def _build_unplaced_row(group: UnplacedPods, style: Style) -> Row:
    """Build the row of a group of pods without a node.

    Unless the style is wide, the workload, the verdict and the reason share a cell.
    """
    pod_names = [
        f"{pod} (evicted from {group.evicted_from[pod]})" if pod in group.evicted_from else pod for pod in group.pods
    ]
    pods = Marked(names(pod_names, len(pod_names)) if style.wide else names(pod_names), Tone.FAINT)
    number = f"{len(group.pods):,}"
    verdict = mark_verdict(group.verdict)
    message, *verbatim = describe_message(group.message, style, len(group.pods))
    is_fit_error = message != group.message
    message = f"{message}; {group.cause}" if group.cause else message
    if style.width >= WIDE_WIDTH:
        return (number, group.workload, verdict, Stack((message, pods, *verbatim)))
    why = message if is_fit_error else describe_verdict(f"{group.verdict}: {message}" if message else group.verdict)
    return (number, Stack((Marked(group.workload, Tone.STRONG), why, pods, *verbatim)))


def describe_message(message: str, style: Style, pods: int = 1) -> tuple[str, *tuple[Cell, ...]]:
    """Rewrite kube-scheduler's message as a clause about that many pods. With `-o wide` the literal message follows."""
    plain = rewrite_fit_error(message, pods)
    return (plain, *quote_message(message, style))


def quote_message(message: str, style: Style) -> tuple[Cell, ...]:
    """Return kube-scheduler's literal message if the style is wide and pages show it in other words, otherwise ()."""
    return (Marked(message, Tone.VERBATIM),) if style.wide and rewrite_fit_error(message) != message else ()


class NodeToKeep(Protocol):
    """A node that has to stay, with the reason."""

    @property
    def why(self) -> str:
        """The reason."""

    @property
    def pod(self) -> str:
        """The pod that keeps the node, or "" if no pod does."""

    @property
    def message(self) -> str:
        """kube-scheduler's message if that pod fits nowhere else, or ""."""

    @property
    def cordoned_in_replay(self) -> int:
        """The number of nodes that the message counts although only the replay cordoned them."""


def build_why_cell(node: NodeToKeep, style: Style) -> Stack:
    """Build the cell with the reason why a node stays. kube-scheduler's message about a pod is put into plain words."""
    if not node.message:
        return Stack((node.why,))
    return Stack(
        (describe_misfit(node.pod, node.message, closed=node.cordoned_in_replay), *quote_message(node.message, style))
    )


EVENT_NAMES = {
    "AssignedPodAdd": "pods that got a node",
    "AssignedPodDelete": "pods that left nodes",
    "UnschedulableTimeout": "five minutes",
    "ScheduleAttemptFailure": "their backoff",
}
"""Event label of kube-scheduler -> what it means."""


def build_retried_section(retried: Sequence[RetriedPods], style: Style) -> Page:
    """Build the table of pods that were tried again.

    Pods that wait again, and were tried again only because of a timeout, are left out.
    """
    groups = [group for group in retried if not group.queue or group.after.keys() - {"UnschedulableTimeout"}]
    return build_struct_table(
        groups, style, {"after": _describe_events, "queue": _describe_outcome}, title="Tried again"
    )


def _describe_events(group: RetriedPods) -> str:
    """Return the events after which the pods were retried."""
    return ", ".join(EVENT_NAMES.get(label, label) for label in group.after)


def _describe_outcome(group: RetriedPods) -> str:
    """Return the queue in which the pods ended and the plugins that rejected the pods, or "scheduled"."""
    refused = f": {', '.join(group.rejectors)}" if group.rejectors else ""
    return f"{group.queue}{refused}" if group.queue else "scheduled"


def build_preempted_section(
    evicted: Sequence[EvictedPod], style: Style, chain: EvictionChain | None = None, title: str = "Preempted pods"
) -> Page:
    """Build the list of preempted pods, and of victims that equal pods could replace.

    Only the first TIES_SHOWN of these victims are listed, unless the style lists all nodes. The eviction chain follows
    if replacements preempt other pods or return to their old nodes.
    """
    displaced = [pod.pod for pod in evicted if not pod.was_terminating]
    if len(displaced) > len({*displaced}):  # a replacement is listed under the name of the pod that it replaces
        title += f", {counted(len(displaced), 'eviction')} of {counted(len({*displaced}), 'pod')}"
    page = build_struct_table(evicted, style, {"target": _build_replacement_cell}, title=title, full=False)
    victims = {pod.pod for pod in evicted}
    tied = {pod.pod: pod.tied for pod in evicted if not victims.issuperset(pod.tied)}
    if equal := describe_victims(tied, tied):
        shown_ties, note = limit_rows(equal, None if style.lists_all_nodes else TIES_SHOWN)
        ties = "kube-scheduler may choose other victims among pods with the same priority and start time:"
        page = (*page, paragraph(ties), Bullets((*shown_ties, note) if note else tuple(shown_ties)))
    if chain is None or not chain.goes_on:
        return page
    return (*page, paragraph(f"In the end: {chain.sentence}"))


def _build_replacement_cell(evicted: EvictedPod) -> Cell:
    """Return the node of the replacement or, if there is none, what happens to the pod instead."""
    if evicted.was_terminating:
        return Marked("none (pod was already terminating)", Tone.FAINT)
    if evicted.fate == EvictionFate.LOST:
        return Marked("none (not recreated)", Tone.BAD)
    return evicted.target or Marked(evicted.fate, Tone.BAD)


def build_headroom_section(resources: Iterable[Headroom], where: str = "on one node", title: str = "Requests") -> Page:
    """Build a table of each requested resource: what is allocatable, requested before and after, and free afterwards.

    Resources that no pod requests are left out. The last column has the largest free amount, and `where` says in its
    title where this amount is free.
    """
    requested = [resource for resource in resources if resource.requested_before or resource.requested_after]
    columns = [
        Column("resource", keep=True),
        *number_columns("allocatable", "before", "after", f"most free afterwards {where}"),
    ]
    return build_table(requested, columns, _build_headroom_row, limit=None, title=title)


def _build_headroom_row(headroom: Headroom) -> Row:
    """Build the row of a resource: allocatable, requested before and after with percentages, and the most free."""
    name = headroom.resource
    requested = [
        f"{format_rounded(name, amount)} ({format_percentage(amount / headroom.allocatable)})"
        for amount in (headroom.requested_before, headroom.requested_after)
    ]
    total = format_rounded(name, headroom.allocatable)
    return (name, total, *requested, format_rounded(name, headroom.largest_free_after))


# -- over several runs ------------------------------------------------------------------------------------------------


def build_runs_section(runs: int, spreads: Mapping[str, Spread], words: Mapping[str, str]) -> Page:
    """Build the table of how numbers differ between runs. `words` names the numbers."""
    rows = [(words.get(name, name), spread) for name, spread in spreads.items()]
    return _build_spread_table(rows, f"{count(runs, 'run')}; everything else shown is of the first run")


def build_tried_orders_section(runs: int, unplaced: Mapping[str, Spread], proven: Mapping[str, int]) -> Page:
    """Build a table of how many pods of each workload get no node, depending on the order in which pods come back.

    The columns count the pods that get no node whatever the order, in every tried order, and in only some tried orders.
    ``runs`` is the number of tried orders. ``unplaced`` has, by workload, the smallest and largest number of pods
    without a node. ``proven`` has, by workload, the number of pods that can get no node in any order. Return an empty
    page if every pod got a node in every tried order.
    """
    if not any(spread.most for spread in unplaced.values()):
        return ()
    rows = []
    for name, spread in unplaced.items():
        # At least `least` pods got no node in every tried order; the proven pods are among them.
        in_any_order = proven.get(name, 0)
        in_each_tried = max(spread.least - in_any_order, 0)
        in_some_only = spread.most - spread.least
        rows.append((name, *map(_format_count, (in_any_order, in_each_tried, in_some_only))))
    columns = [Column("workload", keep=True), *number_columns("in any order", "in each tried", "in some only")]
    title = f"Without a node, of {count(runs, 'order')} in which pods may come back"
    return build_table(rows, columns, keep_row, limit=None, title=title, full=False)


def _format_count(number: int) -> str:
    """Return the number, or "" for 0."""
    return f"{number:,}" if number else ""


def build_variation_section(variation: Variation | None) -> Page:
    """Build the table of how the results of a simulation differ between runs, by workload and domain.

    Return () if the simulation ran only once.
    """
    if variation is None:
        return ()
    rows = [("placed", variation.placed), ("not scheduled", variation.pending), ("evicted", variation.evicted)]
    rows += [(f"{workload.workload}: running", workload.running) for workload in variation.workloads]
    rows += [
        (f"{workload.workload}: {domain}", spread)
        for workload in variation.workloads
        for domain, spread in _iter_varying_domains(workload)
    ]
    title = f"{count(variation.runs, 'run')}, {count(variation.outcomes, 'different outcome')}"
    return _build_spread_table(rows, title)


def _iter_varying_domains(workload: WorkloadVariation) -> Iterator[tuple[str, Spread]]:
    """Yield the domains in which the workload's number of pods differs between runs, each with these numbers."""
    for spread_by_domain in workload.domains.values():
        for domain, spread in spread_by_domain.items():
            if spread.least != spread.most:
                yield domain, spread


def _build_spread_table(spreads: Sequence[tuple[str, Spread]], title: str) -> Page:
    """Build the table of ranges over runs."""
    columns = [Column("pods", keep=True), *number_columns("over the runs")]
    return build_table(spreads, columns, lambda row: (row[0], str(row[1])), limit=None, title=title)


# -- pods by zone and node, as plots ----------------------------------------------------------------------------------


PODS = "pods"


def build_pods_before_and_after(zones: Sequence[PodCount], nodes: Sequence[PodCount], title_suffix: str = "") -> Page:
    """Build plots of pods by zone, and by the nodes that change most. Return () if no number changes."""
    changed = sorted(nodes, key=lambda node: (-abs(node.after - node.before), node.place))
    plots = (*build_zone_plot(zones, title_suffix), *_build_count_plot("node", changed, title_suffix))
    return section(f"Pods before and after{title_suffix}", *plots) if plots else ()


def build_zone_plot(zones: Sequence[PodCount], title_suffix: str = "") -> tuple[Plot, ...]:
    """Build the plot of pods by zone before and after, or nothing if the numbers stay the same."""
    if all(zone.before == zone.after for zone in zones):
        return ()
    return _build_count_plot("zone", zones, title_suffix)


def _build_count_plot(unit: str, counts: Sequence[PodCount], title_suffix: str) -> tuple[Plot, ...]:
    """Build the plot of the number of pods in each of the first MAX_PLACES places, before and after a change.

    ``unit`` is the kind of place, such as node or zone. ``title_suffix`` is appended to the title.
    """
    amounts = {
        pod_count.place: {"before": pod_count.before, "after": pod_count.after} for pod_count in counts[:MAX_PLACES]
    }
    return build_bar_plot(f"Pods by {unit}, before and after{title_suffix}", (unit, PODS), amounts, len(counts))


def build_pools_before_and_after(pools: Sequence[PoolChange], style: Style, fitting: int = 0) -> Page:
    """Build a table and plots of how a plan changes node pools.

    ``fitting`` is the number of pending pods that fit without the plan. These pods count only after the plan. Notes say
    this and name the cordoned nodes, which are not counted. Return () without pools.
    """
    if not pools:
        return ()
    fitting_pods = counted(fitting, "pending pod that fits", "pending pods that fit")
    fitting_note = f"The after values also include {fitting_pods} without these changes."
    node_counts: dict[str, dict[str, float]] = {
        pool.pool or NO_POOL[""]: {"before": pool.nodes_before, "after": pool.nodes_after}
        for pool in pools
        if pool.nodes_before != pool.nodes_after
    }
    cpu_percentages: dict[str, dict[str, float]] = {
        pool.pool or NO_POOL[""]: {"before": round(pool.cpu_before or 0, 1), "after": round(pool.cpu_after or 0, 1)}
        for pool in pools
    }
    columns = [Column("pool", keep=True), *number_columns("nodes", "pods", "cpu requested", "memory requested")]
    cordoned_note = _describe_cordoned_nodes(pools)
    return (
        *build_table(pools, columns, _build_pool_row, limit=None, title="Pools, before → after"),
        *([paragraph(Marked(cordoned_note, Tone.FAINT))] if cordoned_note else ()),
        *([paragraph(Marked(fitting_note, Tone.FAINT))] if fitting else ()),
        *build_bar_plot("Nodes by pool, before and after", ("pool", "nodes"), node_counts, len(node_counts)),
        *build_bar_plot(
            "Requested cpu by pool, before and after",
            ("pool", "% of allocatable"),
            cpu_percentages,
            len(cpu_percentages),
        ),
    )


def _describe_cordoned_nodes(pools: Sequence[PoolChange]) -> str:
    """Describe the cordoned nodes of the pools, which are not counted. Return "" if there are none."""
    cordoned = [
        f"{counted(pool.cordoned, 'cordoned node')} in {f'pool {pool.pool}' if pool.pool else NO_POOL['']}"
        for pool in pools
        if pool.cordoned
    ]
    if not cordoned:
        return ""
    number = sum(pool.cordoned for pool in pools)
    return (
        f"Not counted: {join_words(cordoned)} and {agreeing(number, 'its', 'their')} pods. A pod that moves off "
        f"{agreeing(number, 'that node', 'these nodes')} is counted on its new node."
    )


def _build_pool_row(pool: PoolChange) -> Row:
    """Build the row of a pool, with each of its numbers before and after the plan."""
    return (
        pool.pool or NO_POOL[""],
        _format_change(f"{pool.nodes_before:,}", f"{pool.nodes_after:,}"),
        _format_change(f"{pool.pods_before:,}", f"{pool.pods_after:,}"),
        _format_change(_format_share(pool.cpu_before), _format_share(pool.cpu_after)),
        _format_change(_format_share(pool.memory_before), _format_share(pool.memory_after)),
    )


def _format_share(percentage: float | None) -> str:
    """Format a percentage with one decimal, or return "-" if the pool has none of the resource."""
    return "-" if percentage is None else f"{percentage:.1f}%"


def _format_change(before: str, after: str) -> str:
    """Return both numbers with an arrow between them, or one number if nothing changes.

    >>> _format_change("7", "6"), _format_change("2", "2")
    ('7 → 6', '2')
    """
    return before if before == after else f"{before} → {after}"


def build_still_pending_section(
    still_pending: Mapping[str, str], rivals: Sequence[str], enough_nodes: int | None, style: Style
) -> Page:
    """Build the section about pods that stay pending, and the pods ahead of them in the queue.

    The section says how many new nodes would be enough. If `enough_nodes` is None, it says instead that the
    autoscaler's next nodes do not help these pods. Return () if no pod stays pending.
    """
    if not still_pending:
        return ()
    by_message: dict[str, list[str]] = {}
    for pod, message in still_pending.items():
        by_message.setdefault(message, []).append(pod)
    rows = [(first_of(pods), message) for message, pods in by_message.items()]
    columns = (Column("pods"), Column("kube-scheduler"))
    clauses = []
    if rivals:
        take = agreeing(len(rivals), "takes", "take")
        clauses.append(f"{counted(len(rivals), 'pod')} ahead in the queue {take} their room: {first_few(rivals)}")
    if enough_nodes is None:
        clauses.append("the nodes that the autoscaler adds in its next loops do not place them")
    else:
        pronoun = "it" if len(still_pending) == 1 else "them"
        clauses.append(f"{counted(enough_nodes, 'new node')} would be enough for {pronoun}, too")
    return (
        *build_table(rows, columns, lambda row: row, style, title="Still pending although nodes are added for them"),
        paragraph(f"{'; '.join(clauses)}."),
    )
