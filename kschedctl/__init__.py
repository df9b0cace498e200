"""kschedctl replays kube-scheduler on a snapshot of a cluster: why a pod is Pending, where it would go.

A Cluster comes from objects (dicts, as kubectl prints them), files, a snapshot or an API server:

    kschedctl.Cluster.from_objects([...])        kschedctl.Cluster.from_paths(["state.json", "pods/"])
    kschedctl.Cluster.from_snapshot("x.ksnap")   kschedctl.Cluster.from_live(context="prod")

``explain`` answers for a pod of it, or for a manifest (dict) of a pod, or of what makes pods; ``remedies`` says which
smallest changes would let it schedule; ``wakes`` whether an event makes the scheduler try a refused pod again;
``run_queue`` works off the scheduling queue; ``admit`` says what the API server makes of a manifest; ``scale_up`` and
``scale_down`` what the Cluster Autoscaler does in its next loop, ``provision`` and ``disrupt`` what Karpenter does in
its next rounds. The reports have the fields of the JSON documents,
which ``report.to_dict()`` gives. What goes wrong by what was given is a KschedctlError, whose text is one line.

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

if TYPE_CHECKING:
    from kschedctl.library import (
        Cluster,
        admit,
        disrupt,
        explain,
        follow,
        provision,
        remedies,
        run_queue,
        sampling,
        scale_down,
        scale_up,
        wakes,
    )

__version__ = "0.1.0"
__all__ = [
    "Cluster",
    "KschedctlError",
    "__version__",
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


def __getattr__(name: str) -> object:
    """Load the library when it is asked for: commands that need none of it start faster."""
    if name in __all__:
        return getattr(import_module("kschedctl.library"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """With what is loaded on demand."""
    return sorted({*globals(), *__all__})
