"""What an audit tells of packing: room by pool and what of it is of no use, and nodes that could go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kschedctl.render.page import (
    Cell,
    Column,
    Command,
    Marked,
    Page,
    Stack,
    Style,
    Table,
    Tone,
    count,
    first_rows,
    names,
    paragraph,
)
from kschedctl.render.pages.sections import ROWS_SHOWN, rounded
from kschedctl.render.plots.plot import bars
from kschedctl.reports.audit.packing import KeptNode, PackingSection, PoolRoom, StrandedRoom, TypicalPods

FEW = 5
NO_POOL = "(none)"


def packing_blocks(section: PackingSection, style: Style) -> Page:
    """Room by pool, then what is stranded; then what was tried. In full with ``-o wide``."""
    return (
        *_rooms(section.pools, style),
        *_used(section.pools),
        *_stranded(section.stranded, style),
        *(_typical(section.typical, style) if style.wide or section.stranded else ()),
        *_emptied(section, style),
        *_kept(section.kept, style),
    )


def _rooms(pools: Sequence[PoolRoom], style: Style) -> Page:
    rows = [
        (
            pool.pool or NO_POOL,
            f"{pool.nodes:,}",
            each.resource,
            rounded(each.resource, each.allocatable),
            rounded(each.resource, each.free),
            Marked(rounded(each.resource, each.stranded), Tone.WARNING) if each.stranded else "0",
        )
        for pool in pools
        for each in pool.resources
        if style.wide or each.resource in ("cpu", "memory") or each.stranded
    ]
    if not rows:
        return ()
    shown, note = first_rows(rows, style, ROWS_SHOWN)
    right = [Column(name, right=True) for name in ("allocatable", "free", "stranded")]
    return (Table((Column("pool", keep=True), Column("nodes", right=True), Column("resource"), *right), shown, note),)


def _used(pools: Sequence[PoolRoom]) -> Page:
    """What of each pool no further pod can have."""
    found = [(pool, each) for pool in pools for each in pool.resources if each.allocatable]
    shown = [(pool, each) for pool, each in found if each.resource in ("cpu", "memory") or each.stranded]
    amounts = {
        f"{pool.pool or NO_POOL} {each.resource}": {
            "requested": round(100 * each.requested / each.allocatable, 1),
            "stranded": round(100 * each.stranded / each.allocatable, 1),
        }
        for pool, each in shown
    }
    return bars("Requested and stranded, by pool", ("pool and resource", "% of allocatable"), amounts, len(shown))


def _stranded(rooms: Sequence[StrandedRoom], style: Style) -> Page:
    if not rooms:
        return ()
    shown, note = first_rows(rooms, style, ROWS_SHOWN)
    rows = tuple((r.pool or NO_POOL, f"{r.nodes:,}", r.reason, _amounts(r.free), names(r.examples)) for r in shown)
    columns = (Column("pool", keep=True), Column("nodes", right=True), Column("keeps pods away"))
    return (Table((*columns, Column("free there", beneath="free"), Column("such as", beneath="such as")), rows, note),)


def _typical(pods: Sequence[TypicalPods], style: Style) -> Page:
    """The pods that stand for all that go to a pool, or wait."""
    shown, note = first_rows(pods, style, FEW)
    rows = tuple(map(_shape, shown))
    columns = (
        Column("pods of", keep=True),
        Column("pods", right=True),
        Column("request"),
        Column("fit on", right=True),
    )
    return (Table((*columns, Column("workloads")), rows, note),)


def _shape(pods: TypicalPods) -> tuple[Cell | Stack, ...]:
    more = f" and {pods.workloads - len(pods.examples):,} more" if pods.workloads > len(pods.examples) else ""
    whose = "pending" if pods.pending else pods.pool or NO_POOL
    return (whose, f"{pods.pods:,}", _amounts(pods.requests), f"{pods.fits_on:,}", ", ".join(pods.examples) + more)


def _emptied(section: PackingSection, style: Style) -> Page:
    tried = f"{section.tried:,} of {count(section.candidates, 'node')} drained in turn, those with least to move first"
    more = style.commands.get(section.name, ()) if section.tried < section.candidates else ()
    rest = "; to try the others:" if more else ""
    how: Page = (paragraph(Marked("tried:", Tone.FAINT), f"{tried}{rest}"), *map(Command, more))
    how = how if section.candidates else ()
    if not section.savings:
        return how
    shown, note = first_rows(section.savings, style, ROWS_SHOWN)
    rows = tuple((s.pool or NO_POOL, f"{s.nodes:,}", f"{s.empty:,}", _amounts(s.saves)) for s in shown)
    columns = (Column("pool", keep=True), Column("could go", right=True), Column("empty now", right=True))
    emptied = names([each.node for each in section.emptied], len(section.emptied) if style.wide else FEW)
    which = (paragraph(Marked("emptied:", Tone.FAINT), emptied),) if emptied else ()
    return (*how, Table((*columns, Column("saves")), rows, note), *which)


def _kept(kept: Sequence[KeptNode], style: Style) -> Page:
    if not kept:
        return ()
    shown, note = first_rows(kept, style, FEW)
    columns = (Column("cannot be emptied", keep=True), Column("pool", keep=True, beneath="of pool"), Column("as"))
    return (Table(columns, tuple((each.node, each.pool or NO_POOL, each.why) for each in shown), note),)


def _amounts(found: Mapping[str, int]) -> str:
    return ", ".join(f"{rounded(name, amount)} {name}" for name, amount in found.items())
