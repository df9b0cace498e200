"""Sections of several pages: what is not known, who waits and why, who is evicted, what is left, what to do next."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from kschedctl.render.page import (
    Cell,
    Command,
    Marked,
    Page,
    Stack,
    Style,
    Table,
    count,
    first_rows,
    names,
    paragraph,
    section,
)
from kschedctl.render.tables import rounded
from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.searches import SearchedNodes, SearchStart
from kschedctl.reports.simulation import EvictedPod, Headroom, RetriedPods, UnplacedPods
from kschedctl.reports.unknown import VERDICT, UnknownKind, reasons

ROWS_SHOWN = 25
ROOMY = 140
"""From this width on facts have a column of their own that is wide enough to read."""


def left_out_lines(not_replayed: tuple[str, ...], ignored: tuple[str, ...]) -> Page:
    """A line for each thing that could change the answer and was left out, and one for what the version drops."""
    told = [paragraph(Marked("not replayed yet:", Tone.WARNING), what) for what in not_replayed]
    if ignored:
        said = "the replayed version's API server drops it from new objects, its scheduler ignores or refuses it"
        told.append(paragraph(Marked("ignored:", Tone.WARNING), f"{'; '.join(ignored)}: {said}"))
    return tuple(told)


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
    looked_at = f"{searched.examined:,} of {count(searched.nodes, 'node')} looked at, {searched.found:,} fit"
    rest = f"{looked_at}; the next search begins at node {searched.next:,}"
    return (*search_lines(searched.start), paragraph(Marked("searched:", Tone.FAINT), rest))


def upstream_fault_lines(faults: tuple[str, ...]) -> Page:
    """A line for each of kube-scheduler's own faults that makes a difference."""
    return tuple(paragraph(Marked("upstream's fault:", Tone.WARNING), what) for what in faults)


def not_known_lines(unknown: Sequence[UnknownKind]) -> Page:
    """A line for what else than the verdict could be otherwise, by what was not read."""
    beside = [each for each in unknown if each.affects != VERDICT]
    words = {
        "message": "kube-scheduler's words and victims could be others",
        "scores": "the scores could be others",
        "victims": "the victims could be others",
        "remedies": "the remedies that work could be others",
        "replacement": "the best nodes for running pods could be others",
        "creation": "they would tell of pods that could not be created",
    }
    by_part = {affects: [each for each in beside if each.affects == affects] for affects in words}
    return tuple(
        paragraph(Marked("not known:", Tone.WARNING), f"{reasons(found)}; {words[affects]}")
        for affects, found in by_part.items()
        if found
    )


def interruption(interrupted: bool, known: str = "this is what was known by then") -> Page:
    """A line that says that there would be more to tell."""
    return (paragraph(Marked("Interrupted:", Tone.WARNING), known),) if interrupted else ()


REPLAYED = "Next: replayed, with this no pod is left without a node"


def next_section(style: Style, title: str = "Next") -> Page:
    """The commands to try."""
    commands = style.commands.get("", ())
    return section(title, *map(Command, commands)) if commands else ()


_VAIN = re.compile(
    r"\. (?:(?:no new claims to deallocate|still not schedulable), )?preemption: 0/\d+ nodes are .*", re.DOTALL
)
"""What kube-scheduler adds where preemption was tried in vain, as of 1.30 and as of 1.34."""


def in_brief(message: str, style: Style) -> str:
    """What kube-scheduler says of nodes; with ``-o wide`` also that, and why, preemption would help on none.

    >>> in_brief("0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are available: …", Style())
    '0/2 nodes are available: 2 Insufficient cpu.'
    """
    return message if style.wide else _VAIN.sub(".", message)


