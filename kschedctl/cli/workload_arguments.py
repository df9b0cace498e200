"""Workloads as command-line arguments."""

from __future__ import annotations


def _workload(title: str) -> tuple[str, ...]:
    """A workload as ``explain`` takes it: ``Deployment shop/web``."""
    kind, namespace, name = title.replace("/", " ").split(" ")
    return (f"{kind.lower()}/{name}", "-n", namespace)
