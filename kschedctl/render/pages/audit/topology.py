"""What an audit tells of topology: workloads by their gravest loss, and constraints that do not hold."""

from __future__ import annotations

from kschedctl.render.page import Cell, Column, Marked, Page, Stack, Style, Table, Tone, first_rows
from kschedctl.render.pages.sections import ROWS_SHOWN
from kschedctl.reports.audit.topology import (
    BrokenDomain,
    PlacedWorkload,
    SpreadPromise,
    TopologySection,
    WorkloadDomains,
)


def topology_blocks(section: TopologySection, style: Style) -> Page:
    """Two tables; neither where there is nothing to tell."""
    return (*_placed(section.placed, style), *_promises(section.promises, style))


def _placed(placed: tuple[PlacedWorkload, ...], style: Style) -> Page:
    if not placed:
        return ()
    rows = [(each, domains) for each in placed for domains in each.by_key]
    shown, note = first_rows(rows, style, ROWS_SHOWN)
    columns = [Column("workload"), Column("pods", right=True), Column("by"), Column("domains", right=True)]
    columns += [Column("skew", right=True), Column("gravest loss")]
    return (Table(tuple(columns), tuple(_domains(*row) for row in shown), note),)


def _domains(workload: PlacedWorkload, found: WorkloadDomains) -> tuple[Cell | Stack, ...]:
    first = found.losses[0] if found.losses else None
    loss: Cell = f"{found.most}: {found.most_pods:,} of {workload.pods:,} pods" if first else "no pod in any domain"
    if first and first.lost == workload.pods:
        loss = Marked(f"{found.most}: all pods", Tone.BAD)
    elif first:
        loss = f"{loss}, then skew {first.skew:,}"
    used = f"{found.used:,} of {found.domains:,}"
    return (workload.workload, f"{workload.pods:,}", found.key, used, f"{found.skew:,}", loss)


def _promises(promises: tuple[SpreadPromise, ...], style: Style) -> Page:
    if not promises:
        return ()
    shown, note = first_rows(promises, style, ROWS_SHOWN)
    columns = [Column("workload"), Column("constraint"), Column("max", right=True), Column("skew", right=True)]
    columns += [Column("most"), Column("fewest"), Column("cannot come back")]
    return (Table(tuple(columns), tuple(map(_promise, shown)), note).without_empty_columns(),)


def _promise(promise: SpreadPromise) -> tuple[Cell | Stack, ...]:
    skew = Marked(f"{promise.skew:,}", Tone.GOOD if promise.holds else Tone.BAD)
    constraint = Stack((promise.key, Marked(promise.when_unsatisfiable, Tone.FAINT)))
    most, fewest = f"{promise.most}: {promise.most_pods:,}", f"{promise.least}: {promise.least_pods:,}"
    stranded = Stack(tuple(filter(None, map(_stranded, promise.losses))))
    return (promise.workload, constraint, f"{promise.max_skew:,}", skew, most, fewest, stranded)


def _stranded(loss: BrokenDomain) -> str:
    if loss.stranded:
        return f"{loss.stranded:,} if {loss.domain} is lost"
    return f"{loss.stranded_while_down:,} while {loss.domain} is down" if loss.stranded_while_down else ""
