"""Which versions meet, as a document: apiVersion kschedctl.dev/v1, kind Version."""

from __future__ import annotations

from kschedctl.reports.document import Document


class ClusterVersion(Document, frozen=True):
    """The version of the cluster: its API server's own, empty when unknown, and what is replayed for it."""

    source: str
    server_version: str
    kube_version: str


class Version(Document, frozen=True):
    """``replays``: the versions of kube-scheduler from oldest to newest, the newest where nothing else is known."""

    client_version: str
    replays: tuple[str, ...]
    cluster: ClusterVersion | None = None
    api_version: str = "kschedctl.dev/v1"
    kind: str = "Version"
