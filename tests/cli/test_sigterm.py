"""Check that SIGTERM ends watching commands in order, and that priorities of a wrong type are rejected before
admission."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from kschedctl import Cluster, admit
from kschedctl.cli.options import Scope, Source
from kschedctl.cli.streams import TERMINATED, leave_on_sigterm
from kschedctl.commands.explain import watching


def test_sigterm_leaves_the_block_in_order() -> None:
    before, ended = signal.getsignal(signal.SIGTERM), True
    with leave_on_sigterm():
        os.kill(os.getpid(), signal.SIGTERM)
        signal.pause()
        ended = False
    assert ended
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(
    ("priority", "value"),
    [("high", "string"), (1.5, "number 1.5"), (True, "bool"), (2**40, "number 1099511627776"), ([], "array")],
)
def test_priority_out_of_range_is_a_bad_request(priority: object, value: str) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"priority": priority}}
    refused = admit(Cluster.from_objects([]), pod)
    assert refused.code == 400
    assert f"cannot unmarshal {value} into Go struct field PodSpec.spec.priority of type int32" in str(refused.message)


def test_sigterm_ends_watching_with_its_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def follow_until_terminated(*_: object, **__: object) -> Iterator[Cluster]:
        os.kill(os.getpid(), signal.SIGTERM)
        signal.pause()
        yield Cluster()

    monkeypatch.setattr(watching, "follow_cluster", follow_until_terminated)
    monkeypatch.setattr(Source, "live", True)
    code = watching.watch_cluster(Source(), Scope(), "table", lambda _: pytest.fail("nothing to answer"))
    assert code == TERMINATED == 143
