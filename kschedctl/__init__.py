"""kschedctl replays kube-scheduler on a snapshot of a cluster: why a pod is Pending, and where it would go.

A Cluster comes from objects (dicts, as kubectl prints them), files, a snapshot or an API server:

    kschedctl.Cluster.from_objects([...])        kschedctl.Cluster.from_paths(["state.json", "pods/"])
    kschedctl.Cluster.from_snapshot("x.ksnap")   kschedctl.Cluster.from_live(context="prod")

The commands of the command line are functions, and each returns a report:

- ``explain`` a pod or manifest, ``pending``: why pods are Pending and which nodes they fit
- ``remedies``, ``pending_remedies``, ``make_room``: the smallest changes that let pods schedule
- ``wake_ups``, ``pending_wake_ups``: the events that make the scheduler retry rejected pods
- ``wakes``, ``wakes_by``, ``wakes_between``: whether an event, changes, or the time between two snapshots make it retry
- ``simulate``, ``whatif``, ``capacity``, ``drain``, ``failures``: what would happen
- ``follow``, ``follow_rollout``: scheduling pods one after the other, or as recorded events demand
- ``size``, ``consolidate``, ``rebalance``: which nodes are needed, and which pods the descheduler evicts
- ``scale_up``, ``scale_down``: the next loop of the Cluster Autoscaler
- ``provision``, ``disrupt``: the next rounds of Karpenter
- ``run_queue``, ``kueue_admission``, ``queues``: the scheduling queue, Kueue's queues and quota
- ``lint``, ``audit`` and its sections ``packing``, ``priorities``, ``topology``: problems of manifests and clusters
- ``races``, ``sampling``, ``sampling_costs``: double-booking by several schedulers, searching a part of the nodes
- ``latency``: kube-scheduler's metrics
- ``pools``, ``diff``, ``cluster_metrics``: node pools, changes between clusters, numbers for a dashboard
- ``admit``: what the API server makes of a manifest
- ``check_configuration``, ``effective_configuration``, ``version_changes``: the scheduler's configuration and versions

A report has the fields of the JSON output. ``to_dict()``, ``summary()``, ``to_markdown()``, ``to_html()`` and
``to_frame()`` convert it, and ``str(report)`` is the answer in one line. Invalid input raises a KschedctlError, whose
text is one line.

>>> import kschedctl
>>> cluster = kschedctl.Cluster.from_objects([])
>>> kschedctl.explain(cluster, "shop/web")
Traceback (most recent call last):
kschedctl.errors.UsageError: pod "shop/web" not found
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from kschedctl.errors import KschedctlError
from kschedctl.text.version import VERSION

if TYPE_CHECKING:
    from kschedctl.admission.admit import admit as admit
    from kschedctl.commands.audit import audit as audit
    from kschedctl.commands.capacity import capacity as capacity
    from kschedctl.commands.config import check_configuration as check_configuration
    from kschedctl.commands.config import effective_configuration as effective_configuration
    from kschedctl.commands.consolidate import consolidate as consolidate
    from kschedctl.commands.drain import drain as drain
    from kschedctl.commands.explain.one_pod import explain as explain
    from kschedctl.commands.explain.pending_pods import pending as pending
    from kschedctl.commands.failures import failures as failures
    from kschedctl.commands.latency import latency as latency
    from kschedctl.commands.lint import lint as lint
    from kschedctl.commands.make_room import make_room as make_room
    from kschedctl.commands.packing import packing as packing
    from kschedctl.commands.pools import pools as pools
    from kschedctl.commands.priorities import priorities as priorities
    from kschedctl.commands.provision import disrupt as disrupt
    from kschedctl.commands.provision import provision as provision
    from kschedctl.commands.queues import queues as queues
    from kschedctl.commands.races import races as races
    from kschedctl.commands.rebalance import rebalance as rebalance
    from kschedctl.commands.remedies import pending_remedies as pending_remedies
    from kschedctl.commands.remedies import remedies as remedies
    from kschedctl.commands.sampling import sampling_costs as sampling_costs
    from kschedctl.commands.scale import scale_down as scale_down
    from kschedctl.commands.scale import scale_up as scale_up
    from kschedctl.commands.simulate import simulate as simulate
    from kschedctl.commands.simulate.stepwise import follow as follow
    from kschedctl.commands.simulate.stepwise import follow_rollout as follow_rollout
    from kschedctl.commands.simulate.stepwise import sampling as sampling
    from kschedctl.commands.size import size as size
    from kschedctl.commands.snapshot import diff as diff
    from kschedctl.commands.topology import topology as topology
    from kschedctl.commands.versions import version_changes as version_changes
    from kschedctl.commands.wakes import pending_wake_ups as pending_wake_ups
    from kschedctl.commands.wakes import wake_ups as wake_ups
    from kschedctl.commands.wakes import wakes_between as wakes_between
    from kschedctl.commands.wakes import wakes_by as wakes_by
    from kschedctl.commands.wakes.event_replay import wakes as wakes
    from kschedctl.commands.watch import cluster_metrics as cluster_metrics
    from kschedctl.commands.whatif import whatif as whatif
    from kschedctl.kueue.replay import kueue_admission as kueue_admission
    from kschedctl.replay.run_queue import run_queue as run_queue
    from kschedctl.sources.cluster import Cluster as Cluster

PUBLIC_NAMES = {
    "Cluster": "sources.cluster",
    "admit": "admission.admit",
    "audit": "commands.audit",
    "capacity": "commands.capacity",
    "check_configuration": "commands.config",
    "cluster_metrics": "commands.watch",
    "consolidate": "commands.consolidate",
    "diff": "commands.snapshot",
    "disrupt": "commands.provision",
    "drain": "commands.drain",
    "effective_configuration": "commands.config",
    "explain": "commands.explain.one_pod",
    "failures": "commands.failures",
    "follow": "commands.simulate.stepwise",
    "follow_rollout": "commands.simulate.stepwise",
    "kueue_admission": "kueue.replay",
    "latency": "commands.latency",
    "lint": "commands.lint",
    "make_room": "commands.make_room",
    "packing": "commands.packing",
    "pending": "commands.explain.pending_pods",
    "pending_remedies": "commands.remedies",
    "pending_wake_ups": "commands.wakes",
    "pools": "commands.pools",
    "priorities": "commands.priorities",
    "provision": "commands.provision",
    "queues": "commands.queues",
    "races": "commands.races",
    "rebalance": "commands.rebalance",
    "remedies": "commands.remedies",
    "run_queue": "replay.run_queue",
    "sampling": "commands.simulate.stepwise",
    "sampling_costs": "commands.sampling",
    "scale_down": "commands.scale",
    "scale_up": "commands.scale",
    "simulate": "commands.simulate",
    "size": "commands.size",
    "topology": "commands.topology",
    "version_changes": "commands.versions",
    "wake_ups": "commands.wakes",
    "wakes": "commands.wakes.event_replay",
    "wakes_between": "commands.wakes",
    "wakes_by": "commands.wakes",
    "whatif": "commands.whatif",
}
"""Public name -> its module, which is imported on first use; the imports above are for type checkers."""
__version__ = VERSION
__all__ = ["KschedctlError", "__version__"]
__all__ += [*PUBLIC_NAMES]  # noqa: PLE0604 - all are strings


def __getattr__(name: str) -> object:
    """Import a public function on first use, so that commands start faster."""
    if name in PUBLIC_NAMES:
        return getattr(import_module(f"kschedctl.{PUBLIC_NAMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return all names, including those that are imported on first use."""
    return sorted({*globals(), *__all__})
