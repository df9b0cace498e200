"""The options of `explain` that make assumptions about the pod."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import typer

from kschedctl.fixes.supposing import SUPPOSABLE, apply_suppositions
from kschedctl.replay.controllers.target_pod import TargetPod, with_other_priority


@dataclass(frozen=True)
class Supposed:
    """The changes to the pod that the question assumes."""

    priority: Annotated[
        int | None, typer.Option("--as-if-priority", metavar="NUMBER", help="Replay it with this priority.")
    ] = None
    priority_class: Annotated[
        str, typer.Option("--as-if-priority-class", metavar="NAME", help="Replay it in this PriorityClass.")
    ] = ""
    words: Annotated[
        list[str], typer.Option("--as-if", metavar="NAME=VALUE", help=f"Replay it as if {SUPPOSABLE}. Repeatable.")
    ] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.priority is not None or self.priority_class or self.words)

    def apply_to(self, target: TargetPod) -> TargetPod:
        """Apply the assumed changes to the target pod. Raises UsageError and InputError."""
        return apply_suppositions(
            target._replace(pod=with_other_priority(target, self.priority, self.priority_class)), " ".join(self.words)
        )
