"""The options that say that a part of the nodes is looked at, and from where on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from kschedctl.errors import UsageError
from kschedctl.scheduler.engine.sampling import SampledFrom


@dataclass(frozen=True)
class Sampled:
    """Which nodes are looked at."""

    sampling: Annotated[
        bool, typer.Option("--sampling", help="Look at as many nodes as kube-scheduler does, not at all of them.")
    ] = False
    start_index: Annotated[
        int | None,
        typer.Option("--start-index", metavar="NUMBER", help="With --sampling: where the first search begins."),
    ] = None

    def sampled_from(self) -> SampledFrom | None:
        """Raises UsageError."""
        return sampled_from(self.sampling, self.start_index)


def sampled_from(sampling: bool, start_index: int | None) -> SampledFrom | None:
    """None: all nodes are looked at. Raises UsageError."""
    if start_index is None:
        return SampledFrom() if sampling else None
    if not sampling:
        raise UsageError("--start-index needs --sampling")
    if start_index < 0:
        raise UsageError(f"--start-index {start_index}: 0 or more")
    return SampledFrom(start_index)
