"""Sections of several pages: what is not known, who waits and why, who is evicted, how runs differ, what to do next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from kschedctl.render.page import (
    Bullets,
    Cell,
    Command,
    Marked,
    Page,
    Stack,
    Style,
    count,
    names,
    paragraph,
    section,
    shown_first,
    verdict_words,
)
from kschedctl.render.plots.plot import MOST_PLACES, Plot, bars
from kschedctl.render.tables import Row, as_is, listed, numbers, rounded, table_of
from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.eviction_chain import EvictionChain, list_victims
from kschedctl.reports.not_created import NOT_CREATED
from kschedctl.reports.placements import EvictedPod, Headroom, PodCount, RetriedPods, Spread, UnplacedPods, Variation
from kschedctl.reports.plugin_answers import SearchedNodes, SearchStart
from kschedctl.reports.pool_change import NO_POOL, PoolChange
from kschedctl.reports.unknown import VERDICT, UnknownKind, describe_unread
from kschedctl.text.counts import agreeing
from kschedctl.text.fit_errors import sentence

TIES_SHOWN = 3
ROOMY = 140
"""From this width on facts have a column of their own that is wide enough to read."""


def caveats(
    not_replayed: tuple[str, ...],
    ignored: tuple[str, ...] = (),
    extended: tuple[str, ...] = (),
    unknown: Sequence[UnknownKind] = (),
    start: SearchStart | None = None,
) -> Page:
    """Lines for all that an answer leaves out, rests on or does not know."""
    left_out = (*left_out_lines(not_replayed, ignored), *extended_lines(extended))
    return (*left_out, *not_known_lines(unknown), *search_lines(start))


def left_out_lines(not_replayed: tuple[str, ...], ignored: tuple[str, ...]) -> Page:
    """A line for each thing that could change the answer and was left out, and one for what the version drops."""
    paragraphs = [paragraph(Marked("not replayed yet:", Tone.WARNING), what) for what in not_replayed]
    if ignored:
        said = "the replayed version's API server drops it from new objects, its scheduler ignores or refuses it"
        paragraphs.append(paragraph(Marked("ignored:", Tone.WARNING), f"{'; '.join(ignored)}: {said}"))
    return tuple(paragraphs)


def search_lines(start: SearchStart | None) -> Page:
    """A line that says where the search for nodes began, where only a part of them was looked at."""
    if start is None:
        return ()
    whence = "" if start.known else "; where kube-scheduler's own does is not known: --start-index NUMBER"
    return (paragraph(Marked("sampling:", Tone.WARNING), f"the first search begins at node {start.index:,}{whence}"),)


def searched_lines(searched: SearchedNodes | None) -> Page:
    """What was looked at for one pod, where not all nodes were."""
    if searched is None:
        return ()
    looked_at = (
        f"{searched.examined:,} of {count(searched.nodes, 'node')} looked at, {searched.found:,} "
        f"{agreeing(searched.found, 'fits', 'fit')}"
    )
    rest = f"{looked_at}; the next search begins at node {searched.next:,}"
    return (*search_lines(searched.start), paragraph(Marked("searched:", Tone.FAINT), rest))


def upstream_fault_lines(faults: tuple[str, ...]) -> Page:
    """A line for each of kube-scheduler's own faults that makes a difference."""
    return tuple(paragraph(Marked("upstream's fault:", Tone.WARNING), what) for what in faults)


def not_known_lines(unknown: Sequence[UnknownKind]) -> Page:
    """A line for what else than the verdict could be otherwise, by what was not read."""
    beside = [kind for kind in unknown if kind.affects != VERDICT]
    words = {
        "message": "kube-scheduler's message and victims could differ",
        "scores": "the scores could differ",
        "victims": "the victims could differ",
        "remedies": "the fixes that work could differ",
        "replacement": "the best nodes for running pods could differ",
        "creation": "they would show pods that could not be created",
    }
    by_part = {affects: [kind for kind in beside if kind.affects == affects] for affects in words}
    return tuple(
        paragraph(Marked("not known:", Tone.WARNING), f"{describe_unread(unknowns)}; {words[affects]}")
        for affects, unknowns in by_part.items()
        if unknowns
    )


def extended_lines(extended: tuple[str, ...]) -> Page:
    """A line with what to know of what extenders that were asked answered."""
    return (paragraph(Marked("note:", Tone.WARNING), "; ".join(extended)),) if extended else ()


def interruption(interrupted: bool, known: str = "a partial result") -> Page:
    """A line that says that there would be more to tell."""
    return (paragraph(Marked("Interrupted:", Tone.WARNING), known),) if interrupted else ()


