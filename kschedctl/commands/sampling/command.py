"""The command line of `kschedctl sampling`."""

from __future__ import annotations

from typing import Annotated

import typer

from kschedctl.cli import subjects
from kschedctl.cli.inquiry import Inquiry, read_inquiry
from kschedctl.cli.options import PodsArgument, Scope, Source, with_options
from kschedctl.cli.output_options import Answer, DrawnUntabled
from kschedctl.cli.progress import show_progress
from kschedctl.cli.run_options import choose_exit_code
from kschedctl.commands import sampling as library
from kschedctl.commands.audit.sampling.report import SamplingCosts
from kschedctl.commands.audit.sampling.sampled_searches import MAX_LOSS
from kschedctl.errors import UsageError
from kschedctl.replay.controllers.target_pod import TargetPod

EXAMPLES = (
    "kschedctl sampling",
    "kschedctl sampling deploy/web -n shop --max-loss 10",
    "kschedctl sampling -f web.yaml --snapshot prod.ksnap",
    "kschedctl sampling --snapshot prod.ksnap --config scheduler.yaml -o json",
)


@with_options
def sampling(
    *,
    source: Source,
    view: DrawnUntabled,
    namespace: Annotated[
        str | None,
        typer.Option(
            "-n",
            "--namespace",
            metavar="NAME",
            help="Namespace of the sampled pods.  [default: all namespaces, or namespace default if POD is given]",
        ),
    ] = None,
    pods: PodsArgument = None,
    kinds: Annotated[
        int,
        typer.Option(
            "--kinds",
            metavar="NUMBER",
            help="Without a POD: how many workloads to measure, those with the most pods first.",
        ),
    ] = 5,
    max_loss: Annotated[
        float,
        typer.Option(
            "--max-loss",
            metavar="POINTS",
            help="Recommend only percentages at which the chosen node is, on average, at most this many score points "
            "behind the best node.",
        ),
    ] = MAX_LOSS,
) -> Answer:
    """What does percentageOfNodesToScore cost and save on this cluster?

    In a cluster of 100 nodes or more, kube-scheduler stops searching once enough nodes fit, and the next search starts
    where the last one stopped. For one more pod of each kind, the search is replayed from every index. The report shows
    how many nodes are filtered, and how many score points the chosen node is behind the best of all nodes. It
    recommends the smallest percentage at which no kind loses more than --max-loss points on average. The pods are the
    named ones or those in files, otherwise the pending pods, otherwise the most frequent running pods.
    """
    if kinds < 1:
        raise UsageError(f"--kinds {kinds}: must be 1 or more")
    library.build_limits(max_loss)
    inquiry = read_inquiry(source, namespace)
    targets = _find_targets(inquiry, source, Scope(namespace=namespace), tuple(pods or ()))
    with show_progress() as progress:
        if targets is None:
            report = library.sampling_costs(
                inquiry.cluster, namespace=namespace or "", kinds=kinds, max_loss=max_loss, progress=progress
            )
        else:
            report = library.compute_sampling_costs(targets, max_loss=max_loss, progress=progress)
    return view.build_answer(report, _choose_exit_code(report))


def _choose_exit_code(report: SamplingCosts) -> int:
    """Return the exit code for a report. It is that of a bad answer if some pods are never created."""
    if report.not_created:
        return choose_exit_code(good=False, interrupted=report.interrupted)
    return choose_exit_code(good=True, interrupted=report.interrupted, undecided=report.undecided)


def _find_targets(
    inquiry: Inquiry, source: Source, scope: Scope, pod_arguments: tuple[str, ...]
) -> list[TargetPod] | None:
    """Return the pods that are named on the command line or in files, or None if there are none."""
    if pod_arguments:
        return subjects.find_named_targets(inquiry, pod_arguments, scope, source)
    return subjects.find_targets_in_files(inquiry, scope)
