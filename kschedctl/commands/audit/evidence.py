"""The evidence of an audit: who schedules, what waits, where pods are, who is above whom, what room is left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kschedctl.api.resource_names import CPU, format_amount, format_in_one_unit
from kschedctl.commands.audit.leader.report import DifferentSetting, LeaderSection, SchedulerLease, ServedName
from kschedctl.commands.audit.packing.report import PackingSection, PoolRoom, TypicalPods
from kschedctl.commands.audit.placed.report import OvercommittedNode, PlacedSection
from kschedctl.commands.audit.priorities.report import EvictedWorkload, PrioritiesSection, PriorityTier
from kschedctl.commands.audit.queue.report import PodsInQueue, QueueSection
from kschedctl.commands.audit.topology.report import (
    BrokenDomain,
    PlacedWorkload,
    SpreadPromise,
    TopologySection,
    WorkloadDomains,
)
from kschedctl.commands.wakes.report import RejectorReport
from kschedctl.render.page import (
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
)
from kschedctl.render.plots.plot import build_bar_plot
from kschedctl.render.sections import describe_message
from kschedctl.render.tables import ROWS_SHOWN, build_struct_table, build_table, format_rounded, return_row
from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.placements import EvictionFate
from kschedctl.reports.pool_change import NO_POOL
from kschedctl.text.counts import agreeing, counted

FEW = 5
SHOWN = ("cpu", "memory")
QUEUES = {"unknown": Tone.BAD, "activeQ": Tone.GOOD, "backoffQ": Tone.GOOD}


# -- who schedules -----------------------------------------------------------------------------------------------------


def leader_blocks(report: LeaderSection, style: Style) -> Page:
    """Leases, the names that pods choose, and what instances do not share."""
    since = {"leads_for": lambda lease: lease.leads_for or lease.since, "silent_for": _renewed}
    return (
        *build_struct_table(report.leases, style, since),
        *build_struct_table(report.names, style, {"instances": _instances}),
        *_differences(report.differences, style),
    )


def _renewed(lease: SchedulerLease) -> Marked:
    return Marked(lease.silent_for or lease.renewed, Tone.BAD if lease.stale else Tone.GOOD)


def _instances(name: ServedName) -> str:
    return names([f"{instance.instance} ({instance.placed:,} placed)" for instance in name.instances])


def _differences(settings: Sequence[DifferentSetting], style: Style) -> Page:
    rows = [
        (difference.setting, value or "(not set)", names(who))
        for difference in settings
        for value, who in difference.values.items()
    ]
    return build_table(rows, (Column("differs", keep=True), Column("value"), Column("instances")), return_row, style)


# -- what waits --------------------------------------------------------------------------------------------------------


def queue_blocks(report: QueueSection, style: Style) -> Page:
    """The queues with their pods; beneath each what would wake the first of them."""
    columns = (
        Column("pods", right=True),
        Column("age"),
        Column("queue", keep=True),
        Column("which, and what wakes it"),
    )
    return build_table(report.queued, columns, lambda queued: _queue(queued, style), style, full=False)


def _queue(group: PodsInQueue, style: Style) -> tuple[Cell | Stack, ...]:
    queue = Marked(group.queue, QUEUES.get(group.queue, Tone.WARNING))
    return (f"{len(group.pods):,}", group.age, queue, Stack(tuple(_queued(group, style))))


def _queued(group: PodsInQueue, style: Style) -> Iterator[Cell]:
    yield Marked(names(group.pods), Tone.STRONG)
    yield group.headline
    if style.wide:
        ways = [f"{wakes.plugin}: {way.words}" for wakes in group.wakes for way in wakes.wake_ups]
    else:
        ways = [f"{wakes.plugin}: {wakes.wake_ups[0].words}{_more(wakes)}" for wakes in group.wakes if wakes.wake_ups]
    yield from (Marked(way, Tone.FAINT) for way in ways)


def _more(rejector: RejectorReport) -> str:
    others = len(rejector.wake_ups) - 1
    return f", or {counted(others, 'other change')}" if others else ""


# -- where pods are ----------------------------------------------------------------------------------------------------


def placed_blocks(report: PlacedSection, style: Style) -> Page:
    """What was judged; then a table for each kind of evidence."""
    others = f"; {count(report.others, 'pod')} of schedulers that are not replayed" if report.others else ""
    return (
        paragraph(Marked("judged:", Tone.FAINT), f"{count(report.judged, 'bound pod')}{others}"),
        *_overcommitted(report.overcommitted, style),
        *build_struct_table(report.misplaced, style),
        *build_struct_table(report.refused, style),
    )


def _overcommitted(nodes: Sequence[OvercommittedNode], style: Style) -> Page:
    """With the pods that came last, those marked that were too much."""
    rows = [
        (
            *((node.node, node.resource, " of ".join(_requested(node))) if first else ("", "", "")),
            Marked(arrival.pod, Tone.WARNING) if arrival.beyond else arrival.pod,
            format_rounded(CPU, arrival.requests)
            if node.resource == CPU
            else format_amount(node.resource, arrival.requests),
            arrival.at or "?",
        )
        for node in nodes
        for first, arrival in zip([True] + [False] * len(node.arrivals), node.arrivals, strict=False)
    ]
    columns = (Column("node", keep=True), Column("resource"), Column("requested", right=True), Column("came last"))
    return build_table(rows, (*columns, Column("requests", right=True), Column("at")), return_row, style)


def _requested(node: OvercommittedNode) -> tuple[str, ...]:
    """Cores, as in all tables; of other resources a unit in which different amounts look different."""
    both = (node.requested, node.allocatable)
    return (
        tuple(format_rounded(CPU, amount) for amount in both)
        if node.resource == CPU
        else format_in_one_unit(node.resource, *both)
    )


def topology_blocks(report: TopologySection, style: Style) -> Page:
    """Workloads by their gravest loss, and constraints that do not hold."""
    placed = [(workload, domains) for workload in report.placed for domains in workload.by_key]
    columns = [Column("workload"), Column("pods", right=True), Column("by"), Column("domains", right=True)]
    columns += [Column("skew", right=True), Column("gravest loss")]
    promised = [Column("workload"), Column("constraint"), Column("max", right=True), Column("skew", right=True)]
    promised += [Column("most"), Column("fewest"), Column("cannot come back")]
    return (
        *build_table(placed, columns, lambda row: _domains(*row), style),
        *build_table(report.promises, promised, _promise, style, full=False),
    )


def _domains(workload: PlacedWorkload, domains: WorkloadDomains) -> tuple[Cell | Stack, ...]:
    first = domains.losses[0] if domains.losses else None
    loss: Cell = (
        f"{domains.most}: {domains.most_pods:,} of {count(workload.pods, 'pod')}" if first else "no pod in any domain"
    )
    if first and first.lost == workload.pods:
        loss = Marked(f"{domains.most}: all pods", Tone.BAD)
    elif first:
        loss = f"{loss}, then skew {first.skew:,}"
    used = f"{domains.used:,} of {domains.domains:,}"
    return (workload.workload, f"{workload.pods:,}", domains.key, used, f"{domains.skew:,}", loss)


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


# -- who is above whom -------------------------------------------------------------------------------------------------


def priorities_blocks(report: PrioritiesSection, style: Style) -> Page:
    """The tiers first, the highest at the top; who starves is among what is found, with its figures."""
    exposed = build_struct_table(report.exposed, style, title="Behind Services, below others", limit=ROWS_SHOWN // 2)
    waits = build_struct_table(report.starving, style, title="Waiting too long", note="came: started since they wait")
    return (
        *_tiers(report, style),
        *_victims(report, style),
        *(waits if style.wide else ()),
        *build_struct_table(report.preempted, style, title="Preempted lately", limit=ROWS_SHOWN // 2, full=False),
        *exposed,
    )


def _tiers(report: PrioritiesSection, style: Style) -> Page:
    resources: tuple[str, ...] = SHOWN
    if style.wide:
        more = (name for tier in report.tiers for name in tier.requests if name not in (*SHOWN, "pods"))
        resources = (*SHOWN, *dict.fromkeys(more))
    numbers = ("priority", "pods", "pending", "nodes", *resources, "serving")
    columns = (Column("tier", keep=True), *(Column(name, right=True) for name in numbers), Column("preempts"))
    note = "serving: pods behind a Service"
    return build_table(
        report.tiers, columns, lambda tier: _tier(tier, resources), style, limit=None, note=note, full=False
    )


def _tier(tier: PriorityTier, resources: tuple[str, ...]) -> tuple[Cell, ...]:
    amounts = (format_rounded(name, tier.requests[name]) if name in tier.requests else "" for name in resources)
    name = Marked(tier.name or "no class", Tone.FAINT if tier.system else Tone.STRONG)
    counts = (f"{tier.priority:,}", f"{tier.pods:,}", f"{tier.pending:,}", f"{tier.nodes:,}")
    return (name, *counts, *amounts, f"{tier.user_facing:,}", "" if tier.preempts else "never")


def _victims(report: PrioritiesSection, style: Style) -> Page:
    grown = report.grown
    if grown is None:
        return ()
    find = agreeing(grown.placed, "finds", "find")
    placed = f"{grown.placed:,} of {count(grown.asked, 'more pod')} like {grown.like} ({grown.workload}) {find} a node"
    outcome = paragraph(
        placed + (f"; the others: {describe_message(grown.message, style)[0]}" if grown.message else "")
    )
    evicted, tier = Column("evicted", keep=True), Column("tier", keep=True, beneath="tier")
    columns = (evicted, tier, Column("pods", right=True), Column("then"), Column("behind", beneath="behind"))
    victims = build_table(report.victims, columns, lambda victim: _victim(victim, style), style, full=False)
    return section(f"If {grown.tier} grew", outcome, *(victims or (paragraph("nobody is evicted for them"),)))


def _victim(workload: EvictedWorkload, style: Style) -> tuple[Cell | Stack, ...]:
    fates = {fate: sum(pod.fate == fate for pod in workload.pods) for fate in EvictionFate}
    then = ", ".join(f"{number:,} {fate}" for fate, number in fates.items() if number)
    pods = Marked(names([pod.pod for pod in workload.pods]), Tone.FAINT) if style.wide else ""
    return (
        Stack((workload.workload, pods)),
        workload.tier,
        f"{len(workload.pods):,}",
        then,
        ", ".join(workload.services),
    )


# -- what room is left -------------------------------------------------------------------------------------------------


def packing_blocks(report: PackingSection, style: Style) -> Page:
    """Room by pool, then what is stranded; then what was tried. In full with ``-o wide``."""
    shape = {"pool": lambda pods: "pending" if pods.pending else pods.pool or NO_POOL[""], "examples": _workloads}
    typical = build_struct_table(report.typical, style, shape, limit=FEW) if style.wide or report.stranded else ()
    return (
        *_rooms(report.pools, style),
        *_used(report.pools),
        *build_struct_table(report.stranded, style),
        *typical,
        *_emptied(report, style),
        *build_struct_table(report.kept, style, limit=FEW),
    )


def _rooms(pools: Sequence[PoolRoom], style: Style) -> Page:
    rows = [
        (
            pool.pool or NO_POOL[""],
            f"{pool.nodes:,}",
            room.resource,
            format_rounded(room.resource, room.allocatable),
            format_rounded(room.resource, room.free),
            Marked(format_rounded(room.resource, room.stranded), Tone.WARNING) if room.stranded else "0",
        )
        for pool in pools
        for room in pool.resources
        if style.wide or room.resource in SHOWN or room.stranded
    ]
    right = [Column(name, right=True) for name in ("allocatable", "free", "stranded")]
    return build_table(
        rows, (Column("pool", keep=True), Column("nodes", right=True), Column("resource"), *right), tuple, style
    )


def _used(pools: Sequence[PoolRoom]) -> Page:
    """What of each pool no further pod can have."""
    used = [(pool, resource) for pool in pools for resource in pool.resources if resource.allocatable]
    shown = [(pool, resource) for pool, resource in used if resource.resource in SHOWN or resource.stranded]
    amounts = {
        f"{pool.pool or NO_POOL['']} {resource.resource}": {
            "requested": round(100 * resource.requested / resource.allocatable, 1),
            "stranded": round(100 * resource.stranded / resource.allocatable, 1),
        }
        for pool, resource in shown
    }
    return build_bar_plot(
        "Requested and stranded, by pool", ("pool and resource", "% of allocatable"), amounts, len(shown)
    )


def _workloads(pods: TypicalPods) -> str:
    more = f" and {pods.workloads - len(pods.examples):,} more" if pods.workloads > len(pods.examples) else ""
    return ", ".join(pods.examples) + more


def _emptied(report: PackingSection, style: Style) -> Page:
    tried = f"{report.tried:,} of {count(report.candidates, 'node')} drained in turn, those with least to move first"
    more = style.commands.get(report.name, ()) if report.tried < report.candidates else ()
    rest = "; to try the others:" if more else ""
    how: Page = (paragraph(Marked("tried:", Tone.FAINT), f"{tried}{rest}"), *map(Command, more))
    how = how if report.candidates else ()
    if not report.savings:
        return how
    emptied = names([emptied_node.node for emptied_node in report.emptied], len(report.emptied) if style.wide else FEW)
    which = (paragraph(Marked("emptied:", Tone.FAINT), emptied),) if emptied else ()
    return (*how, *build_struct_table(report.savings, style), *which)
