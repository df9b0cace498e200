"""Check that each planted fault in kube-scheduler's metrics is found, and none in healthy metrics."""

from __future__ import annotations

import pytest
from metrics_texts import (
    ATTEMPT_BOUNDS,
    write_attempts,
    write_extension_point,
    write_histogram,
    write_plugin,
    write_queues,
    write_sample,
)

from kschedctl.commands.audit.audited_cluster import LatencyLimits
from kschedctl.commands.audit.latency import build_section_from_metrics
from kschedctl.commands.audit.latency.figures import split_attempt_time
from kschedctl.commands.audit.latency.report import LatencySection
from kschedctl.sources.metrics.exposition import compute_metrics_since_start, parse_exposition

# 1,000 pods, each in 5 ms: 2 of Filter, 2 of Score, 1 of Bind.
SOUND = {
    "attempts": write_attempts({0.005: 1000}),
    "points": write_extension_point("Filter", {0.002: 1000})
    + write_extension_point("Score", {0.002: 1000})
    + write_extension_point("Bind", {0.001: 1000}),
    "plugins": write_plugin("NodeResourcesFit", "Filter", {0.00001: 500}),
    "sli": write_histogram("scheduler_pod_scheduling_sli_duration_seconds", ATTEMPT_BOUNDS, {0.01: 1000}, attempts="1"),
    "queues": write_queues(active=3, backoff=1, unschedulable=20, gated=0),
    "preemption": write_sample("scheduler_preemption_attempts_total", 4),
    "victims": write_histogram("scheduler_preemption_victims", (1, 2, 4), {1: 2, 2: 2}),
    "cache": write_sample("scheduler_cache_size", 5000, type="pods")
    + write_sample("scheduler_cache_size", 100, type="nodes"),
    "hints": write_histogram(
        "scheduler_queueing_hint_execution_duration_seconds",
        ATTEMPT_BOUNDS,
        {0.00001: 50},
        plugin="NodeAffinity",
        event="NodeAdd",
        hint="QueueSkip",
    ),
    "flushed": write_sample("scheduler_pod_scheduled_after_flush_total", 0),
    "events": write_sample("scheduler_inflight_events", 12, event="PodPopped"),
    "leads": write_sample("leader_election_master_status", 1, name="kube-scheduler"),
}
HINT = {"plugin": "NodeAffinity", "event": "NodeAdd", "hint": "Error"}
CALLS = "scheduler_async_api_call_execution_duration_seconds"
FAULTS = {
    "slow attempts": (
        "audit-latency-attempts",
        "warning",
        # 10 of 1,000 in 300 ms would be P99 still within 8 ms; 20 are not: in the bucket from 256 to 512 ms.
        {
            "attempts": write_attempts({0.005: 980, 0.3: 20}),
            "points": write_extension_point("Filter", {0.002: 980, 0.29: 20}),
        },
        ("P99 384 ms", "Filter takes"),
    ),
    "most attempts are slow": (
        "audit-latency-attempts",
        "error",
        {"attempts": write_attempts({0.5: 1000})},
        ("target 100 ms",),
    ),
    "a plugin beyond its buckets": (
        "audit-latency-plugin",
        "warning",
        {"plugins": write_plugin("InterPodAffinity", "PreFilter", {0.05: 40})},
        ("InterPodAffinity at PreFilter", "P99 at least 22.2 ms"),
    ),
    "slow binding": (
        "audit-latency-binding",
        "warning",
        {"points": write_extension_point("Filter", {0.002: 1000}) + write_extension_point("PreBind", {0.15: 1000})},
        ("PreBind", "P50 154 ms"),
    ),
    "slow API calls": (
        "audit-latency-binding",
        "warning",
        {"calls": write_histogram(CALLS, ATTEMPT_BOUNDS, {0.9: 10}, call_type="pod_binding", result="success")},
        ("API call pod_binding",),
    ),
    "the client holds back": (
        "audit-latency-client",
        "warning",
        {"client": write_histogram("rest_client_rate_limiter_duration_seconds", (0.1, 1.0), {0.5: 10}, verb="POST")},
        ("the client's rate limit delays POST requests",),
    ),
    "long in the queue": (
        "audit-latency-sli",
        "warning",
        {
            "sli": write_histogram(
                "scheduler_pod_scheduling_sli_duration_seconds", (1, 10, 100), {50.0: 10}, attempts="1"
            )
        },
        ("at the first attempt P50 55 s",),
    ),
    "an error": (
        "audit-latency-errors",
        "warning",
        {"errors": write_sample("scheduler_schedule_attempts_total", 2, result="error", profile="default-scheduler")},
        ("2 error",),
    ),
    "many errors": (
        "audit-latency-errors",
        "error",
        {"errors": write_sample("scheduler_schedule_attempts_total", 200, result="error", profile="default-scheduler")},
        ("200 error",),
    ),
    # 10,000 pods of 5 ms each: 50 s.
    "a long active queue": (
        ("audit-latency-active-queue"),
        "warning",
        {"queues": write_queues(active=10_000)},
        ("takes 50 s",),
    ),
    "a long back-off queue": (
        "audit-latency-backoff-queue",
        "warning",
        {"queues": write_queues(active=3, backoff=400)},
        ("400 pods in back-off, 3 are ready",),
    ),
    "many fit nowhere": (
        "audit-latency-unschedulable-queue",
        "warning",
        {"queues": write_queues(active=0, unschedulable=501)},
        ("501 pods fit on no node, 5,000 are running",),
    ),
    "found by the flush": (
        "audit-latency-flushed",
        "warning",
        {"flushed": write_sample("scheduler_pod_scheduled_after_flush_total", 3)},
        ("3 pods fitted",),
    ),
    "evictions fail": (
        "audit-latency-evicting",
        "warning",
        {"evicting": write_sample("scheduler_preemption_goroutines_execution_total", 5, result="error")},
        ("4 attempts, 4 with victims, 6 victims; 5 failed",),
    ),
    "assumed and not bound": (
        "audit-latency-assumed",
        "warning",
        {"assumed": write_sample("scheduler_cache_size", 300, type="assumed_pods")},
        ("300 assumed pods",),
    ),
    "hints fail": (
        "audit-latency-hint-errors",
        "warning",
        {"more": write_histogram("scheduler_queueing_hint_execution_duration_seconds", (0.1,), {0.01: 2}, **HINT)},
        ("2 Error, 50 QueueSkip (errors in NodeAffinity)",),
    ),
    "vain preemption": (
        "audit-latency-vain-preemption",
        "note",
        {"preemption": write_sample("scheduler_preemption_attempts_total", 100)},
        ("100 attempts, 4 with victims",),
    ),
    "most attempts are refused": (
        "audit-latency-refused",
        "note",
        {"refused": write_sample("scheduler_schedule_attempts_total", 1001, result="unschedulable", profile="p")},
        ("1,001 unschedulable, 1,000 scheduled",),
    ),
    "events in flight": (
        "audit-latency-events",
        "note",
        {"events": write_sample("scheduler_inflight_events", 10_001, event="NodeUpdate")},
        ("10,001 are kept",),
    ),
}


