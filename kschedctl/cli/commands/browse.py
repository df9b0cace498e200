"""``kschedctl browse``: pending pods in a browser for the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kschedctl.cli.options import Scope, Source, with_options
from kschedctl.cli.source import connection, in_context, load, tell, wishes
from kschedctl.cluster import Cluster
from kschedctl.demo import DEMO_TIME
from kschedctl.errors import UsageError

if TYPE_CHECKING:
    from kschedctl.cli.browse.session import BrowseSession

EXAMPLES = (
    "kschedctl browse -A",
    "kschedctl browse --demo -A",
    "kschedctl browse -n shop --snapshot prod.ksnap",
)


@with_options
def browse(*, source: Source, scope: Scope) -> int:
    """Look at pending pods, at why they wait, at nodes, scores and remedies, in the terminal; ? tells the keys.

    What is shown of a live cluster follows its changes. Needs the extra tui: pip install 'kschedctl[tui]'.
    """
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        raise UsageError("browse needs a terminal", hint="kschedctl explain -A prints the same")
    try:
        from kschedctl.cli.browse.app import Browser  # noqa: PLC0415 - extra "tui"
    except ImportError as error:
        raise UsageError(f"browse needs Textual: {error}", hint="pip install 'kschedctl[tui]'") from None
    if source.live:
        sessions = _followed(source, scope)
        Browser(next(sessions), sessions).run()
    else:
        Browser(_session(load(source, scope.namespace), source, scope)).run()
    return 0


def _session(cluster: Cluster, source: Source, scope: Scope) -> BrowseSession:
    from kschedctl.cli.browse.session import BrowseSession  # noqa: PLC0415 - what it shows takes time to import

    now = DEMO_TIME if source.demo else datetime.now(UTC).isoformat(timespec="seconds")
    if cluster.picture:
        now = cluster.picture.read_at
    return BrowseSession(cluster, source, in_context(scope, source, cluster), now)


def _followed(source: Source, scope: Scope) -> Iterator[BrowseSession]:
    """The live cluster, then again after each burst of changes. Raises KschedctlError."""
    from kschedctl.sources.live.follow import Follower  # noqa: PLC0415 - only live clusters need the client
    from kschedctl.sources.live.reading import read_live  # noqa: PLC0415

    found = connection(source)
    follower = Follower(found.server, read_live(found, wishes(source, scope.namespace)))
    tell(follower.reading.cluster())
    for cluster in follower.clusters():
        yield _session(cluster, source, scope)
