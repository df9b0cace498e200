"""Check which collections the pause of cyclic garbage collection suppresses."""

import gc

import pytest

from kschedctl.api.garbage import without_garbage_collection


@pytest.mark.parametrize("lasting", [False, True])
def test_lasting_objects_are_frozen(lasting: bool) -> None:
    frozen = gc.get_freeze_count()
    try:
        with without_garbage_collection(lasting):
            assert not gc.isenabled()
            made: list[object] = []
            made.append(made)
        assert gc.isenabled()
        assert (gc.get_freeze_count() > frozen) == lasting
    finally:
        gc.unfreeze()
