"""The page of Version."""

from __future__ import annotations

from kschedctl.commands.version.report import Version
from kschedctl.render.page import Page, Style, paragraph


def build_version_page(report: Version, style: Style) -> Page:
    """Build a line each for the versions of the client, of kube-scheduler and of the cluster."""
    lines = [
        f"Client Version: {report.client_version}",
        f"Replays kube-scheduler: {report.replays[0]} to {report.replays[-1]}",
    ]
    if report.cluster:
        server = f"{report.cluster.server_version} of" if report.cluster.server_version else "unknown for"
        lines.append(f"Server Version: {server} {report.cluster.source}; replayed as {report.cluster.kube_version}")
    return tuple(map(paragraph, lines))
