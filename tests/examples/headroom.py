"""Headroom of a cluster: how many more pods of a few sizes fit, each size by itself, and what stops the next one.

The cells (``# %%``) run in Jupyter, VS Code or PyCharm, or all at once: ``python headroom.py [SNAPSHOT]``. Without a
snapshot the built-in demo cluster is used. With matplotlib installed, the last cell saves ``headroom.png``; without
it, the cell draws with text.
"""

# %% Read the cluster
import sys

import kschedctl
from kschedctl import demo

snapshot = sys.argv[1] if len(sys.argv) > 1 and sys.argv[1].endswith(".ksnap") else None
if snapshot:
    cluster = kschedctl.Cluster.from_snapshot(snapshot)
else:
    cluster = kschedctl.Cluster.from_paths([str(path) for path in demo.list_files()])


# %% Choose the sizes that matter to you
SIZES = {"small": ("250m", "256Mi"), "medium": ("1", "1Gi"), "large": ("4", "8Gi")}


def build_pod(name: str, cpu: str, memory: str) -> dict:
    """Return the manifest of a pod with these requests."""
    container = {"name": "main", "image": "any", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}


# %% Ask how many more of each size fit, each size by itself
report = kschedctl.capacity(cluster, [build_pod(name, *size) for name, size in SIZES.items()])
fitting = {name: shape.fits for name, shape in zip(SIZES, report.shapes, strict=True)}
for name, shape in zip(SIZES, report.shapes, strict=True):
    print(f"{name}: {shape.fits} more fit, then: {shape.message}")

# %% Plot
try:
    from matplotlib import pyplot
except ImportError:
    most = max(fitting.values(), default=0) or 1
    for name, number in fitting.items():
        print(f"{name:>8} {'█' * round(40 * number / most)} {number}")
else:
    figure, axes = pyplot.subplots()
    axes.bar_label(axes.bar(list(fitting), list(fitting.values())))
    axes.set_ylabel("pods that still fit")
    figure.savefig("headroom.png")
    print("saved headroom.png")
