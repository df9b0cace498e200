"""The command `instance-types`, which prints the instance types of the cluster's nodes and NodeClaims."""

from __future__ import annotations

import json
import logging

import typer

from kschedctl.autoscaling.karpenter.state_nodes import derive_instance_types
from kschedctl.cli.options import Source, with_options
from kschedctl.cli.output_options import UNDECIDED
from kschedctl.cli.source import LiveKinds, load_cluster
from kschedctl.errors import UsageError
from kschedctl.text.counts import counted

EXAMPLES = (
    "kschedctl instance-types > types.json",
    "kschedctl instance-types --snapshot prod.ksnap > types.json",
)
SOURCE_KINDS = ("Node", "NodeClaim")
"""The kinds of objects from which instance types are derived."""

log = logging.getLogger(__name__)


@with_options
def instance_types(*, source: Source) -> int:
    """Print the instance types of existing nodes and NodeClaims, for use with --instance-types.

    The format is that of instance_types.json in Karpenter's kwok provider. Complete the list by hand, because some data
    is not in the cluster: prices (printed as 0), types without nodes, and other zones where a type is available.
    """
    cluster = load_cluster(source, live=LiveKinds(("NodeClaim",)))
    types = derive_instance_types(cluster)
    unread = [kind for kind in SOURCE_KINDS if cluster.find_gap(kind) is not None]
    if not types and not unread:
        raise UsageError("no node and no NodeClaim has an instance type")
    typer.echo(json.dumps(types, indent=2))
    log.warning("%s; prices are unknown, so Price is 0", counted(len(types), "instance type"))
    for kind in unread:
        log.warning("%ss were not read, so there may be more types", kind)
    return UNDECIDED if unread else 0
