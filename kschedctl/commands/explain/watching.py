"""The option `--watch`: answer again whenever the live cluster changes, and print answers that differ."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from datetime import datetime

from kschedctl.cli.options import Scope, Source
from kschedctl.cli.output_options import PICTURES, TEMPLATES, Answer
from kschedctl.cli.source import (
    NOTHING_MORE,
    LiveKinds,
    build_live_request,
    connect_to_cluster,
    log_cluster,
    with_admission_plugins,
)
from kschedctl.cli.streams import TERMINATED, leave_on_sigterm
from kschedctl.cluster import Cluster
from kschedctl.commands.explain.pending_report import PendingPods
from kschedctl.commands.explain.report import Explanation
from kschedctl.errors import UsageError
from kschedctl.reports.not_created import NotCreated

DATA = ("json", "yaml", "name", "csv", *TEMPLATES)


def watch_cluster(
    source: Source,
    scope: Scope,
    output_format: str,
    answer: Callable[[Cluster], Answer],
    live: LiveKinds = NOTHING_MORE,
) -> int:
    """Print each new answer until the pod is bound or SIGTERM arrives, and return the exit code.

    `answer` builds the answer for a cluster. An answer is printed only if it differs from the last printed answer in
    more than figures. Raises UsageError if the output or the source cannot be watched, and KschedctlError, for example
    if the explained pod no longer exists.
    """
    if output_format in PICTURES:
        raise UsageError(f"-o {output_format} shows a single moment and cannot be updated", where="--watch")
    if not source.live:
        raise UsageError("only a live cluster can be watched", where="--watch")
    printed_essentials: object = None
    exit_code = 0
    with leave_on_sigterm():
        for cluster in follow_cluster(source, scope.namespace, live):
            latest = answer(cluster)
            essentials = _extract_essentials(latest)
            if essentials != printed_essentials:
                _print_answer(latest, is_update=printed_essentials is not None)
                printed_essentials, exit_code = essentials, latest.exit_code
            if isinstance(latest.document, Explanation) and latest.document.verdict == "Bound":
                break
        return exit_code
    return TERMINATED  # reached if leave_on_sigterm() ended its block


def follow_cluster(
    source: Source, namespace: str | None, live: LiveKinds = NOTHING_MORE, max_seconds: float = math.inf
) -> Iterator[Cluster]:
    """Yield the live cluster as it is now, then after each burst of changes, and after `max_seconds` without a change.

    Raises KschedctlError if the cluster cannot be read.
    """
    from kschedctl.sources.live.follow import Follower  # noqa: PLC0415 - only live clusters need the client
    from kschedctl.sources.live.reading import read_live_cluster  # noqa: PLC0415

    connected = connect_to_cluster(source)
    follower = Follower(
        connected.server,
        read_live_cluster(connected, build_live_request(source, namespace, live=live)),
        every=max_seconds,
    )
    log_cluster(follower.reading.build_cluster())
    yield from (with_admission_plugins(cluster, source) for cluster in follower.iter_clusters())


def _extract_essentials(answer: Answer) -> object:
    """Return the parts of an answer whose changes are worth printing. Figures that change all the time are left out.

    The result is only compared with other results. For documents other than explanations and pending pods, it is the
    whole text.
    """
    document = answer.document
    if isinstance(document, Explanation):
        # Unlike the headline, the message has no amounts, which change all the time
        return (
            document.verdict,
            document.message or document.headline,
            document.best,
            document.preemption.tied if document.preemption else (),
            document.not_replayed,
            _get_creation_figures(document.not_created),
        )
    if isinstance(document, PendingPods):
        groups = tuple((group.verdict, group.cause, group.pods) for group in document.groups)
        return groups, document.elsewhere > 0, tuple(map(_get_creation_figures, document.not_created))
    return answer.render()


def _get_creation_figures(creation_failure: NotCreated | None) -> object:
    """Return the workload, its numbers of wanted and existing pods, and whether the failure is past.

    Return None if all pods could be created.
    """
    if creation_failure is None:
        return None
    return (
        creation_failure.workload,
        creation_failure.wanted,
        creation_failure.there,
        creation_failure.past,
    )


def _print_answer(answer: Answer, is_update: bool) -> None:
    """Print the answer. In a text format, the time precedes an answer that updates an earlier one."""
    if is_update and answer.format not in DATA:
        sys.stdout.write(f"\n--- {datetime.now():%H:%M:%S}\n")
    sys.stdout.write(str(answer.render()))
    sys.stdout.flush()
