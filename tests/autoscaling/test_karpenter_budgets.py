"""Check when a disruption budget is active and how many nodes it allows."""

from __future__ import annotations

import pytest

from kschedctl.api.decoding import convert_builtins
from kschedctl.api.karpenter import NodePool
from kschedctl.api.times import parse_microseconds
from kschedctl.autoscaling.karpenter.disruption_budgets import UNLIMITED, get_allowed_disruptions, is_schedule_active
from kschedctl.errors import InputError

HOUR = 3_600_000_000_000
WEDNESDAY = "2026-03-04T12:00:00Z"


@pytest.mark.parametrize(
    ("schedule", "hours", "expected"),
    [
        ("0 9 * * *", 8, True),
        ("0 9 * * *", 2, False),
        ("0 12 * * *", 1, True),  # a hit at this very moment counts
        ("0 11 * * *", 1, False),  # one that is as old as the budget lasts does not
        ("@daily", 12, False),
        ("@daily", 13, True),
        ("0 9 * * mon-fri", 4, True),
        ("0 9 * * sat,sun", 48, False),
        ("0 9 * * sun", 24 * 4, True),
        ("30 9-11/2 * * *", 1, True),
        ("0 9 4 3 *", 4, True),
        ("0 9 5 3 *", 24, False),
        ("0 9 5 * wed", 4, True),  # a date and a day of the week: one is enough
        ("*/7 * * * *", 1, True),
    ],
)
def test_hits(schedule: str, hours: int, expected: bool) -> None:
    """The fourth of March 2026 was a Wednesday."""
    assert is_schedule_active(schedule, parse_microseconds(WEDNESDAY), hours * HOUR) is expected


@pytest.mark.parametrize("schedule", ["", "* * * *", "61 * * * *", "a * * * *", "*/0 * * * *", "5-2 * * * *"])
def test_no_cron_expression(schedule: str) -> None:
    with pytest.raises(InputError, match="cron expression"):
        is_schedule_active(schedule, parse_microseconds(WEDNESDAY), HOUR)


@pytest.mark.parametrize(
    ("budgets", "expected"),
    [
        ([], UNLIMITED),
        ([{"nodes": "10%"}], 2),  # of 11, rounded up
        ([{"nodes": "100%"}, {"nodes": "3"}], 3),
        ([{"nodes": "0", "reasons": ["Empty"]}], UNLIMITED),
        ([{"nodes": "0", "reasons": ["Empty", "Drifted"]}, {"nodes": 5}], 0),
        ([{"nodes": "0", "schedule": "0 9 * * *", "duration": "8h"}], 0),
        ([{"nodes": "0", "schedule": "0 9 * * *", "duration": "1h"}], UNLIMITED),
        ([{"nodes": "some"}], 0),
        ([{"nodes": "5", "schedule": "never", "duration": "1h"}], 0),
    ],
)
def test_allowance(budgets: list[dict[str, object]], expected: int) -> None:
    pool = convert_builtins({"metadata": {"name": "p"}, "spec": {"disruption": {"budgets": budgets}}}, NodePool)
    assert get_allowed_disruptions(pool, 11, "Drifted", parse_microseconds(WEDNESDAY)) == expected


@pytest.mark.parametrize("disruption", [{}, {"budgets": None}, {"budgets": [{}]}, {"consolidateAfter": None}])
def test_what_is_left_out_is_as_the_api_server_fills_it_in(disruption: dict[str, object]) -> None:
    """The schema's defaults: one budget of 10 %, here of 11 nodes and rounded up, and consolidation at once."""
    pool = convert_builtins({"metadata": {"name": "p"}, "spec": {"disruption": disruption}}, NodePool)
    assert get_allowed_disruptions(pool, 11, "Drifted", parse_microseconds(WEDNESDAY)) == 2
    assert pool.spec.disruption.consolidate_after == "0s"
    assert get_allowed_disruptions(NodePool(), 11, "Drifted", parse_microseconds(WEDNESDAY)) == 2
