"""Domains of topology keys, and the pods that constraints count in them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from kschedctl.api.arrays import Bools, Counts
from kschedctl.api.labels import EVERYTHING
from kschedctl.scheduler.plugins.pod_topology_spread.constraints import NAME, SpreadConstraint
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.nodes import Domains
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.snapshot.tallies import Tally


def limited(domains: Domains, counting: Bools, key: Hashable, view: Fork) -> Domains:
    """The domains, which ``key`` names, as far as their nodes (N,) count: made once for all pods for which these do."""

    def made() -> Domains:
        return Domains(np.where(counting, domains.codes, -1).astype(np.int32), domains.size)

    return view.memo((NAME, limited, key, counting.tobytes()), made)


def matching_pods(
    constraint: SpreadConstraint, info: PodInfo, view: Fork, domains: Domains | None = None, key: Hashable = None
) -> Counts:
    """The pods that count: of the pod's namespace, selected, not terminating; an empty selector counts none.

    On each node (N,), or in each of the domains, which ``key`` names.
    """
    return tally_of_matching(constraint, info, view, domains, key).brought_up(view.trail)


def tally_of_matching(
    constraint: SpreadConstraint, info: PodInfo, view: Fork, domains: Domains | None = None, key: Hashable = None
) -> Tally:
    """The same, kept up to date along the trail."""

    def weights() -> Counts:
        if constraint.selector == EVERYTHING:
            return np.zeros(len(view.pods.infos), np.int64)
        selected = view.pods.matching(constraint.selector, frozenset((info.namespace,)))
        return (selected & ~view.pods.terminating).astype(np.int64)

    name = (NAME, constraint.selector, info.namespace, key)
    return view.kept_tally(name, weights, domains, None if key is None else info)


def has_all_keys(constraints: Sequence[SpreadConstraint], view: Fork) -> Bools:
    """(N,): the nodes that have the topology labels of all constraints."""
    complete = np.ones(len(view.nodes), np.bool_)
    for constraint in constraints:
        complete &= view.nodes.label(constraint.topology_key).present
    return complete
