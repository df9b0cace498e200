"""The command `version`, its report (kind Version), and the page of the report."""

from __future__ import annotations

import logging
from dataclasses import replace

from kschedctl.api.kube_version import KUBE_VERSION, NEWEST_MINOR, OLDEST_MINOR
from kschedctl.cli.options import Source, with_options
from kschedctl.cli.output_options import Answer, Untabled
from kschedctl.cli.source import connect_to_cluster
from kschedctl.errors import ClusterError
from kschedctl.render.page import Page, Style, paragraph
from kschedctl.reports.document import Document, RootDocument
from kschedctl.text.printable import strip_credentials
from kschedctl.text.version import VERSION

EXAMPLES = (
    "kschedctl version",
    "kschedctl version --context prod -o json",
)

TIMEOUT = "5s"
log = logging.getLogger(__name__)


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


@with_options
def version(*, source: Source, result: Untabled) -> Answer:
    """Print the versions of kschedctl, of the kube-schedulers that it replays, and of the cluster.

    The cluster is the one given by --snapshot, otherwise the live one. If you name no cluster and none answers, only
    the version of kschedctl is printed.
    """
    replays = tuple(f"1.{minor}" for minor in range(OLDEST_MINOR, NEWEST_MINOR + 1))
    return result.build_answer(Version(VERSION, replays, _find_cluster_version(source)))


def _find_cluster_version(source: Source) -> ClusterVersion | None:
    """Return the version of the cluster, or None if the user names no cluster and the default one does not answer.

    Raises KschedctlError if a cluster that the user names cannot be read.
    """
    if source.snapshot:
        return _read_snapshot_version(source.snapshot[0])
    if source.demo or source.filename:
        return ClusterVersion("the files" if source.filename else "the demo cluster", "", KUBE_VERSION)
    try:
        return _read_live_version(source)
    except ClusterError as error:
        if source.to_cli_options():
            raise
        log.warning("note: the cluster's version is unknown: %s", error)
        return None


def _read_snapshot_version(path: str) -> ClusterVersion:
    """Read the version of the cluster from the header of a snapshot."""
    from kschedctl.sources.archive_file import read_header  # noqa: PLC0415 - only snapshots need it

    header = read_header(path)
    return ClusterVersion(path, header.provenance.server_version if header.provenance else "", header.kube_version)


def _read_live_version(source: Source) -> ClusterVersion:
    """Read the version of the live cluster and log the warnings of the API server.

    Raises ClusterError if the cluster does not answer.
    """
    from kschedctl.sources.live.components import read_replayed_version  # noqa: PLC0415 - only live clusters need the client

    connected = connect_to_cluster(replace(source, request_timeout=source.request_timeout or TIMEOUT))
    replayed, server, warnings = read_replayed_version(connected.server)
    for warning in warnings:
        log.warning("warning: %s", warning)
    return ClusterVersion(strip_credentials(connected.server.host), server, replayed)


def build_version_page(report: Version, style: Style) -> Page:
    """Build the page: one line each for the client, the replayed kube-schedulers and the cluster.

    Without a cluster, the page has no line for it.
    """
    lines = [
        f"Client Version: {report.client_version}",
        f"Supported kube-scheduler versions: {report.replays[0]} to {report.replays[-1]}",
    ]
    if report.cluster:
        server = f"{report.cluster.server_version} of" if report.cluster.server_version else "unknown for"
        lines.append(f"Server Version: {server} {report.cluster.source}; replayed as {report.cluster.kube_version}")
    return tuple(map(paragraph, lines))
