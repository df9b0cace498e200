"""A log of the events that Karpenter's disruption controllers write, without repetitions.

Upstream: pkg/controllers/disruption/events/events.go, pkg/utils/pod/events.go (sigs.k8s.io/karpenter v1.14.1).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime

from kschedctl.api.objects import Pod
from kschedctl.api.times import parse_microseconds
from kschedctl.autoscaling.karpenter.pods import parse_protection_duration
from kschedctl.autoscaling.karpenter.state_nodes import StateNode
from kschedctl.reports.karpenter import KarpenterEvent

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)")

_NANOSECONDS_PER_MICROSECOND = 1000
_MICROSECONDS_PER_SECOND = 1_000_000


class EventLog:
    """The distinct events in the order in which they were first written."""

    def __init__(self) -> None:
        self._events: dict[KarpenterEvent, None] = {}

    @property
    def events(self) -> tuple[KarpenterEvent, ...]:
        """The distinct events in the order in which they were first written."""
        return tuple(self._events)

    def list_node_events(self, name: str) -> list[KarpenterEvent]:
        """Return the events about the node with this name."""
        return [event for event in self._events if event.kind == "Node" and event.name == name]

    def add_events(self, events: Iterable[KarpenterEvent]) -> None:
        """Add events that are already built, without repeating any."""
        self._events.update(dict.fromkeys(events))

    def log_node_blocked(self, state: StateNode, message: str) -> None:
        """Log that the node cannot be disrupted, with the reason as the message."""
        self._write_for_node_and_claim(state, "DisruptionBlocked", message)

    def log_node_unconsolidatable(self, state: StateNode, message: str) -> None:
        """Log that the node cannot be consolidated, with the reason as the message."""
        self._write_for_node_and_claim(state, "Unconsolidatable", message)

    def log_consolidation_candidate(self, state: StateNode, command: str, savings: float) -> None:
        """Log that consolidation could delete or replace the node, with the command and the savings per hour."""
        self._write_for_node_and_claim(
            state, "ConsolidationCandidate", f"Consolidation candidate: {command} (savings: ${savings:.2f})"
        )

    def log_node_approved(self, state: StateNode, message: str) -> None:
        """Log that the policy Balanced approves the node's consolidation, with the score as the message."""
        self._write_for_node_and_claim(state, "ConsolidationApproved", message)

    def log_pool_approved(self, pool: str, message: str) -> None:
        """Log that the policy Balanced approves a consolidation of the pool's nodes, with the score as the message."""
        self._write_event("NodePool", pool, "ConsolidationApproved", message)

    def log_pool_blocked(self, pool: str, reason: str) -> None:
        """Log that the pool's disruption budgets allow no disruption for this reason."""
        message = f"No allowed disruptions for disruption reason {reason} due to blocking budget"
        self._write_event("NodePool", pool, "DisruptionBlocked", message)

    def log_end_of_protection(self, pod: Pod, now: int) -> None:
        """Log when the duration in the pod's do-not-disrupt annotation ends, that it has ended, or that it is invalid.

        Nothing is logged if the annotation has no duration. For a valid duration, nothing is logged before the pod
        starts.
        """
        annotation = pod.metadata.annotations.do_not_disrupt
        if annotation is None or annotation == "true":
            return
        duration = parse_protection_duration(annotation)
        is_invalid = duration <= 0
        if is_invalid:
            fault = _describe_duration_error(annotation)
            message = f"Invalid karpenter.sh/do-not-disrupt annotation: {fault}, ignoring annotation"
            self._write_event("Pod", pod.key, "InvalidDoNotDisruptAnnotation", message)
            return

        started = pod.status.start_time
        if started is None:
            return
        end = parse_microseconds(started) + duration // _NANOSECONDS_PER_MICROSECOND
        if now < end:
            moment = datetime.fromtimestamp(end // _MICROSECONDS_PER_SECOND, UTC).isoformat().replace("+00:00", "Z")
            message = f"The karpenter.sh/do-not-disrupt grace period will elapse at {moment}"
            self._write_event("Pod", pod.key, "DoNotDisruptUntil", message)
        else:
            message = "The karpenter.sh/do-not-disrupt grace period has elapsed, pod is now disruptable"
            self._write_event("Pod", pod.key, "DoNotDisruptGracePeriodElapsed", message)

    def _write_for_node_and_claim(self, state: StateNode, reason: str, message: str) -> None:
        """Write an event with this reason and message about the node and another about its NodeClaim, if they exist."""
        for kind, obj in (("Node", state.node), ("NodeClaim", state.claim)):
            if obj is not None:
                self._write_event(kind, obj.metadata.name, reason, message)

    def _write_event(self, kind: str, name: str, reason: str, message: str) -> None:
        """Write one event about the object of this kind and name, unless the same event has been written before."""
        self._events[KarpenterEvent(kind, name, reason, message)] = None


def _describe_duration_error(text: str) -> str:
    """Describe, with Go's error message, why a text is not a valid positive duration."""
    number = _NUMBER.match(text)
    if number is None:
        error = f'invalid duration "{text}"'
    elif number.end() == len(text):
        error = f'missing unit in duration "{text}"'
    else:
        unit = re.match(r"[^0-9.]*", text[number.end() :])
        if unit and unit[0] in ("ns", "us", "µs", "ms", "s", "m", "h"):
            return f'duration "{text}" must be positive'
        error = f'unknown unit "{unit[0] if unit else ""}" in duration "{text}"'
    return f'failed to parse "{text}" as a duration: time: {error}'
