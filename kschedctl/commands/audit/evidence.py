"""Tables and plots that show the evidence of an audit's sections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from kschedctl.api.resource_names import format_amounts_for_sentence
from kschedctl.commands.audit.leader.report import DifferentSetting, LeaderSection, SchedulerLease, ServedName
from kschedctl.commands.audit.packing.report import PackingSection, PoolRoom, TypicalPods
from kschedctl.commands.audit.placed.report import OvercommittedNode, PlacedSection
from kschedctl.commands.audit.priorities.report import EvictedWorkload, GrownTier, PrioritiesSection, PriorityTier
from kschedctl.commands.audit.queues.report import QueuesSection
from kschedctl.commands.audit.report import PodsInQueue, QueueSection
from kschedctl.commands.audit.topology.report import (
    BrokenDomain,
    PlacedWorkload,
    SpreadPromise,
    TopologySection,
    WorkloadDomains,
)
from kschedctl.commands.wakes.report import RejectorReport
from kschedctl.render.page import (
    Block,
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
from kschedctl.render.sections import build_why_cell
from kschedctl.render.tables import ROWS_SHOWN, build_struct_table, build_table, format_rounded, keep_row
from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.placements import NO_POOL, EvictionFate
from kschedctl.text.counts import agreeing, counted
from kschedctl.text.printable import describe_misfit

MAX_ROWS = 5
MAIN_RESOURCES = ("cpu", "memory")
QUEUE_TONES = {"unknown": Tone.BAD, "activeQ": Tone.GOOD, "backoffQ": Tone.GOOD}


# -- who schedules -----------------------------------------------------------------------------------------------------


def build_leader_tables(report: LeaderSection, style: Style) -> Page:
    """Build tables of leases, of the scheduler names that pods use, and of settings that differ between instances."""
    # Without the time of the cluster, the duration of the lead is unknown, and its beginning is shown
    lease_cells = {"leads_for": lambda lease: lease.leads_for or lease.since, "silent_for": _format_renewal}
    return (
        *build_struct_table(report.leases, style, lease_cells),
        *build_struct_table(report.names, style, {"instances": _format_instances}),
        *_build_differences_table(report.differences, style),
    )


def _format_renewal(lease: SchedulerLease) -> Marked:
    """Return when the lease was last renewed, colored by whether it is stale."""
    return Marked(lease.silent_for or lease.renewed, Tone.BAD if lease.stale else Tone.GOOD)


def _format_instances(name: ServedName) -> str:
    """Format the instances of a scheduler name, each with the number of pods that it placed."""
    return names([f"{instance.instance} ({instance.placed:,} placed)" for instance in name.instances])


def _build_differences_table(settings: Sequence[DifferentSetting], style: Style) -> Page:
    """Build a table of the settings that differ between instances, one row per value."""
    rows = [
        (difference.setting, value or "(not set)", names(instances))
        for difference in settings
        for value, instances in difference.values.items()
    ]
    return build_table(rows, (Column("differs", keep=True), Column("value"), Column("instances")), keep_row, style)


# -- what waits --------------------------------------------------------------------------------------------------------


def build_queue_table(report: QueueSection, style: Style) -> Page:
    """Build a table of the pods in the queues, with a row for each group of similar pods.

    The row names the pods of the group and the changes that would wake them.
    """
    columns = (
        Column("pods", right=True),
        Column("age", right=True),
        Column("queue", keep=True),
        Column("names, and what triggers a retry"),
    )
    return build_table(report.queued, columns, lambda queued: _build_queue_row(queued, style), style, full=False)


def _build_queue_row(group: PodsInQueue, style: Style) -> tuple[Cell | Stack, ...]:
    """Return the cells for a group of pods in a queue."""
    queue = Marked(group.queue, QUEUE_TONES.get(group.queue, Tone.WARNING))
    return (f"{len(group.pods):,}", group.age, queue, Stack(tuple(_iter_group_lines(group, style))))


def _iter_group_lines(group: PodsInQueue, style: Style) -> Iterator[Cell]:
    """Yield the names of a group's pods, the headline that says why they wait, and the changes that wake them.

    Wide output has all changes. Other output has one line for each plugin, with its first change and the number of its
    other changes.
    """
    yield Marked(names(group.pods), Tone.STRONG)
    yield group.headline
    if style.wide:
        wake_ups = [f"{wakes.plugin}: {change.words}" for wakes in group.wakes for change in wakes.wake_ups]
    else:
        wake_ups = [
            f"{wakes.plugin}: {wakes.wake_ups[0].words}{_format_other_wake_ups(wakes)}"
            for wakes in group.wakes
            if wakes.wake_ups
        ]
    yield from (Marked(change, Tone.FAINT) for change in wake_ups)


def _format_other_wake_ups(rejector: RejectorReport) -> str:
    """Return how many other changes wake a rejector's pods, as the end of a line. Return "" if there are none."""
    other_count = len(rejector.wake_ups) - 1
    return f", or {counted(other_count, 'other change')}" if other_count else ""


