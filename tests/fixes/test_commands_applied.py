"""Run the commands of every kind of fix on a control plane that rejects immutable changes and rolls out templates."""

from __future__ import annotations

from functools import cache

import pytest
from command_worlds import World, iter_worlds
from operators import Operator

from kschedctl.commands.remedies.report import Remedies
from kschedctl.fixes.trial.fix_kinds import FixKind

WORLDS: dict[str, World] = dict(iter_worlds())


@cache
def find_fixes(name: str) -> tuple[Operator, Remedies]:
    """Return an operator of the cluster, and the fixes for its pod."""
    operator = Operator(WORLDS[name])
    return operator, operator.find_fixes()


@pytest.mark.parametrize("name", WORLDS)
def test_commands_have_the_replayed_effect(name: str) -> None:
    operator, fixes = find_fixes(name)
    for remedy in fixes.remedies:
        operator.apply_changes(remedy)
        assert operator.explain_wrong_outcome(remedy) == "", (remedy.summary, remedy.commands)


TWO_CHANGES = (
    *("lab/p15-pvc-wffc", "lab/p30-combined", "lab/p32-priority-too-low", "platform/ingress-nginx-7b4f6c9d85-wt7jd"),
    *("two effects of one taint", "a request for the pod as a whole"),
    "the volume on a tainted node is too small",
)


@pytest.mark.parametrize("name", TWO_CHANGES)
def test_two_changes_do_not_revert_each_other(name: str) -> None:
    operator = Operator(WORLDS[name]._replace(most=2))
    two = [remedy for remedy in operator.find_fixes().remedies if len(remedy.kinds) == 2]
    assert two
    for remedy in two[:8]:
        assert operator.explain_wrong_outcome(remedy) == "", (remedy.summary, remedy.commands)


def test_every_kind_of_fix_occurs_in_some_cluster() -> None:
    missing: set[str] = set(FixKind)
    for name in WORLDS:
        missing -= {kind for remedy in find_fixes(name)[1].remedies for kind in remedy.kinds}
        if not missing:
            break
    assert missing == set()
