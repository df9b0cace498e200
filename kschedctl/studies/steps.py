"""The steps of a scenario, each as a change of the cluster after which its pending pods pass the queue."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as changed
from functools import singledispatch
from typing import Any

from msgspec.structs import replace

from kschedctl.api.labels import parse_selector
from kschedctl.api.node_selector import required_node_affinity
from kschedctl.api.objects import Node, Pod, PriorityClass, Taint
from kschedctl.api.objects import ObjectMeta as Meta
from kschedctl.api.priority import class_errors
from kschedctl.api.tolerations import find_untolerated
from kschedctl.api.workloads import made_again
from kschedctl.cluster import Cluster, convert
from kschedctl.errors import InputError, KschedctlError, UsageError
from kschedctl.reports import scenario as parts
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation import Simulation
from kschedctl.snapshot.node_order import HOSTNAME
from kschedctl.studies import nodes
from kschedctl.studies.drain import Draining
from kschedctl.studies.edits import owner_of, pods_where, returns, with_nodes, with_pods
from kschedctl.studies.settling import Settled, settle, settled
from kschedctl.studies.simulate import deploy, prepare
from kschedctl.studies.updates import leaves_first

Files = Callable[[Sequence[str]], Sequence[Mapping[str, Any]]]
"""Reads the documents of files that a scenario names."""
Changes = dict[tuple[str, str], Pod | None]


@dataclass(frozen=True)
class Circumstances:
    """What steps need besides the cluster."""

    read: Files
    seed: int = 0
    sampling: bool = False


@dataclass
class Taken:
    """A step that was taken: the cluster that came to rest after it, and how many pods lost their node by it."""

    rest: Settled
    displaced: int = 0
    notes: list[str] = field(default_factory=list)


def take(part: parts.Part, verb: str, cluster: Cluster, circumstances: Circumstances) -> Taken:
    """Take one step. Raises KschedctlError."""
    if verb in REACTIONS:
        return REACTIONS[verb](part, cluster, circumstances)
    edited, changes, notes = EDITS[verb](part, cluster, circumstances)
    rest = settle(with_pods(edited, changes), circumstances.seed, circumstances.sampling)
    return Taken(rest, sum(1 for pod in changes.values() if pod is None or not pod.spec.node_name), notes)
