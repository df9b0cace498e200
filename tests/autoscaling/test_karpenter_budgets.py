"""Check when a disruption budget is active and how many nodes it allows."""

from __future__ import annotations

import pytest

from kschedctl.api.decoding import convert_builtins
from kschedctl.api.karpenter import NodePool
from kschedctl.api.times import parse_microseconds
from kschedctl.autoscaling.karpenter.disruption_budgets import UNLIMITED, compute_allowed_disruptions, was_schedule_due
from kschedctl.commands.consolidate.autoscalers import extract_karpenter_verdicts
from kschedctl.errors import InputError
from kschedctl.reports.karpenter import (
    AloneAnswer,
    Disruption,
    DisruptionCandidate,
    DisruptionCommand,
    DisruptionMethod,
    NodeFate,
    Provisioning,
    ProvisioningError,
)

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
def test_schedules_are_active_for_their_duration(schedule: str, hours: int, expected: bool) -> None:
    """4 March 2026 was a Wednesday."""
    assert was_schedule_due(schedule, parse_microseconds(WEDNESDAY), hours * HOUR) is expected


@pytest.mark.parametrize("schedule", ["", "* * * *", "61 * * * *", "a * * * *", "*/0 * * * *", "5-2 * * * *"])
def test_invalid_cron_expressions_are_errors(schedule: str) -> None:
    with pytest.raises(InputError, match="cron expression"):
        was_schedule_due(schedule, parse_microseconds(WEDNESDAY), HOUR)


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
def test_allowed_disruptions_of_budgets(budgets: list[dict[str, object]], expected: int) -> None:
    pool = convert_builtins({"metadata": {"name": "p"}, "spec": {"disruption": {"budgets": budgets}}}, NodePool)
    assert compute_allowed_disruptions(pool, 11, "Drifted", parse_microseconds(WEDNESDAY)) == expected


@pytest.mark.parametrize("disruption", [{}, {"budgets": None}, {"budgets": [{}]}, {"consolidateAfter": None}])
def test_omitted_fields_get_the_api_defaults(disruption: dict[str, object]) -> None:
    """The schema defaults to consolidation at once and to one budget of 10 %, which rounds up to 2 of 11 nodes."""
    pool = convert_builtins({"metadata": {"name": "p"}, "spec": {"disruption": disruption}}, NodePool)
    assert compute_allowed_disruptions(pool, 11, "Drifted", parse_microseconds(WEDNESDAY)) == 2
    assert pool.spec.disruption.consolidate_after == "0s"
    assert compute_allowed_disruptions(NodePool(), 11, "Drifted", parse_microseconds(WEDNESDAY)) == 2


@pytest.mark.parametrize(("allowed", "blocked"), [(0, {"k1": "base"}), (1, {})])
def test_exhausted_budget_is_named_as_the_obstacle(allowed: int, blocked: dict[str, str]) -> None:
    """Without the budget, k1 could be deleted and k2 could not, so only k1 stays because of it."""
    command = DisruptionCommand("delete", ("k1",), 0.2, (), ())
    candidates = tuple(DisruptionCandidate(name, "base", 0.2, 1.0, 1.0, 0.2) for name in ("k1", "k2"))
    report = Disruption(
        single=DisruptionMethod(candidates, budgets={"base": allowed}),
        per_node={"k1": AloneAnswer(command), "k2": AloneAnswer()},
        fates=(NodeFate("k1", "base", "delete"), NodeFate("k2", "base", "stays", why="Can't replace")),
    )
    assert report.budget_blocked == blocked
    sentence = ": the disruption budgets of NodePool base allow 0 nodes now, which keeps k1" if blocked else ""
    assert str(report) == f"Karpenter would remove no node{sentence}"
    verdicts = extract_karpenter_verdicts(report)
    assert ("NodePool base allow 0 nodes now" in verdicts.describe_node("k1")) is bool(blocked)
    assert verdicts.describe_node("k2") == "stays: Can't replace"


def test_short_form_of_provision_gives_the_reasons() -> None:
    report = Provisioning(
        pending=("a/p1", "a/p2", "a/p3"),
        pod_errors={"a/p1": ProvisioningError("no type", ()), "a/p2": ProvisioningError("no type", ())},
        missing={"a/p1": {"base": ("the label x is missing",)}, "a/p2": {"base": ("the label x is missing",)}},
        still_pending={"a/p3": "0/2 nodes are available: 2 Insufficient cpu."},
    )
    refused, waiting = report.summary().pods
    assert (refused.pods, refused.such_as, refused.why) == (2, "a/p1", "NodePool base: the label x is missing")
    assert waiting.such_as == "a/p3"
    assert waiting.why.startswith("stays pending although a node is launched; it fits on none of the 2 nodes: ")


@pytest.mark.parametrize(("seen", "known"), [(0, "no instance type is known, so some may fit"), (1, "others may fit")])
def test_first_line_mentions_missing_instance_types(seen: int, known: str) -> None:
    report = Provisioning(pending=("a/p",), pod_errors={"a/p": ProvisioningError("no type", ())}, seen_types=seen)
    assert known in str(report)
    assert any("--instance-types FILE" in warning for warning in report.summary().warnings)
