"""The names of the pods that a document is about, one a line, as ``explain`` takes them."""

from __future__ import annotations

from typing import Any

from kschedctl.render.printable import printable


def pod_names(document: dict[str, Any]) -> str:
    """``namespace/name`` lines."""
    pods = [document["pod"]] if "pod" in document else [pod for group in document["groups"] for pod in group["pods"]]
    return "".join(f"{printable(pod)}\n" for pod in pods)