def unplaced_section(groups: Sequence[UnplacedPods], style: Style) -> Page:
    """The pods without a node, with kube-scheduler's reasons: beside the workload, or beneath it for want of room."""
    if not groups:
        return ()
    shown, note = first_rows(groups, style, ROWS_SHOWN)
    if style.width >= ROOMY:
        columns = [Column("pods", right=True), Column("workload", keep=True), Column("verdict"), Column("why")]
    else:
        columns = [Column("pods", right=True), Column("workload and why")]
    return section("Not scheduled", Table(tuple(columns), tuple(_unplaced(group, style) for group in shown), note))


def _unplaced(group: UnplacedPods, style: Style) -> tuple[Cell | Stack, ...]:
    pods = Marked(names(group.pods, len(group.pods)) if style.wide else names(group.pods), Tone.FAINT)
    number, verdict = f"{len(group.pods):,}", Marked(group.verdict, Tone.BAD)
    message = in_brief(group.message, style)
    if style.width >= ROOMY:
        return (number, group.workload, verdict, Stack((message, pods)))
    why = f"{group.verdict}: {message}" if message else group.verdict
    return (number, Stack((Marked(group.workload, Tone.STRONG), why, pods)))


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
    if not groups:
        return ()
    shown, note = first_rows(groups, style, ROWS_SHOWN)
    columns = (
        Column("pods", right=True),
        Column("workload", keep=True),
        Column("again after", beneath="again after"),
        Column("then", beneath="then"),
    )
    return section("Tried again", Table(columns, tuple(map(_retried, shown)), note))


def _retried(group: RetriedPods) -> tuple[Cell | Stack, ...]:
    after = ", ".join(AFTER.get(label, label) for label in group.after)
    refused = f": {', '.join(group.rejectors)}" if group.rejectors else ""
    return (f"{len(group.pods):,}", group.workload, after, f"{group.queue}{refused}" if group.queue else "scheduled")


def evicted_section(evicted: Sequence[EvictedPod], style: Style) -> Page:
    """The victims of preemption."""
    if not evicted:
        return ()
    shown, note = first_rows(evicted, style, ROWS_SHOWN)
    columns = [
        Column("evicted pod", keep=True),
        Column("node", keep=True, beneath="on"),
        Column("priority", right=True),
    ]
    columns += [] if style.narrow else [Column("for", keep=True, beneath="for")]
    columns += [Column("then", keep=True, beneath="then"), Column("budgets", beneath="budgets")]
    table = Table(tuple(columns), tuple(_evicted(pod, style) for pod in shown), note)
    return section("Evicted by preemption", table.without_empty_columns())


def _evicted(evicted: EvictedPod, style: Style) -> tuple[Cell | Stack, ...]:
    """One row; for whom the pod goes stands below it where there is no room beside it."""
    rest = _fate(evicted), ", ".join(evicted.budgets)
    if style.narrow:
        pod = Stack((evicted.pod, Marked(f"for {evicted.by}", Tone.FAINT)))
        return (pod, evicted.node, f"{evicted.priority}", *rest)
    return (evicted.pod, evicted.node, f"{evicted.priority}", evicted.by, *rest)


def _fate(evicted: EvictedPod) -> Cell:
    return evicted.target or Marked(evicted.fate, Tone.BAD)


def headroom_section(resources: Iterable[Headroom], where: str = "on a node") -> Page:
    """What is requested before and after, and the most that one node has left, ``where`` saying of which nodes."""
    rows = tuple(_resource(found) for found in resources if found.requested_before or found.requested_after)
    if not rows:
        return ()
    columns = [Column("resource", keep=True), Column("allocatable", right=True)]
    columns += [Column(name, right=True) for name in ("before", "after", f"most free {where}")]
    return section("Requested", Table(tuple(columns), rows))


def _resource(found: Headroom) -> tuple[Cell, ...]:
    amounts = (found.allocatable, found.requested_before, found.requested_after, found.largest_free_after)
    total, before, after, free = (rounded(found.resource, amount) for amount in amounts)
    parts = (f"{100 * amount / found.allocatable:.1f} %" for amount in amounts[1:3])
    return (found.resource, total, *(f"{a} ({p})" for a, p in zip((before, after), parts, strict=True)), free)