REPLAYED = "Next: replayed, with this no pod is left without a node"


def next_section(style: Style, title: str = "Next") -> Page:
    """The commands to try."""
    commands = style.commands.get("", ())
    return section(title, *map(Command, commands)) if commands else ()


VERDICTS = {
    "Schedulable": Tone.GOOD,
    **dict.fromkeys(("Unschedulable", "Error", NOT_CREATED, "newly pending"), Tone.BAD),
}
"""A verdict -> its tone; of others, such as that of a gated pod, a warning."""


def marked_verdict(verdict: str, end: str = "") -> Marked:
    """In words and in its tone."""
    return Marked(verdict_words(verdict) + end, VERDICTS.get(verdict, Tone.WARNING))


def unplaced_section(groups: Sequence[UnplacedPods], style: Style) -> Page:
    """The pods without a node, with kube-scheduler's reasons: beside the workload, or beneath it for want of room."""
    columns = [Column("pods", right=True), Column("workload and why")]
    if style.width >= ROOMY:
        columns = [Column("pods", right=True), Column("workload", keep=True), Column("verdict"), Column("why")]
    return table_of(groups, columns, partial(_unplaced, style=style), style, title="Not scheduled")


def _unplaced(group: UnplacedPods, style: Style) -> Row:
    pods = Marked(names(group.pods, len(group.pods)) if style.wide else names(group.pods), Tone.FAINT)
    number, verdict = f"{len(group.pods):,}", marked_verdict(group.verdict)
    message, *verbatim = refused(group.message, style)
    message = f"{group.cause}. {message}" if group.cause else message
    if style.width >= ROOMY:
        return (number, group.workload, verdict, Stack((message, pods, *verbatim)))
    why = verdict_words(f"{group.verdict}: {message}" if message else group.verdict)
    return (number, Stack((Marked(group.workload, Tone.STRONG), why, pods, *verbatim)))


def refused(message: str, style: Style) -> tuple[str, *tuple[Cell, ...]]:
    """What kube-scheduler says, in a sentence; with ``-o wide`` then in its own words, where these are others."""
    plain = sentence(message)
    return (plain, Marked(message, Tone.VERBATIM)) if style.wide and plain != message else (plain,)


AFTER = {
    "AssignedPodAdd": "pods that came to nodes",
    "AssignedPodDelete": "pods that left nodes",
    "UnschedulableTimeout": "five minutes",
    "ScheduleAttemptFailure": "their backoff",
}
"""What kube-scheduler's label of an event stands for."""


def retried_section(retried: Sequence[RetriedPods], style: Style) -> Page:
    """The pods that were tried again; not those for which nothing happened but that time passed in vain."""
    groups = [group for group in retried if not group.queue or group.after.keys() - {"UnschedulableTimeout"}]
    return listed(groups, style, {"after": _after, "queue": _then}, title="Tried again")


def _after(group: RetriedPods) -> str:
    return ", ".join(AFTER.get(label, label) for label in group.after)


def _then(group: RetriedPods) -> str:
    refused = f": {', '.join(group.rejectors)}" if group.rejectors else ""
    return f"{group.queue}{refused}" if group.queue else "scheduled"


def evicted_section(evicted: Sequence[EvictedPod], style: Style, chain: EvictionChain | None = None) -> Page:
    """Build the list of preempted pods; below it, if replacements preempt or take their nodes again, the chain."""
    page = listed(evicted, style, {"target": _fate}, title="Evicted by preemption", full=False)
    tied = {pod.pod: pod.tied for pod in evicted if pod.tied}
    if equal := list_victims(tied, tied):
        shown, note = shown_first(equal, None if style.unlimited else TIES_SHOWN)
        ties = "Equal in priority and start, so that kube-scheduler may evict either:"
        page = (*page, paragraph(ties), Bullets((*shown, note) if note else tuple(shown)))
    if chain is None or not chain.goes_on:
        return page
    return (*page, paragraph(f"In the end: {chain.sentence}"))


def _fate(evicted: EvictedPod) -> Cell:
    return evicted.target or Marked(evicted.fate, Tone.BAD)


def headroom_section(resources: Iterable[Headroom], where: str = "on a node") -> Page:
    """What is requested before and after, and the most that one node has left, ``where`` saying of which nodes."""
    requested = [resource for resource in resources if resource.requested_before or resource.requested_after]
    columns = [Column("resource", keep=True), *numbers("allocatable", "before", "after", f"most free {where}")]
    return table_of(requested, columns, _resource, limit=None, title="Requested")


