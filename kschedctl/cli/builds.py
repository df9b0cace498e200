"""Options to build kustomizations and Helm charts before they are read."""

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
    """Options that choose what is built."""

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

    def find_builds(self, files: Sequence[str], kube_version: str) -> list[Build]:
        """Return the builds to run for the files. Raises UsageError, also if a program is missing."""
        if self.values and not self.helm:
            raise UsageError("--values is for charts", hint="add --helm")
        builds: list[Build] = []
        if self.kustomize:
            from kschedctl.sources.builds.kustomize import find_kustomize_builds  # noqa: PLC0415 - few ask for it

            builds += find_kustomize_builds(files, with_helm=self.helm)
        if self.helm:
            from kschedctl.sources.builds.helm import find_helm_renders  # noqa: PLC0415 - few ask for it

            builds += find_helm_renders(files, self.values, kube_version)
        return builds