def audit_latency(parts: dict[str, str], target: float = 0.1) -> LatencySection:
    text = "".join(parts.values()).encode()
    return build_section_from_metrics(
        compute_metrics_since_start(parse_exposition(text, "metrics.txt")), LatencyLimits(target=target)
    )


def test_healthy_scheduler_is_sound() -> None:
    found = audit_latency(SOUND)
    assert (found.findings, found.state, found.undecided) == ((), "sound", False)
    # All of 1,000 are in the bucket from 4 to 8 ms: P50 6, P90 7.6, P99 7.96.
    quantiles = "P50 6 ms, P90 7.6 ms, P99 7.96 ms"
    assert found.headline == f"Attempts (scheduled, default-scheduler) are within the target of 100 ms: {quantiles}"


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_found_alone(name: str) -> None:
    rule, severity, parts, told = FAULTS[name]
    found = audit_latency({**SOUND, **parts})
    assert [(finding.rule, finding.severity) for finding in found.findings] == [(rule, severity)]
    assert all(words in found.findings[0].message for words in told), found.findings[0].message
    assert found.findings[0].fix
    assert found.state == ("sound" if severity == "note" else "findings")


def test_half_of_the_attempts_is_not_most() -> None:
    refused = write_sample("scheduler_schedule_attempts_total", 1000, result="unschedulable", profile="p")
    bound = write_sample("scheduler_schedule_attempts_total", 1000, result="scheduled", profile="p")
    assert audit_latency({**SOUND, "results": refused + bound}).findings == ()


