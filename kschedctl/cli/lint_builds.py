"""What is linted as it is built: kustomizations and charts, by the programs that build them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

import typer

from kschedctl.errors import UsageError
from kschedctl.sources.builds.build import Build
from kschedctl.sources.builds.helm import helm_renders
from kschedctl.sources.builds.kustomize import kustomize_builds


@dataclass(frozen=True)
class LintBuilds:
    """Whether to build what can be built, rather than to read its parts."""

    kustomize: Annotated[
        bool,
        typer.Option(
            "--kustomize", help="Lint what kustomizations build, by kustomize or kubectl; with --helm their charts too."
        ),
    ] = False
    helm: Annotated[bool, typer.Option("--helm", help="Lint what charts render to, by helm.")] = False
    values: Annotated[
        list[str], typer.Option("--values", metavar="FILE", help="Values for --helm, as helm takes them. Repeatable.")
    ] = field(default_factory=list)

    def builds(self, files: Sequence[str], kube_version: str) -> list[Build]:
        """What is to be built of these files. Raises UsageError, also where the program is not installed."""
        if self.values and not self.helm:
            raise UsageError("--values is for charts", hint="add --helm")
        builds: list[Build] = []
        if self.kustomize:
            builds += kustomize_builds(files, with_helm=self.helm)
        if self.helm:
            builds += helm_renders(files, self.values, kube_version)
        return builds
