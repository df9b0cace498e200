"""A scenario to try next, as a command line that can be typed as it stands."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from kschedctl.cli.options import Source
from kschedctl.cli.program import command_line


def with_one_more(source: Source, like: str, step: Mapping[str, Any]) -> tuple[str, ...]:
    """The step in a cluster with one more node like another; none where the cluster came from standard input.

    Whether that is enough is for ``whatif`` to say.
    """
    if "-" in source.filename:
        return ()
    steps = json.dumps({"steps": [{"addNodes": {"like": like, "count": 1}}, step]}, ensure_ascii=False)
    return (f"echo {shlex.quote(steps)} | {command_line('whatif', source.arguments(), '-')}",)
