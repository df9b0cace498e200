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

    Shows quantiles of attempts, extension points, plugins, binding, and the time of pods from the queue to a node,
    estimated like histogram_quantile of PromQL. Then come queues, preemption, cache and hints, with a verdict on each
    and what likely helps. A single text covers the time since the scheduler started. Print one by kubectl get --raw
    /api/v1/namespaces/kube-system/pods/https:NAME:10259/proxy/metrics. Native histograms are read only from Prometheus:
    a /metrics text has only classic ones, and the protobuf form is not read. A URL that is a proxy of the kubeconfig's
    API server is read with its credentials. Otherwise only those of the URL and of the token file are sent.
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
