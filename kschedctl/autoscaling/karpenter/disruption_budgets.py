"""Disruption budgets of NodePools and their cron schedules, which limit how many nodes may be disrupted now.

Upstream: GetAllowedDisruptionsByReason and Budget.IsActive in pkg/apis/v1/nodepool.go (which parses schedules with
robfig/cron), BuildDisruptionBudgetMapping in pkg/controllers/disruption/helpers.go (sigs.k8s.io/karpenter v1.14.1).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from kschedctl.api.karpenter import DisruptionBudget, NodePool
from kschedctl.autoscaling.karpenter.candidates import has_true_condition
from kschedctl.autoscaling.karpenter.events import EventLog
from kschedctl.autoscaling.karpenter.setting import KarpenterSetting
from kschedctl.autoscaling.karpenter.state_nodes import INSTANCE_TERMINATING, StateNode
from kschedctl.cel.library.times import parse_go_duration
from kschedctl.errors import InputError

UNLIMITED = 2**31 - 1
_SHARE = re.compile(r"([0-9]{1,9})%")
MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_FIELDS = ((0, 59, ()), (0, 23, ()), (1, 31, ()), (1, 12, _MONTHS), (0, 6, _DAYS))
"""Lowest value, highest value and names of each field: minute, hour, day, month and weekday."""
_ANY = ("*", "?")


def count_allowed_disruptions_by_pool(setting: KarpenterSetting, reason: str, log: EventLog) -> dict[str, int]:
    """Return, for each pool, how many nodes may be disrupted now for this reason, given its disruption budgets.

    Only managed and initialized nodes whose instance is not terminating count as nodes of a pool. Nodes that are being
    deleted or are not ready use up the limit. A pool is logged if it has nodes but its budgets allow no disruption.
    """
    counted_nodes = [
        node for node in setting.nodes if node.managed and node.initialized and not _is_instance_terminating(node)
    ]
    node_counts = Counter(node.pool for node in counted_nodes)
    disrupting_counts = Counter(node.pool for node in counted_nodes if node.deleting or not _is_node_ready(node))
    allowed: dict[str, int] = {}
    for pool in setting.cluster.karpenter_node_pools:
        name = pool.metadata.name
        limit = compute_allowed_disruptions(pool, node_counts[name], reason, setting.now)
        allowed[name] = max(limit - disrupting_counts[name], 0)
        if node_counts[name] and not limit:
            log.log_pool_blocked(name, reason)
    return allowed


def compute_allowed_disruptions(pool: NodePool, nodes: int, reason: str, now: int) -> int:
    """Return how many of a pool's nodes may be disrupted at the same time for a reason.

    ``nodes`` is the number of the pool's nodes. The budget with the lowest limit decides. If no budget applies to the
    reason, the number is unlimited. A budget that cannot be parsed allows none.
    """
    budgets = [
        budget for budget in pool.spec.disruption.budgets or () if not budget.reasons or reason in budget.reasons
    ]
    try:
        return min((_compute_budget_limit(budget, nodes, now) for budget in budgets), default=UNLIMITED)
    except InputError:
        return 0


def _compute_budget_limit(budget: DisruptionBudget, nodes: int, now: int) -> int:
    """Return how many nodes one budget allows Karpenter to disrupt, or UNLIMITED outside the budget's schedule.

    A percentage is taken of ``nodes``, the number of nodes in the NodePool, and rounded up. Raises InputError if the
    budget's schedule, duration or number of nodes is invalid.
    """
    if budget.schedule is not None or budget.duration is not None:
        length = parse_go_duration(budget.duration or "0s", "duration")
        if not was_schedule_due(budget.schedule or "", now, length):
            return UNLIMITED
    text = str(budget.nodes)
    if share := _SHARE.fullmatch(text):
        return -(-nodes * int(share[1]) // 100)  # rounded up
    if not text.lstrip("-").isdigit():
        raise InputError(f'"{text[:40]}" is neither a number nor a percentage', where="nodes")
    return int(text)


def _is_instance_terminating(state: StateNode) -> bool:
    """Return whether the node's NodeClaim says that its instance is being terminated."""
    return state.claim is not None and has_true_condition(state.claim, INSTANCE_TERMINATING)