def build_kueue_tables(section: QueuesSection, style: Style) -> Page:
    """Build tables of inactive and starving queues, of waiting and unplaced Workloads, and of unused flavors."""
    return (
        *build_struct_table(section.inactive, style, title="ClusterQueues that admit nothing"),
        *build_struct_table(section.waiting, style, title="Workloads that wait longest", limit=ROWS_SHOWN // 2),
        *build_struct_table(section.starving, style, title="ClusterQueues that wait while others borrow"),
        *build_struct_table(section.unplaced, style, title="Admitted Workloads whose pods have no node"),
        *build_struct_table(section.unused, style, title="Flavors that no Workload uses", limit=ROWS_SHOWN // 2),
    )


# -- where pods are ----------------------------------------------------------------------------------------------------


def build_placed_pods_tables(report: PlacedSection, style: Style) -> Page:
    """Build a line with the number of judged pods, and tables of overcommitted nodes, misplaced and rejected pods."""
    not_replayed = f"; {count(report.others, 'pod')} of other schedulers not judged" if report.others else ""
    return (
        paragraph(Marked("Judged:", Tone.FAINT), f"{count(report.judged, 'bound pod')}{not_replayed}"),
        *_build_overcommitted_table(report.overcommitted, style),
        *build_struct_table(report.misplaced, style),
        *build_struct_table(report.refused, style),
    )


def _build_overcommitted_table(nodes: Sequence[OvercommittedNode], style: Style) -> Page:
    """Build a table of overcommitted nodes with the pods that came last. Pods that no longer fitted are highlighted."""
    rows: list[tuple[Cell, ...]] = []
    for node in nodes:
        node_cells = (node.node, node.resource, _format_requested_of_allocatable(node))
        for arrival in node.arrivals:
            requests = format_rounded(node.resource, arrival.requests)
            pod = Marked(arrival.pod, Tone.WARNING) if arrival.beyond else arrival.pod
            rows.append((*node_cells, pod, requests, arrival.at or "?"))
            node_cells = ("", "", "")  # only the first row of a node names it

    columns = (Column("node", keep=True), Column("resource"), Column("requested", right=True), Column("came last"))
    return build_table(rows, (*columns, Column("requests", right=True), Column("at")), keep_row, style)


def _format_requested_of_allocatable(node: OvercommittedNode) -> str:
    """Return the requested and the allocatable amount in the same unit, such as ``9 of 8 CPUs``."""
    (requested, allocatable), unit = format_amounts_for_sentence(node.resource, node.requested, node.allocatable)
    return f"{requested} of {allocatable} {unit}"


DIFFERENCE_LEGEND = (
    "difference: the number of pods in the fullest domain minus the number in the emptiest one, among all domains, "
    "also those where the pods may not run"
)
"""The legend of the table of workloads by topology key."""


def build_topology_tables(report: TopologySection, style: Style) -> Page:
    """Build a table of workloads with their worst loss by topology key, and a table of spread constraints."""
    domain_rows = [_build_domains_row(workload, domains) for workload in report.placed for domains in workload.by_key]
    domain_columns = (
        Column("workload"),
        Column("pods", right=True),
        Column("topology key"),
        Column("domains used", right=True),
        Column("difference", right=True),
        Column("worst loss"),
    )
    constraint_columns = (
        Column("workload"),
        Column("constraint"),
        Column("max skew", right=True),
        Column("skew now", right=True),
        Column("fullest domain", beneath="fullest:"),
        Column("emptiest domain", beneath="emptiest:"),
        Column("pods that cannot come back", beneath="cannot come back:"),
    )
    return (
        *build_table(domain_rows, domain_columns, tuple, style, note=DIFFERENCE_LEGEND),
        *build_table(
            report.promises, constraint_columns, _build_constraint_row, style, title="Spread constraints", full=False
        ),
    )


def _build_domains_row(workload: PlacedWorkload, domains: WorkloadDomains) -> tuple[Cell | Stack, ...]:
    """Return the cells for a workload's distribution over the domains of one topology key."""
    used_domains = f"{domains.used:,} of {domains.domains:,}"
    worst_loss = _format_worst_loss(workload, domains)
    return (workload.workload, f"{workload.pods:,}", domains.key, used_domains, f"{domains.skew:,}", worst_loss)


def _format_worst_loss(workload: PlacedWorkload, domains: WorkloadDomains) -> Cell:
    """Return how many of a workload's pods are lost with the fullest domain, and how unevenly the others are spread.

    If all pods are lost, or if no pod is in a domain, the text only says so.
    """
    if not domains.losses:
        return "no pod in any domain"
    fullest_domain_loss = domains.losses[0]  # the gravest loss comes first
    domain = fullest_domain_loss.domain
    if fullest_domain_loss.lost == workload.pods:
        return Marked(f"{domain}: all pods", Tone.BAD)
    lost_pods = f"{fullest_domain_loss.lost:,} of {count(workload.pods, 'pod')}"
    return f"{domain}: {lost_pods}, leaving a difference of {fullest_domain_loss.skew:,}"


def _build_constraint_row(constraint: SpreadPromise) -> tuple[Cell | Stack, ...]:
    """Build the row of a spread constraint.

    The first cells are the workload, the key with the action, and the allowed and actual skew. The fullest and the
    emptiest domain follow. The last cell says how many pods cannot come back after losses.
    """
    skew = Marked(f"{constraint.skew:,}", Tone.GOOD if constraint.holds else Tone.BAD)
    key_and_action = Stack((constraint.key, Marked(constraint.when_unsatisfiable, Tone.FAINT)))
    fullest_domain = f"{constraint.most} ({count(constraint.most_pods, 'pod')})"
    emptiest_domain = f"{constraint.least} ({count(constraint.least_pods, 'pod')})"
    stranded_pods = Stack(tuple(filter(None, map(_format_stranded_pods, constraint.losses))))
    max_skew = f"{constraint.max_skew:,}"
    return (constraint.workload, key_and_action, max_skew, skew, fullest_domain, emptiest_domain, stranded_pods)


def _format_stranded_pods(loss: BrokenDomain) -> str:
    """Return how many pods cannot be placed again without a domain, such as `12 if zone-a is lost`.

    If all pods can be placed again once the domain is lost, the text is about the time while the domain is down, such
    as `3 while zone-a is down`. Return "" if all pods can be placed again at that time as well.
    """
    if loss.stranded:
        return f"{loss.stranded:,} if {loss.domain} is lost"
    if loss.stranded_while_down:
        return f"{loss.stranded_while_down:,} while {loss.domain} is down"
    return ""


# -- who is above whom -------------------------------------------------------------------------------------------------


def build_priority_tables(report: PrioritiesSection, style: Style) -> Page:
    """Build tables of priority tiers, pods that a growing tier would preempt, recent preemptions and exposed pods.

    Exposed pods are behind Services and may be preempted by higher tiers. Pods that wait too long have a table only in
    wide output, because findings already report them. Waits that are measured until today have no findings, so their
    table is always shown.
    """
    wait_note = "lower and higher: pods of lower and higher tiers; started: after the oldest waiting pod was created"
    starving: Page = ()
    if style.wide:
        starving = build_struct_table(report.starving, style, title="Waiting too long", note=wait_note)
    starving_as_of_today = build_struct_table(
        report.starving_as_of_today, style, title="Waiting too long (waits are measured until today)", note=wait_note
    )
    preempted = build_struct_table(
        report.preempted, style, title="Workloads with recently preempted pods", limit=ROWS_SHOWN // 2, full=False
    )
    exposed = build_struct_table(
        report.exposed,
        style,
        title="Service pods that higher tiers can preempt",
        limit=ROWS_SHOWN // 2,
        note="pods above: pods of the tiers above, which can preempt the pods of the workload",
    )
    return (
        *_build_tiers_table(report, style),
        *_build_tier_growth_section(report, style),
        *starving,
        *starving_as_of_today,
        *preempted,
        *exposed,
    )


def _build_tiers_table(report: PrioritiesSection, style: Style) -> Page:
    """Build a table of the priority tiers with their requests of CPU and memory.

    In wide output, the table has all requested resources.
    """
    resources: tuple[str, ...] = MAIN_RESOURCES
    if style.wide:
        requested = dict.fromkeys(name for tier in report.tiers for name in tier.requests if name != "pods")
        resources = tuple(dict.fromkeys((*MAIN_RESOURCES, *requested)))
    request_columns = (f"{name} requests" for name in resources)
    number_columns = ("priority", "pods", "pending", "nodes", *request_columns, "serving")
    columns = (Column("tier", keep=True), *(Column(name, right=True) for name in number_columns), Column("preempts"))
    note = "serving: pods behind a Service"
    return build_table(
        report.tiers, columns, lambda tier: _build_tier_row(tier, resources), style, limit=None, note=note, full=False
    )


def _build_tier_row(tier: PriorityTier, resources: tuple[str, ...]) -> tuple[Cell, ...]:
    """Build a tier's row: name, priority, counts, requests, user-facing pods, and "never" if its pods do not preempt.

    The counts are of pods, pending pods and nodes. There is one cell of requests for each of `resources`, which is
    empty if the tier requests none of the resource.
    """
    requests = (
        format_rounded(resource, tier.requests[resource]) if resource in tier.requests else "" for resource in resources
    )
    class_name = Marked(tier.name or "no class", Tone.FAINT if tier.system else Tone.STRONG)
    counts = (f"{tier.priority:,}", f"{tier.pods:,}", f"{tier.pending:,}", f"{tier.nodes:,}")
    return (class_name, *counts, *requests, f"{tier.user_facing:,}", "" if tier.preempts else "never")


def _build_tier_growth_section(report: PrioritiesSection, style: Style) -> Page:
    """Build a section about what would happen if more pods of a tier arrived: their placement and their victims.

    The section is empty if no tier was grown in the simulation.
    """
    grown = report.grown
    if grown is None:
        return ()
    columns = (
        Column("preempted", keep=True),
        Column("tier", keep=True, beneath="tier"),
        Column("pods", right=True),
        Column("outcome"),
        Column("services", beneath="Services:"),
    )
    victims = build_table(report.victims, columns, lambda victim: _build_victim_row(victim, style), style, full=False)
    if not victims:
        victims = (paragraph("No pod would be preempted."),)
    title = f"If {count(grown.asked, 'more pod')} of tier {grown.tier} arrived"
    return section(title, paragraph(_describe_placement_of_grown_tier(grown)), *victims)


def _describe_placement_of_grown_tier(grown: GrownTier) -> str:
    """Describe how many of the tier's additional pods get a node, and why the others do not."""
    additional_pods = f"{count(grown.asked, 'more pod')} like {grown.like} ({grown.workload})"
    placed = f"{grown.placed:,} of {additional_pods} {agreeing(grown.placed, 'gets', 'get')} a node"
    if grown.creation_clause:
        placed += f" ({grown.creation_clause})"
    if not grown.message:
        return placed
    unplaced_count = grown.asked - grown.placed
    if grown.placed:
        unplaced_pods = agreeing(unplaced_count, "the remaining one", "the others")
    else:
        unplaced_pods = agreeing(unplaced_count, "it", "they")
    return f"{placed}; {describe_misfit(unplaced_pods, grown.message, unplaced_count)}"


def _build_victim_row(workload: EvictedWorkload, style: Style) -> tuple[Cell | Stack, ...]:
    """Build the row of a workload whose pods are evicted. Wide output also has the names of the pods."""
    pods_by_outcome = Counter(pod.fate for pod in workload.pods)
    outcomes = ", ".join(
        _format_outcome_count(outcome, pods_by_outcome[outcome]) for outcome in EvictionFate if pods_by_outcome[outcome]
    )
    pods = Marked(names([pod.pod for pod in workload.pods]), Tone.FAINT) if style.wide else ""
    return (
        Stack((workload.workload, pods)),
        workload.tier,
        f"{len(workload.pods):,}",
        outcomes,
        ", ".join(workload.services),
    )


def _format_outcome_count(outcome: EvictionFate, pods: int) -> str:
    """Describe how many evicted pods have this outcome, such as `3 get no node`."""
    words = {
        EvictionFate.MOVED: agreeing(pods, "moves", "move"),
        EvictionFate.PENDING: agreeing(pods, "gets no node", "get no node"),
        EvictionFate.LOST: agreeing(pods, "is lost", "are lost"),
        EvictionFate.DELETED: agreeing(pods, "was being deleted anyway", "were being deleted anyway"),
    }
    return f"{pods:,} {words[outcome]}"


# -- what room is left -------------------------------------------------------------------------------------------------


STRANDED_LEGEND = (
    "stranded: the free capacity of nodes where no typical pod fits (typical pods have the most frequent requests in a "
    "pool or among the pending pods)"
)
"""The legend of the table of resources by pool."""


def build_packing_tables_and_plots(report: PackingSection, style: Style) -> Page:
    """Build the tables and plots of a packing section.

    They show the room and use by pool, the stranded capacity, the trial drains, and the nodes that were kept. Wide
    output also has the typical pods, which decide what counts as stranded. Other output has them only if capacity is
    stranded.
    """
    typical_pods: Page = ()
    if style.wide or report.stranded:
        cells = {"pool": _format_origin, "examples": _format_example_workloads}
        typical_pods = build_struct_table(report.typical, style, cells, title="Typical pods", limit=MAX_ROWS)
    return (
        *_build_room_table(report.pools, style),
        *_plot_use_by_pool(report.pools),
        *build_struct_table(
            report.stranded,
            style,
            title="Nodes with stranded capacity",
            note="None of the typical pods below fits on these nodes, so everything that is free there is stranded",
        ),
        *typical_pods,
        *_build_trial_drains_part(report, style),
        *build_struct_table(
            report.kept,
            style,
            {"why": lambda node: build_why_cell(node, style)},
            title="Nodes that must stay",
            limit=MAX_ROWS,
        ),
    )


def _format_pool(name: str) -> str:
    """Return the name of a pool, or text that stands for nodes without a pool."""
    return name or NO_POOL[""]


def _format_origin(pods: TypicalPods) -> str:
    """Format where typical pods come from: the pool in which they run, or "pending"."""
    return "pending" if pods.pending else _format_pool(pods.pool)


def _build_room_table(pools: Sequence[PoolRoom], style: Style) -> Page:
    """Build a table of the allocatable, free and stranded resources of each pool.

    Wide output has all resources. Otherwise there are only CPU, memory and resources with stranded amounts.
    """
    rows: list[tuple[Cell, ...]] = []
    for pool in pools:
        for room in pool.resources:
            is_important = room.resource in MAIN_RESOURCES or room.stranded
            if not is_important and not style.wide:
                continue
            stranded = format_rounded(room.resource, room.stranded) if room.stranded else ""
            row = (
                _format_pool(pool.pool),
                f"{pool.nodes:,}",
                room.resource,
                format_rounded(room.resource, room.allocatable),
                format_rounded(room.resource, room.free),
                Marked(stranded, Tone.WARNING) if room.stranded else "0",
            )
            rows.append(row)
    amount_columns = [Column(name, right=True) for name in ("allocatable", "free", "stranded")]
    return build_table(
        rows,
        (Column("pool", keep=True), Column("nodes", right=True), Column("resource"), *amount_columns),
        tuple,
        style,
        note=STRANDED_LEGEND,
    )


def _plot_use_by_pool(pools: Sequence[PoolRoom]) -> Page:
    """Plot the requested and the stranded share of each pool's CPU and memory.

    Other resources are included only if part of them is stranded.
    """
    percentages = {}
    for pool in pools:
        for room in pool.resources:
            is_important = room.resource in MAIN_RESOURCES or room.stranded
            if room.allocatable and is_important:
                percentages[f"{_format_pool(pool.pool)} {room.resource}"] = {
                    "requested": round(100 * room.requested / room.allocatable, 1),
                    "stranded": round(100 * room.stranded / room.allocatable, 1),
                }
    axes = ("pool and resource", "% of allocatable")
    return build_bar_plot("Requested and stranded, by pool", axes, percentages, len(percentages))


def _format_example_workloads(pods: TypicalPods) -> str:
    """Return example workloads of typical pods, and how many more there are."""
    further_count = pods.workloads - len(pods.examples)
    suffix = f" and {further_count:,} more" if further_count else ""
    return ", ".join(pods.examples) + suffix


def _build_trial_drains_part(report: PackingSection, style: Style) -> Page:
    """Build the part about trial drains: progress, savings, and the nodes that can be removed or are empty already.

    If some candidates were not tried, the part includes the command that tries all.
    """
    page: list[Block] = []
    if report.candidates:
        commands = style.commands.get(report.name, ()) if report.tried < report.candidates else ()
        nodes = count(report.candidates, "node")
        were = agreeing(report.tried, "was", "were")
        order = "" if report.tried == 1 else ", one after the other, those with the least to move first"
        tried_text = f"{report.tried:,} of {nodes} {were} drained{order}"
        suffix = "; to try the others:" if commands else ""
        page += [paragraph(Marked("In a replay,", Tone.FAINT), f"{tried_text}{suffix}"), *map(Command, commands)]

    page += build_struct_table(report.savings, style, title="Nodes that can be removed, by pool")
    page += _list_nodes_in_paragraph("Can be removed:", [drained.node for drained in report.emptied], style)
    page += _list_nodes_in_paragraph("Already empty:", report.empty, style)
    return tuple(page)


def _list_nodes_in_paragraph(title: str, nodes: Sequence[str], style: Style) -> Page:
    """List the nodes after a faint title, at most `MAX_ROWS` unless the output is wide. Return () without nodes."""
    if not nodes:
        return ()
    return (paragraph(Marked(title, Tone.FAINT), names(nodes, len(nodes) if style.wide else MAX_ROWS)),)