def test_advice_addresses_what_takes_the_time() -> None:
    slow = {
        "attempts": write_attempts({0.5: 100}),
        "points": write_extension_point("Filter", {0.01: 100}) + write_extension_point("Score", {0.1: 400}),
        "plugins": write_plugin("PodTopologySpread", "Score", {0.003: 90})
        + write_plugin("ImageLocality", "Score", {0.001: 90}),
    }
    parts = split_attempt_time(compute_metrics_since_start(parse_exposition("".join(slow.values()).encode(), "a")))
    # Of 50 s Score takes 40, of that PodTopologySpread three quarters, Filter 1; 9 are outside of all plugins.
    assert [(part.name, part.plugin) for part in parts] == [
        ("Score", "PodTopologySpread"),
        ("outside of plugins", ""),
        ("Filter", ""),
    ]
    assert [part.share for part in parts] == pytest.approx([0.8, 0.18, 0.02])
    assert parts[0].plugin_share == pytest.approx(0.75)
    assert "fewer constraints per pod" in audit_latency({**SOUND, **slow}).findings[0].fix


def test_target_beyond_the_buckets_is_unknown() -> None:
    slow_bind = {"points": write_extension_point("Bind", {0.5: 100})}
    found = audit_latency({**SOUND, **slow_bind}, target=1.0)
    assert [each.state for each in found.verdicts if each.about == "binding"] == ["unknown"]
    assert (found.findings, found.state, found.undecided) == ((), "unknown", True)


def test_attempts_without_the_last_bucket_are_unknown() -> None:
    lines = [line for line in SOUND["attempts"].splitlines(keepends=True) if "+Inf" not in line]
    found = audit_latency({**SOUND, "attempts": "".join(lines)})
    assert found.attempts[0].p99 is None
    assert (found.state, found.undecided) == ("unknown", True)


def test_scheduler_that_does_not_lead_is_not_judged() -> None:
    found = audit_latency(
        {**SOUND, "leads": write_sample("leader_election_master_status", 0, name="kube-scheduler")}
        | {"queues": write_queues(active=100_000)}
    )
    assert (found.state, found.undecided, found.findings) == ("unknown", True, ())
    assert "is not the leader" in found.headline


@pytest.mark.parametrize("left_out", ["attempts", "unusable"])
def test_nothing_is_sound_without_grounds(left_out: str) -> None:
    parts = {**SOUND, "attempts": ""} if left_out == "attempts" else {**SOUND, "more": write_queues(more=-1)}
    assert (audit_latency(parts).state, audit_latency(parts).undecided) == ("unknown", True)


def test_metrics_of_later_versions_are_named() -> None:
    build = 'kubernetes_build_info{git_version="v1.31.4"} 1\n'
    missing = audit_latency({"attempts": SOUND["attempts"], "build": build}).missing
    assert missing["scheduler_inflight_events"] == "was added in 1.32"
    assert missing["scheduler_pod_scheduled_after_flush_total"] == "was added in 1.36"
    assert missing["scheduler_pending_pods"] == "is missing"


@pytest.mark.parametrize(("nodes", "told"), [(100, []), (None, []), (97, ["100 in the scheduler's cache, 97 in"])])
def test_cache_that_differs_from_the_cluster_is_reported(nodes: int | None, told: list[str]) -> None:
    text = "".join(SOUND.values()).encode()
    found = build_section_from_metrics(
        compute_metrics_since_start(parse_exposition(text, "metrics.txt")), LatencyLimits(), nodes
    )
    assert [finding.message.partition(": ")[2].partition(" the cluster")[0] for finding in found.findings] == told


def test_curve_of_attempts_by_duration() -> None:
    """700 attempts take (2, 4] ms, 200 take (4, 8] ms, and 100 take (0.512, 1.024] s.

    The curve ends once all are done.
    """
    (curve,) = audit_latency({"attempts": write_attempts({0.003: 700, 0.005: 200, 0.6: 100})}).attempt_curves
    assert curve.labels == {"result": "scheduled", "profile": "default-scheduler"}
    within = {round(seconds, 6): share for seconds, share in curve.within}
    assert within == {0.001: 0, 0.002: 0, 0.004: 0.7} | {0.001 * 2**i: 0.9 for i in range(3, 10)} | {1.024: 1}


def test_no_curve_for_values_in_one_bucket() -> None:
    assert audit_latency({"attempts": write_attempts({0.0005: 10})}).attempt_curves == ()


def test_headline_says_that_nothing_was_bound() -> None:
    found = audit_latency({**SOUND, "points": write_extension_point("Filter", {0.002: 1000})})
    assert found.headline.endswith("; nothing was bound")
