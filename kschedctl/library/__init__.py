"""The public Python API: ``kschedctl.Cluster`` and the functions that answer questions about it."""

from __future__ import annotations

from kschedctl.admission.admit import admit
from kschedctl.autoscaling.cluster_autoscaler.scale_down import scale_down
from kschedctl.autoscaling.cluster_autoscaler.scale_up import scale_up
from kschedctl.autoscaling.karpenter.disrupt import disrupt
from kschedctl.autoscaling.karpenter.provision import provision
from kschedctl.library.cluster import Cluster
from kschedctl.studies.explain import explain
from kschedctl.studies.following.follow import follow
from kschedctl.studies.following.sampling import sampling
from kschedctl.studies.remedies.remedies import remedies
from kschedctl.studies.run_queue import run_queue
from kschedctl.studies.waking.wakes import wakes

__all__ = [
    "Cluster",
    "admit",
    "disrupt",
    "explain",
    "follow",
    "provision",
    "remedies",
    "run_queue",
    "sampling",
    "scale_down",
    "scale_up",
    "wakes",
]
