"""The report of `version` (kind Version)."""

from __future__ import annotations

from kschedctl.reports.document import Document, RootDocument


class ClusterVersion(Document, frozen=True):
    """The version of the cluster."""

    source: str
    """The server, the snapshot or the files."""
    server_version: str
    """The API server's version, empty if unknown."""
    kube_version: str
    """The version that is replayed for the cluster."""


class Version(RootDocument, frozen=True):
    """The versions of kschedctl, of the replayed kube-schedulers and of the cluster."""

    client_version: str
    replays: tuple[str, ...]
    """The versions of kube-scheduler that can be replayed, oldest first."""
    cluster: ClusterVersion | None = None
    kind: str = "Version"
