"""The command line of `kschedctl latency`."""

from __future__ import annotations

from typing import Annotated

import typer

from kschedctl.cli.options import ContextOption, KubeconfigOption, Source, with_options
from kschedctl.cli.output_options import Answer
from kschedctl.cli.source import connect_to_cluster
from kschedctl.commands import latency as library
from kschedctl.commands.audit.next_commands import build_next_commands
from kschedctl.commands.audit.options import DrawableFindingsOutput, MetricsOptions
from kschedctl.errors import UsageError

EXAMPLES = (
    "kubectl get --raw $SCHEDULER/proxy/metrics | kschedctl latency --metrics -",
    "kschedctl latency --metrics monday.txt --metrics tuesday.txt",
    "kschedctl latency --metrics https://127.0.0.1:10259/metrics --window 60s",
    "kschedctl latency --prometheus http://127.0.0.1:9090 --window 6h",
)


@with_options
def latency(
    *,
    metrics: MetricsOptions,
    findings_output: DrawableFindingsOutput,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    demo: Annotated[bool, typer.Option("--demo", hidden=True)] = False,
) -> Answer:
    """How long does kube-scheduler take, and what holds it up?

    Shows quantiles for attempts, extension points, plugins, binding, and the time that pods take from the queue to a
    node, estimated as by histogram_quantile in PromQL. Then it shows queues, preemption, cache and queueing hints, with
    a verdict on each and what is likely to help. A single metrics text covers the time since the scheduler started. To
    print one, use kubectl get --raw /api/v1/namespaces/kube-system/pods/https:NAME:10259/proxy/metrics. Native
    histograms are read only from Prometheus, because a metrics text contains only classic histograms, and the protobuf
    format is not supported. A URL that goes through the proxy of the kubeconfig's API server is read with the
    kubeconfig's credentials. For any other URL, only the credentials in the URL and in the token file are sent.
    """
    if demo:
        raise UsageError(
            "the demo cluster has no running scheduler to measure",
            hint="give a scheduler's metrics with --metrics FILE",
        )
    limits = metrics.build_limits()
    source = Source(kubeconfig=kubeconfig, context=context)
    section = library.latency(metrics.read_metrics(lambda: connect_to_cluster(source)), limits)
    return findings_output.build_answer_with_exit_code(section, build_next_commands(source, section))
