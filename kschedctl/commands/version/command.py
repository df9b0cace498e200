"""The command `version`."""

from __future__ import annotations

import logging
from dataclasses import replace

from kschedctl.api.kube_version import KUBE_VERSION, NEWEST_MINOR, OLDEST_MINOR
from kschedctl.cli.answer import Answer
from kschedctl.cli.options import Source, with_options
from kschedctl.cli.output_options import Untabled
from kschedctl.cli.source import connect_to_cluster
from kschedctl.commands.version.report import ClusterVersion, Version
from kschedctl.errors import ClusterError
from kschedctl.text.printable import strip_credentials
from kschedctl.text.version import VERSION

EXAMPLES = (
    "kschedctl version",
    "kschedctl version --context prod -o json",
)

TIMEOUT = "5s"
log = logging.getLogger(__name__)


@with_options
def version(*, source: Source, result: Untabled) -> Answer:
    """The version of this program, of the kube-schedulers that it replays, and of the cluster.

    The cluster is that of --snapshot, otherwise the live one. If none is named and none answers, only the version of
    this program is printed.
    """
    replays = tuple(f"1.{minor}" for minor in range(OLDEST_MINOR, NEWEST_MINOR + 1))
    return result.answer(Version(VERSION, replays, _find_cluster_version(source)))


def _find_cluster_version(source: Source) -> ClusterVersion | None:
    """Return the version of the cluster, or None if no cluster is named and none answers.

    Raises KschedctlError if a cluster that is named does not answer.
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
        log.warning("note: %s", error)
        return None


def _read_snapshot_version(path: str) -> ClusterVersion:
    """Read the version of the cluster in a snapshot."""
    from kschedctl.sources.archive_file import read_header  # noqa: PLC0415 - only snapshots need it

    header = read_header(path)
    return ClusterVersion(path, header.provenance.server_version if header.provenance else "", header.kube_version)


def _read_live_version(source: Source) -> ClusterVersion:
    """Read the version of the live cluster and log the warnings of the API server. Raises ClusterError."""
    from kschedctl.sources.live.components import read_version  # noqa: PLC0415 - only live clusters need the client

    connected = connect_to_cluster(replace(source, request_timeout=source.request_timeout or TIMEOUT))
    replayed, server, warnings = read_version(connected.server)
    for warning in warnings:
        log.warning("warning: %s", warning)
    return ClusterVersion(strip_credentials(connected.server.host), server, replayed)
