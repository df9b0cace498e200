"""Disruption budgets of NodePools and their cron schedules, which limit how many nodes may be disrupted now.

Upstream: GetAllowedDisruptionsByReason and Budget.IsActive in pkg/apis/v1/nodepool.go (which parses schedules with
robfig/cron), BuildDisruptionBudgetMapping in pkg/controllers/disruption/helpers.go (sigs.k8s.io/karpenter v1.14.1).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from kschedctl.api.karpenter import DisruptionBudget, NodePool
from kschedctl.autoscaling.durations import parse_go_duration
from kschedctl.autoscaling.karpenter.candidates import has_true_condition
from kschedctl.autoscaling.karpenter.events import EventLog
from kschedctl.autoscaling.karpenter.setting import KarpenterSetting
from kschedctl.autoscaling.karpenter.state_nodes import INSTANCE_TERMINATING, StateNode
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
_ANY = ("*", "?")


def build_budget_mapping(setting: KarpenterSetting, reason: str, log: EventLog) -> dict[str, int]:
    """Return how many nodes of each pool may be disrupted for this reason.

    Nodes that are being deleted or are not ready count against the limit. Pools whose budgets allow no disruption are
    logged.
    """
    counted_nodes = [
        node for node in setting.nodes if node.managed and node.initialized and not _is_instance_terminating(node)
    ]
    nodes = Counter(node.pool for node in counted_nodes)
    disrupting = Counter(node.pool for node in counted_nodes if node.deleting or not _is_ready(node))
    allowed: dict[str, int] = {}
    for pool in setting.cluster.karpenter_node_pools:
        name = pool.metadata.name
        limit = get_allowed_disruptions(pool, nodes[name], reason, setting.now)
        allowed[name] = max(limit - disrupting[name], 0)
        if nodes[name] and not limit:
            log.log_pool_blocked(name, reason)
    return allowed


def get_allowed_disruptions(pool: NodePool, nodes: int, reason: str, now: int) -> int:
    """Return how many of a pool's nodes may be disrupted at the same time for a reason.

    The budget with the lowest limit decides. A budget that cannot be parsed allows none.
    """
    budgets = pool.spec.disruption.budgets or ()
    try:
        return min(
            (
                _get_budget_limit(budget, nodes, now)
                for budget in budgets
                if not budget.reasons or reason in budget.reasons
            ),
            default=UNLIMITED,
        )
    except InputError:
        return 0


def _get_budget_limit(budget: DisruptionBudget, nodes: int, now: int) -> int:
    """Return how many disrupted nodes one budget allows, rounding percentages up. Raises InputError.

    A budget outside its schedule is unlimited.
    """
    if budget.schedule is not None or budget.duration is not None:
        length = parse_go_duration(budget.duration or "0s", "duration")
        if not is_schedule_active(budget.schedule or "", now, length):
            return UNLIMITED
    text = str(budget.nodes)
    if share := _SHARE.fullmatch(text):
        return -(-nodes * int(share[1]) // 100)
    if not text.lstrip("-").isdigit():
        raise InputError(f'"{text[:40]}" is neither a number nor a share', where="nodes")
    return int(text)


def _is_instance_terminating(state: StateNode) -> bool:
    """Return whether the node's instance is being terminated."""
    return state.claim is not None and has_true_condition(state.claim, INSTANCE_TERMINATING)


def _is_ready(state: StateNode) -> bool:
    """Return whether the node's Ready condition is True."""
    conditions = state.node.status.conditions if state.node else ()
    return any(condition.type == "Ready" and condition.status == "True" for condition in conditions)


def is_schedule_active(schedule: str, now: int, nanoseconds: int) -> bool:
    """Return whether a cron schedule was due in the last ``nanoseconds`` before ``now``. Raises InputError.

    ``now`` is in microseconds since 1970.
    """
    fields = MACROS.get(schedule, schedule).split()
    if len(fields) != len(_FIELDS):
        raise InputError(f'"{schedule[:60]}" is no cron expression', hint="want five fields, such as 0 9 * * mon-fri")
    sets = [_parse_field(text, *bounds) for text, bounds in zip(fields, _FIELDS, strict=True)]
    moment = datetime.fromtimestamp(now // 1_000_000, UTC)
    begin = moment - timedelta(microseconds=nanoseconds // 1000)
    minute = begin.replace(second=0, microsecond=0) + timedelta(minutes=1)
    while minute <= moment:
        if not _matches_day(minute, fields, sets):
            minute = minute.replace(hour=0, minute=0) + timedelta(days=1)
        elif minute.hour not in sets[1]:
            minute = minute.replace(minute=0) + timedelta(hours=1)
        elif minute.minute in sets[0]:
            return True
        else:
            minute += timedelta(minutes=1)
    return False


def _matches_day(moment: datetime, fields: list[str], sets: list[frozenset[int]]) -> bool:
    """Return whether the month and the day match. If both day fields are restricted, one of them is enough."""
    by_date = moment.day in sets[2]
    by_week = (moment.weekday() + 1) % 7 in sets[4]
    needs_both = fields[2].startswith(_ANY) or fields[4].startswith(_ANY)
    return moment.month in sets[3] and (by_date and by_week if needs_both else by_date or by_week)


def _parse_field(text: str, low: int, high: int, names: Sequence[str]) -> frozenset[int]:
    """Parse the values that a cron field allows. Raises InputError."""
    values: set[int] = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        first, dash, last = span.partition("-")
        if span in _ANY:
            begin, end = low, high
        else:
            begin = _parse_number(first, low, names)
            if dash:
                end = _parse_number(last, low, names)
            elif step:
                end = high
            else:
                end = begin
        increment = 1
        if step:
            increment = int(step) if step.isdigit() else 0
        if not increment or begin < low or end > high or begin > end:
            raise InputError(f'"{part[:40]}" is no part of a cron expression')
        values.update(range(begin, end + 1, increment))
    return frozenset(values)


def _parse_number(text: str, low: int, names: Sequence[str]) -> int:
    """Parse a number or name in a cron field. Raises InputError."""
    if text.lower() in names:
        return names.index(text.lower()) + low
    if not text.isdigit() or len(text) > 4:
        raise InputError(f'"{text[:40]}" is no part of a cron expression')
    return int(text)
