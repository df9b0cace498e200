"""Topology domains and the running counts of matching pods in them."""

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


def restrict_domains(domains: Domains, counts: Bools, key: Hashable, view: Fork) -> Domains:
    """Return the domains of the nodes that count (N,), built once for all pods for which the same nodes count.

    `key` names the domains in the cache.
    """

    def build() -> Domains:
        return Domains(np.where(counts, domains.codes, -1).astype(np.int32), domains.size)

    return view.memo((NAME, restrict_domains, key, counts.tobytes()), build)


def count_matching_pods(
    constraint: SpreadConstraint, info: PodInfo, view: Fork, domains: Domains | None = None, key: Hashable = None
) -> Counts:
    """Return the number of matching pods on each node (N,), or in each of the domains.

    A pod matches if it is in the pod's namespace, is selected and is not terminating. An empty selector matches none.
    `key` names the domains in the cache.
    """
    return tally_matching_pods(constraint, info, view, domains, key).bring_up_to_date(view.trail)


def tally_matching_pods(
    constraint: SpreadConstraint, info: PodInfo, view: Fork, domains: Domains | None = None, key: Hashable = None
) -> Tally:
    """Return the running count of matching pods, on nodes or in domains as in `count_matching_pods`."""

    def weights() -> Counts:
        if constraint.selector == EVERYTHING:
            return np.zeros(len(view.pods.infos), np.int64)
        selected = view.pods.matching(constraint.selector, frozenset((info.namespace,)))
        return (selected & ~view.pods.terminating).astype(np.int64)

    name = (NAME, constraint.selector, info.namespace, key)
    return view.find_tally(name, weights, domains, None if key is None else info)


def nodes_with_all_keys(constraints: Sequence[SpreadConstraint], view: Fork) -> Bools:
    """Return (N,) a mask of the nodes that have the topology labels of all constraints."""
    complete = np.ones(len(view.nodes), np.bool_)
    for constraint in constraints:
        complete &= view.nodes.label(constraint.topology_key).present
    return complete
