"""What an audit tells of who schedules: leases, the names that pods choose, and instances that differ."""

from __future__ import annotations

from collections.abc import Sequence

from kschedctl.render.page import Column, Marked, Page, Style, Table, Tone, first_rows, names
from kschedctl.render.pages.sections import ROWS_SHOWN
from kschedctl.reports.audit.leader import DifferentSetting, LeaderSection, SchedulerLease, ServedName

SERVED = {
    "profile": "this configuration",
    "events": "events of it",
    "lease": "its lease",
    "podGroups": "its PodGroups",
    "": "nobody known",
}


def leader_blocks(section: LeaderSection, style: Style) -> Page:
    """A table for each."""
    return (
        *_leases(section.leases, style),
        *_names(section.names, style),
        *_differences(section.differences, style),
    )


def _leases(leases: Sequence[SchedulerLease], style: Style) -> Page:
    if not leases:
        return ()
    shown, note = first_rows(leases, style, ROWS_SHOWN)
    rows = tuple(
        (
            each.lease,
            each.holder or Marked("nobody", Tone.BAD),
            each.leads_for or each.since,
            Marked(each.silent_for or each.renewed, Tone.BAD if each.stale else Tone.GOOD),
            f"{each.transitions:,}",
            f"{each.elections:,}",
        )
        for each in shown
    )
    columns = (
        Column("lease", keep=True),
        Column("leader"),
        Column("leads for", beneath="leads for"),
        Column("renewed", beneath="renewed"),
    )
    return (Table((*columns, Column("changes", right=True), Column("lately", right=True)), rows, note),)


def _names(found: Sequence[ServedName], style: Style) -> Page:
    shown, note = first_rows(found, style, ROWS_SHOWN)
    rows = tuple(
        (
            each.name,
            SERVED[each.served] if each.served else Marked(SERVED[""], Tone.WARNING),
            f"{each.waiting:,}",
            f"{each.bound:,}",
            names([f"{one.instance} ({one.placed:,} placed)" for one in each.instances]),
        )
        for each in shown
    )
    counts = (Column("waiting", right=True), Column("bound", right=True))
    columns = (Column("schedulerName", keep=True), Column("known by"), *counts, Column("instances, by events"))
    return (Table(columns, rows, note),)


def _differences(found: Sequence[DifferentSetting], style: Style) -> Page:
    if not found:
        return ()
    rows = tuple(
        (each.setting, value or "(not set)", names(instances))
        for each in found
        for value, instances in each.values.items()
    )
    shown, note = first_rows(rows, style, ROWS_SHOWN)
    return (Table((Column("differs", keep=True), Column("value"), Column("instances")), tuple(shown), note),)
