"""``kschedctl browse``: pending pods in a browser for the terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from kschedctl.cli.options import Scope, Source, with_options
from kschedctl.cli.source import in_context, load, time_of
from kschedctl.cli.watching import followed
from kschedctl.cluster import Cluster
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
        sessions = (_session(cluster, source, scope) for cluster in followed(source, scope.namespace))
        Browser(next(sessions), sessions).run()
    else:
        Browser(_session(load(source, scope.namespace), source, scope)).run()
    return 0


def _session(cluster: Cluster, source: Source, scope: Scope) -> BrowseSession:
    from kschedctl.cli.browse.session import BrowseSession  # noqa: PLC0415 - what it shows takes time to import

    return BrowseSession(cluster, source, in_context(scope, source, cluster), time_of(cluster, source))