def _is_node_ready(state: StateNode) -> bool:
    """Return whether the node exists and its condition Ready is True."""
    conditions = state.node.status.conditions if state.node else ()
    return any(condition.type == "Ready" and condition.status == "True" for condition in conditions)


def was_schedule_due(schedule: str, now: int, window_nanoseconds: int) -> bool:
    """Return whether a cron schedule was due in the last ``window_nanoseconds`` before ``now``.

    ``now`` is in microseconds since 1970. Raises InputError if the schedule is invalid.
    """
    cron = _CronSchedule.parse(schedule)
    end = datetime.fromtimestamp(now // 1_000_000, UTC)
    begin = end - timedelta(microseconds=window_nanoseconds // 1000)
    # The first whole minute after the beginning
    moment = begin.replace(second=0, microsecond=0) + timedelta(minutes=1)
    # Skip whole days and hours that do not match, because a window may last for months.
    while moment <= end:
        if not cron.matches_day(moment):
            moment = moment.replace(hour=0, minute=0) + timedelta(days=1)
        elif moment.hour not in cron.hours:
            moment = moment.replace(minute=0) + timedelta(hours=1)
        elif moment.minute in cron.minutes:
            return True
        else:
            moment += timedelta(minutes=1)
    return False


class _CronSchedule(NamedTuple):
    """The values that each field of a cron expression allows."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    """Days of the month."""
    months: frozenset[int]
    weekdays: frozenset[int]
    """Days of the week, with 0 for Sunday."""
    needs_both_days: bool
    """True if both day fields have to match, because one of them allows any day."""

    @classmethod
    def parse(cls, schedule: str) -> _CronSchedule:
        """Parse a cron expression or a macro such as @daily. Raises InputError if it is invalid."""
        fields = MACROS.get(schedule, schedule).split()
        if len(fields) != len(_FIELDS):
            raise InputError(
                f'"{schedule[:60]}" is not a cron expression', hint="expected five fields, such as 0 9 * * mon-fri"
            )
        minutes, hours, days, months, weekdays = (
            _parse_cron_field(text, *bounds) for text, bounds in zip(fields, _FIELDS, strict=True)
        )
        _minutes_text, _hours_text, days_text, _months_text, weekdays_text = fields
        needs_both_days = days_text.startswith(_ANY) or weekdays_text.startswith(_ANY)
        return cls(minutes, hours, days, months=months, weekdays=weekdays, needs_both_days=needs_both_days)

    def matches_day(self, moment: datetime) -> bool:
        """Return whether the schedule applies on this day.

        If both the day of the month and the day of the week are restricted, one of them has to match. If a day field
        allows any day, both have to match.
        """
        if moment.month not in self.months:
            return False
        matches_date = moment.day in self.days
        matches_weekday = moment.isoweekday() % 7 in self.weekdays
        if self.needs_both_days:
            return matches_date and matches_weekday
        return matches_date or matches_weekday


def _parse_cron_field(text: str, low: int, high: int, names: Sequence[str]) -> frozenset[int]:
    """Return the values that a cron field, such as ``1-5,10/20``, allows. Raises InputError if it is invalid.

    ``low`` and ``high`` are the lowest and highest valid values. ``names`` are the names of the values in order,
    beginning with ``low``.
    """
    values: set[int] = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        first, dash, last = span.partition("-")
        if span in _ANY:
            begin, end = low, high
        else:
            begin = _parse_cron_value(first, low, names)
            if dash:
                end = _parse_cron_value(last, low, names)
            elif step:
                end = high
            else:
                end = begin
        increment = 1
        if step:
            increment = int(step) if step.isdigit() else 0  # 0 is rejected below
        if not increment or begin < low or end > high or begin > end:
            raise InputError(f'"{part[:40]}" is not valid in a cron expression')
        values.update(range(begin, end + 1, increment))
    return frozenset(values)


def _parse_cron_value(text: str, low: int, names: Sequence[str]) -> int:
    """Parse a number or name in a cron field. The first name has the value ``low``.

    Raises InputError for any other text.
    """
    if text.lower() in names:
        return names.index(text.lower()) + low
    if not text.isdigit() or len(text) > 4:  # longer numbers are out of range anyway
        raise InputError(f'"{text[:40]}" is not valid in a cron expression')
    return int(text)
