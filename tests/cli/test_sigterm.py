"""SIGTERM ends a server in order, and priorities of a wrong type are refused before admission."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from kschedctl import Cluster, admit
from kschedctl.commands.watch import command as _  # noqa: F401 - the package's name is the command's function

watch_module = sys.modules["kschedctl.commands.watch.command"]


def test_sigterm_leaves_the_block_in_order() -> None:
    before, ended = signal.getsignal(signal.SIGTERM), True
    with watch_module._until_sigterm():
        os.kill(os.getpid(), signal.SIGTERM)
        signal.pause()
        ended = False
    assert ended
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(
    ("priority", "value"),
    [("high", "string"), (1.5, "number 1.5"), (True, "bool"), (2**40, "number 1099511627776"), ([], "array")],
)
def test_a_priority_that_is_no_int32_is_a_bad_request(priority: object, value: str) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"priority": priority}}
    refused = admit(Cluster.from_objects([]), pod)
    assert refused.code == 400
    assert f"cannot unmarshal {value} into Go struct field PodSpec.spec.priority of type int32" in str(refused.message)
