"""The command `kschedctl browse`: an interactive view of pending pods in the terminal."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from kschedctl.api.garbage import without_garbage_collection
from kschedctl.cli.options import Scope, Source, with_options
from kschedctl.cli.references import assume_scheduler_name
from kschedctl.cli.source import get_cluster_time, load_cluster, with_context_namespace
from kschedctl.cluster import Cluster
from kschedctl.commands.explain.watching import follow_cluster
from kschedctl.errors import UsageError

if TYPE_CHECKING:
    from kschedctl.commands.browse.session import BrowseSession

EXAMPLES = (
    "kschedctl browse",
    "kschedctl browse --demo",
    "kschedctl browse -n shop --snapshot prod.ksnap",
    "kschedctl browse -f state.json",
)


@dataclass(frozen=True)
class BrowsedScope(Scope):
    """Options that choose the pods to browse, by default those of all namespaces."""

    namespace: Annotated[
        str | None,
        typer.Option("-n", "--namespace", metavar="NAME", help="Namespace of the pods.  [default: all namespaces]"),
    ] = None


@with_options
def browse(*, source: Source, scope: BrowsedScope) -> int:
    """Explore pending pods, causes, nodes, scores and fixes in the terminal; ? lists the keys.

    Shows the pods of all namespaces, unless you select one with -n. On a live cluster, the screen is updated as the
    cluster changes. Press a to ask again as if the pod had another priority, request or toleration, or as if there were
    one more node. Commands that you copied are printed on exit. Requires the extra tui: pip install 'kschedctl[tui]'.
    """
    scope = replace(scope, all_namespaces=scope.namespace is None)
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        raise UsageError("browse needs a terminal", hint="kschedctl explain -A prints the same")
    try:
        from kschedctl.commands.browse.app import Browser  # noqa: PLC0415 - extra "tui"
        from kschedctl.commands.browse.background import LiveSessions  # noqa: PLC0415
    except ImportError as error:
        raise UsageError(f"browse needs Textual: {error}", hint="pip install 'kschedctl[tui]'") from None
    if source.live:
        sessions = _iter_sessions(source, scope)
        browser = Browser(next(sessions), LiveSessions(sessions, lambda: _iter_sessions(source, scope)))
    else:
        browser = Browser(_build_session(load_cluster(source, scope.namespace), source, scope))
    with _redirect_log(lambda line: browser.show_later(browser.note, line)), without_garbage_collection():
        browser.run()
    for command in dict.fromkeys(browser.copied):
        print(command)
    if browser.failure is not None:
        raise browser.failure
    return 0


def _iter_sessions(source: Source, scope: Scope) -> Iterator[BrowseSession]:
    """Iterate over the states of the live cluster, each as a session."""
    return (_build_session(cluster, source, scope) for cluster in follow_cluster(source, scope.namespace))


def _build_session(cluster: Cluster, source: Source, scope: Scope) -> BrowseSession:
    """Build the session for one state of the cluster, with the scheduler name, namespace and time of the options."""
    from kschedctl.commands.browse.session import BrowseSession  # noqa: PLC0415 - what it shows takes time to import

    selected = assume_scheduler_name(cluster, scope.scheduler_name)
    return BrowseSession(
        selected, source, with_context_namespace(scope, source, cluster), get_cluster_time(cluster, source)
    )


class _LogNotes(logging.Handler):
    """A log handler that shows messages as notes on the screen. On stderr they would garble it."""

    def __init__(self, show: Callable[[str], object]) -> None:
        super().__init__()
        self.show = show

    def emit(self, record: logging.LogRecord) -> None:
        """Show the message of a log record."""
        self.show(record.getMessage())


@contextmanager
def _redirect_log(show: Callable[[str], object]) -> Iterator[None]:
    """Pass log messages to `show` within the with-block, instead of printing them."""
    log = logging.getLogger("kschedctl")
    handlers, log.handlers = log.handlers, [_LogNotes(show)]
    try:
        yield
    finally:
        log.handlers = handlers