def _resource(headroom: Headroom) -> Row:
    amounts = (headroom.allocatable, headroom.requested_before, headroom.requested_after, headroom.largest_free_after)
    total, before, after, free = (rounded(headroom.resource, amount) for amount in amounts)
    parts = (f"{100 * amount / headroom.allocatable:.1f} %" for amount in amounts[1:3])
    return (headroom.resource, total, *(f"{a} ({p})" for a, p in zip((before, after), parts, strict=True)), free)


# -- over several runs ------------------------------------------------------------------------------------------------


def over_runs_section(runs: int, spreads: Mapping[str, Spread], words: Mapping[str, str]) -> Page:
    """``words``: a number's name -> how it is told."""
    rows = [(words.get(name, name), spread) for name, spread in spreads.items()]
    return _spreads(rows, f"{runs:,} runs; what is shown besides is of the first")


def order_section(runs: int, unplaced: Mapping[str, Spread], proven: Mapping[str, int]) -> Page:
    """How many pods of each workload get no node: in whatever order, in each that was tried, and in some only."""
    if not any(spread.most for spread in unplaced.values()):
        return ()
    rows = [(name, *map(_number, _parts(spread, proven.get(name, 0)))) for name, spread in unplaced.items()]
    columns = [Column("workload", keep=True), *numbers("in any order", "in each tried", "in some only")]
    title = f"Without a node, of {count(runs, 'order')} in which pods may come back"
    return table_of(rows, columns, as_is, limit=None, title=title, full=False)


def _parts(spread: Spread, proven: int) -> tuple[int, int, int]:
    """How many pods provably get no node, how many more got none in any order tried, and how many in some only."""
    return proven, max(spread.least - proven, 0), spread.most - spread.least


def _number(number: int) -> str:
    return f"{number:,}" if number else ""


def variation_section(variation: Variation | None) -> Page:
    """The numbers of a simulation, of its workloads, and of the domains in which they are not always the same."""
    if variation is None:
        return ()
    rows = [("placed", variation.placed), ("not scheduled", variation.pending), ("evicted", variation.evicted)]
    rows += [(f"{w.workload}: running", w.running) for w in variation.workloads]
    rows += [
        (f"{w.workload}: {value}", spread)
        for w in variation.workloads
        for values in w.domains.values()
        for value, spread in values.items()
        if spread.least != spread.most
    ]
    return _spreads(rows, f"{count(variation.runs, 'run')}, {count(variation.outcomes, 'different outcome')}")


def _spreads(spreads: Sequence[tuple[str, Spread]], title: str) -> Page:
    columns = [Column("pods", keep=True), *numbers("over the runs")]
    return table_of(spreads, columns, lambda row: (row[0], str(row[1])), limit=None, title=title)


# -- pods by zone and node, as plots ----------------------------------------------------------------------------------


PODS = "pods"


def before_and_after(zones: Sequence[PodCount], nodes: Sequence[PodCount], what: str = "") -> Page:
    """Every zone, and the nodes of which the number of pods changes most; ``what`` they are before and after."""
    changed = sorted(nodes, key=lambda node: (-abs(node.after - node.before), node.place))
    plots = (*zones_plot(zones, what), *_counts("node", changed, what))
    return section(f"Pods before and after{what}", *plots) if plots else ()


def zones_plot(zones: Sequence[PodCount], what: str = "") -> tuple[Plot, ...]:
    return _counts("zone", zones, what)


def _counts(unit: str, counts: Sequence[PodCount], what: str) -> tuple[Plot, ...]:
    amounts = {
        pod_count.place: {"before": pod_count.before, "after": pod_count.after} for pod_count in counts[:MOST_PLACES]
    }
    return bars(f"Pods by {unit}, before and after{what}", (unit, PODS), amounts, len(counts))


def pools_before_and_after(pools: Sequence[PoolChange], style: Style) -> Page:
    """What a plan makes of pools, as a table and, of the nodes or what is requested of them, as bars."""
    if not pools:
        return ()
    changes: dict[str, dict[str, float]] = {
        pool.pool or NO_POOL[""]: {"now": pool.nodes_before, "then": pool.nodes_after}
        for pool in pools
        if pool.nodes_before != pool.nodes_after
    }
    requested: dict[str, dict[str, float]] = {
        pool.pool or NO_POOL[""]: {"now": round(pool.cpu_before or 0, 1), "then": round(pool.cpu_after or 0, 1)}
        for pool in pools
    }
    return (
        *listed(pools, style, title="Pools, before and after"),
        *bars("Nodes by pool, before and after", ("pool", "nodes"), changes, len(changes)),
        *bars("Requested cpu by pool, before and after", ("pool", "% of allocatable"), requested, len(requested)),
    )
