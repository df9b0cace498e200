"""Extenders' say in preemption: the candidate nodes that they leave, and the victims that they change.

Upstream: callExtenders in pkg/scheduler/framework/preemption/preemption.go, ProcessPreemption in
pkg/scheduler/extender.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec
import numpy as np

from kschedctl.api.arrays import Position
from kschedctl.api.objects import Pod
from kschedctl.scheduler.engine.extenders.answers import ExtenderError, MetaVictims
from kschedctl.scheduler.engine.extenders.consultation import Consultation
from kschedctl.scheduler.engine.extenders.extender import HTTPExtender
from kschedctl.scheduler.engine.preemption.candidates import Candidates
from kschedctl.scheduler.framework import PluginError
from kschedctl.snapshot.fork import Fork


class _Victims(NamedTuple):
    """The pods to evict on a node, and the number of PDB violations."""

    positions: tuple[Position, ...]
    violations: int


def call_extenders(consultation: Consultation, view: Fork, candidates: Candidates) -> Candidates:
    """Return the candidates that the extenders leave. Raises PluginError if a non-ignorable extender fails."""
    extenders = [extender for extender in consultation.extenders if extender.settings.preempt_verb]
    if not extenders:
        return candidates
    names = view.nodes.names
    remaining = {
        names[candidate.row]: _Victims(candidate.victims, candidate.pdb_violations) for candidate in candidates
    }
    for extender in extenders:
        try:
            processed = _process_preemption(consultation, extender, remaining, view)
        except ExtenderError as error:
            if extender.settings.ignorable:
                continue
            raise PluginError(str(error)) from None
        remaining = remaining if processed is None else _drop_nodes_without_victims(processed, extender)
        if not remaining:
            break
    return _build_candidates(remaining, view)


def _process_preemption(
    consultation: Consultation, extender: HTTPExtender, victims: Mapping[str, _Victims], view: Fork
) -> dict[str, _Victims] | None:
    """Return the victims by node that an extender answers, or None if it cannot be asked. Raises ExtenderError."""
    sent = {
        name: ([_pod_to_json(p, view) for p in victim.positions], victim.violations) for name, victim in victims.items()
    }
    answer = consultation.preempt(extender, sent)
    return (
        None
        if answer is None
        else {name: _resolve_victims(name, answer[name], extender, view) for name in sorted(answer)}
    )


def _resolve_victims(name: str, victims: MetaVictims, extender: HTTPExtender, view: Fork) -> _Victims:
    """Find the pods of an extender's UIDs on a node. Raises ExtenderError if one is not there."""
    row = view.nodes.index.get(name)
    if row is None:
        raise ExtenderError(f'nodeinfo not found for node name "{name}"')
    pods_by_uid: dict[str, Position] = {}
    for position in view.pods_on(row):
        pods_by_uid.setdefault(pod_uid(view.pods.objects[position]), position)
    for victim in victims.uids:
        if victim not in pods_by_uid:
            claim = f"claims to preempt pod (UID: &{{{victim}}}) on node: {name}, but the pod is not found on that node"
            raise ExtenderError(f"extender: {extender.url} {claim}")
    return _Victims(tuple(pods_by_uid[victim] for victim in victims.uids), victims.violations)


def _drop_nodes_without_victims(candidates: dict[str, _Victims], extender: HTTPExtender) -> dict[str, _Victims]:
    """Drop nodes without victims, which only an ignorable extender may return. Raises PluginError."""
    for name, victims in candidates.items():
        if not victims.positions and not extender.settings.ignorable:
            raise PluginError(f'expected at least one victim pod on node "{name}"')
    return {name: victims for name, victims in candidates.items() if victims.positions}


def _build_candidates(victims_by_node: Mapping[str, _Victims], view: Fork) -> Candidates:
    """Convert victims by node to candidates."""
    in_order = sorted((view.nodes.index[name], candidate) for name, candidate in victims_by_node.items())
    victims = [position for _, candidate in in_order for position in candidate.positions]
    sizes = [len(candidate.positions) for _, candidate in in_order]
    return Candidates(
        np.array([row for row, _ in in_order], np.int64),
        np.append(0, np.cumsum(np.array(sizes, np.int64))),
        np.array(victims, np.int64),
        np.zeros(len(victims), np.bool_),
        np.array([candidate.violations for _, candidate in in_order], np.int64),
    )


def _pod_to_json(position: Position, view: Fork) -> dict[str, object]:
    """Return a pod as it is sent."""
    pod = view.pods.objects[position]
    return {**msgspec.to_builtins(pod), "metadata": {**msgspec.to_builtins(pod.metadata), "uid": pod_uid(pod)}}


def pod_uid(pod: Pod) -> str:
    """Return the pod's UID, or its name if it was never stored."""
    return pod.metadata.uid or pod.key
