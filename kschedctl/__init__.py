"""kschedctl replays kube-scheduler on a snapshot of a cluster: why a pod is Pending, where it would go.

A Cluster comes from objects (dicts, as kubectl prints them), files, a snapshot or an API server:

    kschedctl.Cluster.from_objects([...])        kschedctl.Cluster.from_paths(["state.json", "pods/"])
    kschedctl.Cluster.from_snapshot("x.ksnap")   kschedctl.Cluster.from_live(context="prod")

Every command is a function, which the command calls: ``explain`` answers for a pod, or for a manifest (dict) of a pod,
or of what makes pods; ``pending`` for all that wait; ``remedies`` says which smallest changes would let a pod schedule,
``pending_remedies`` which clear most of those that wait, ``make_room`` which pods have to move for it; ``wake_ups``
what makes the scheduler try a refused pod again, ``pending_wake_ups`` of all that wait, ``wakes`` and ``wakes_by``
whether these events do, ``wakes_between`` which between two moments did; ``simulate``,
``capacity``, ``drain``, ``failures`` and ``whatif`` what would happen, ``follow_rollout`` what did; ``lint`` and
``audit`` what is wrong; ``diff`` what changed; ``pools`` which node pools there are, ``consolidate`` which nodes could
go, ``size`` which nodes would be needed anew, ``rebalance`` what the descheduler evicts; ``scale_up`` and
``scale_down`` what the Cluster Autoscaler does in its next loop, ``provision`` and ``disrupt`` what Karpenter does in
its next rounds; ``admit`` what the API server makes of a manifest; ``cluster_metrics`` the numbers for a dashboard;
``packing``, ``priorities`` and ``topology`` are sections of the audit by themselves, ``latency`` reads kube-scheduler's
metrics, ``sampling_costs`` says what looking at a part of the nodes costs, ``races`` how many pods are double-booked;
``check_configuration`` and ``effective_configuration`` are about a KubeSchedulerConfiguration, ``version_changes``
about versions of kube-scheduler; ``run_queue`` works off the scheduling queue.

Reports have the fields of the JSON documents, which ``to_dict()`` gives, and ``summary()``, ``to_markdown()``,
``to_html()`` and ``to_frame()``; ``str(report)`` is the answer in a line. What goes wrong by what was given is a
KschedctlError, whose text is one line.

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
    from kschedctl.library.audit import audit as audit
    from kschedctl.library.autoscalers import disrupt as disrupt
    from kschedctl.library.autoscalers import pools as pools
    from kschedctl.library.autoscalers import provision as provision
    from kschedctl.library.autoscalers import scale_down as scale_down
    from kschedctl.library.autoscalers import scale_up as scale_up
    from kschedctl.library.cluster import Cluster as Cluster
    from kschedctl.library.cluster_metrics import cluster_metrics as cluster_metrics
    from kschedctl.library.configuration import check_configuration as check_configuration
    from kschedctl.library.configuration import effective_configuration as effective_configuration
    from kschedctl.library.configuration import version_changes as version_changes
    from kschedctl.library.consolidating import consolidate as consolidate
    from kschedctl.library.following import follow_rollout as follow_rollout
    from kschedctl.library.latency import latency as latency
    from kschedctl.library.linting import lint as lint
    from kschedctl.library.making_room import make_room as make_room
    from kschedctl.library.node_losses import drain as drain
    from kschedctl.library.node_losses import failures as failures
    from kschedctl.library.pending import pending as pending
    from kschedctl.library.pods import explain as explain
    from kschedctl.library.races import races as races
    from kschedctl.library.rebalancing import rebalance as rebalance
    from kschedctl.library.remedies import pending_remedies as pending_remedies
    from kschedctl.library.remedies import remedies as remedies
    from kschedctl.library.sampling import sampling_costs as sampling_costs
    from kschedctl.library.sections import packing as packing
    from kschedctl.library.sections import priorities as priorities
    from kschedctl.library.sections import topology as topology
    from kschedctl.library.sizing import size as size
    from kschedctl.library.snapshots import diff as diff
    from kschedctl.library.waking import pending_wake_ups as pending_wake_ups
    from kschedctl.library.waking import wake_ups as wake_ups
    from kschedctl.library.waking import wakes_between as wakes_between
    from kschedctl.library.waking import wakes_by as wakes_by
    from kschedctl.studies.capacity import capacity as capacity
    from kschedctl.studies.following.follow import follow as follow
    from kschedctl.studies.following.sampling import sampling as sampling
    from kschedctl.studies.run_queue import run_queue as run_queue
    from kschedctl.studies.simulate import simulate as simulate
    from kschedctl.studies.waking.wakes import wakes as wakes
    from kschedctl.studies.whatif import whatif as whatif

WHERE = {
    "Cluster": "library.cluster",
    "admit": "admission.admit",
    "audit": "library.audit",
    "capacity": "studies.capacity",
    "check_configuration": "library.configuration",
    "cluster_metrics": "library.cluster_metrics",
    "consolidate": "library.consolidating",
    "diff": "library.snapshots",
    "disrupt": "library.autoscalers",
    "drain": "library.node_losses",
    "effective_configuration": "library.configuration",
    "explain": "library.pods",
    "failures": "library.node_losses",
    "follow": "studies.following.follow",
    "follow_rollout": "library.following",
    "latency": "library.latency",
    "lint": "library.linting",
    "make_room": "library.making_room",
    "packing": "library.sections",
    "pending": "library.pending",
    "pending_remedies": "library.remedies",
    "pending_wake_ups": "library.waking",
    "pools": "library.autoscalers",
    "priorities": "library.sections",
    "provision": "library.autoscalers",
    "races": "library.races",
    "rebalance": "library.rebalancing",
    "remedies": "library.remedies",
    "run_queue": "studies.run_queue",
    "sampling": "studies.following.sampling",
    "sampling_costs": "library.sampling",
    "scale_down": "library.autoscalers",
    "scale_up": "library.autoscalers",
    "simulate": "studies.simulate",
    "size": "library.sizing",
    "topology": "library.sections",
    "version_changes": "library.configuration",
    "wake_ups": "library.waking",
    "wakes": "studies.waking.wakes",
    "wakes_between": "library.waking",
    "wakes_by": "library.waking",
    "whatif": "studies.whatif",
}
"""Function -> its module, which is loaded when it is asked for; above the same is said to type checkers."""
__version__ = VERSION
__all__ = ["KschedctlError", "__version__"]
__all__ += [*WHERE]  # noqa: PLE0604 - all are strings


def __getattr__(name: str) -> object:
    """Load what is asked for, and nothing else: commands that need little of it start faster."""
    if name in WHERE:
        return getattr(import_module(f"kschedctl.{WHERE[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """With what is loaded on demand."""
    return sorted({*globals(), *__all__})
