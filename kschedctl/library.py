"""The public Python API: ``kschedctl.Cluster`` and ``kschedctl.explain``."""

from __future__ import annotations

from kschedctl.cluster import Cluster
from kschedctl.studies.explain import explain

__all__ = ["Cluster", "explain"]
