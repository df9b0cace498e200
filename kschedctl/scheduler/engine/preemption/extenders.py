"""What extenders leave of the nodes on which preemption would help, and whom they would rather see evicted there.

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
    """The pods to evict on a node, and how many budgets that is said to break."""

    positions: tuple[Position, ...]
    violations: int


def call_extenders(consultation: Consultation, view: Fork, candidates: Candidates) -> Candidates:
    """The candidates that they leave. Raises PluginError where one that counts fails."""
    asked = [extender for extender in consultation.extenders if extender.settings.preempt_verb]
    if not asked:
        return candidates
    names = view.nodes.names
    left = {names[candidate.row]: _Victims(candidate.victims, candidate.pdb_violations) for candidate in candidates}
    for extender in asked:
        try:
            processed = _processed(consultation, extender, left, view)
        except ExtenderError as error:
            if extender.settings.ignorable:
                continue
            raise PluginError(str(error)) from None
        left = left if processed is None else _with_victims(processed, extender)
        if not left:
            break
    return _candidates(left, view)


def _processed(
    consultation: Consultation, extender: HTTPExtender, victims: Mapping[str, _Victims], view: Fork
) -> dict[str, _Victims] | None:
    """None where nobody knows what the extender says. Raises ExtenderError."""
    sent = {
        name: ([_document(p, view) for p in victim.positions], victim.violations) for name, victim in victims.items()
    }
    answer = consultation.preempt(extender, sent)
    return None if answer is None else {name: _found(name, answer[name], extender, view) for name in sorted(answer)}


def _found(name: str, victims: MetaVictims, extender: HTTPExtender, view: Fork) -> _Victims:
    row = view.nodes.index.get(name)
    if row is None:
        raise ExtenderError(f'nodeinfo not found for node name "{name}"')
    here: dict[str, Position] = {}
    for position in view.pods_on(row):
        here.setdefault(uid(view.pods.objects[position]), position)
    for victim in victims.uids:
        if victim not in here:
            claim = f"claims to preempt pod (UID: &{{{victim}}}) on node: {name}, but the pod is not found on that node"
            raise ExtenderError(f"extender: {extender.url} {claim}")
    return _Victims(tuple(here[victim] for victim in victims.uids), victims.violations)


def _with_victims(candidates: dict[str, _Victims], extender: HTTPExtender) -> dict[str, _Victims]:
    """Less the nodes without victims, which only an extender that may be ignored may return. Raises PluginError."""
    for name, victims in candidates.items():
        if not victims.positions and not extender.settings.ignorable:
            raise PluginError(f'expected at least one victim pod on node "{name}"')
    return {name: victims for name, victims in candidates.items() if victims.positions}


def _candidates(left: Mapping[str, _Victims], view: Fork) -> Candidates:
    in_order = sorted((view.nodes.index[name], candidate) for name, candidate in left.items())
    victims = [position for _, candidate in in_order for position in candidate.positions]
    sizes = [len(candidate.positions) for _, candidate in in_order]
    return Candidates(
        np.array([row for row, _ in in_order], np.int64),
        np.append(0, np.cumsum(np.array(sizes, np.int64))),
        np.array(victims, np.int64),
        np.zeros(len(victims), np.bool_),
        np.array([candidate.violations for _, candidate in in_order], np.int64),
    )


def _document(position: Position, view: Fork) -> dict[str, object]:
    """A pod as it is sent."""
    pod = view.pods.objects[position]
    return {**msgspec.to_builtins(pod), "metadata": {**msgspec.to_builtins(pod.metadata), "uid": uid(pod)}}


def uid(pod: Pod) -> str:
    """The pod's UID; of one that was never stored its name."""
    return pod.metadata.uid or pod.key
