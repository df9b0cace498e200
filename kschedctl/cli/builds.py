"""Files that are built before they are read: kustomizations and charts, by the programs that build them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from kschedctl.errors import UsageError

if TYPE_CHECKING:
    from kschedctl.sources.builds.build import Build


@dataclass(frozen=True)
class Builds:
    """Whether to build what can be built, rather than to read its parts."""

    kustomize: Annotated[
        bool,
        typer.Option(
            "--kustomize", help="Build kustomizations, by kustomize or kubectl; with --helm their charts too."
        ),
    ] = False
    helm: Annotated[bool, typer.Option("--helm", help="Render charts, by helm.")] = False
    values: Annotated[
        list[str], typer.Option("--values", metavar="FILE", help="Values for --helm, as helm takes them. Repeatable.")
    ] = field(default_factory=list)

    def built(self, files: Sequence[str], kube_version: str) -> list[Build]:
        """What is to be built of these files. Raises UsageError, also where the program is not installed."""
        if self.values and not self.helm:
            raise UsageError("--values is for charts", hint="add --helm")
        builds: list[Build] = []
        if self.kustomize:
            from kschedctl.sources.builds.kustomize import kustomize_builds  # noqa: PLC0415 - few ask for it

            builds += kustomize_builds(files, with_helm=self.helm)
        if self.helm:
            from kschedctl.sources.builds.helm import helm_renders  # noqa: PLC0415 - few ask for it

            builds += helm_renders(files, self.values, kube_version)
        return builds
