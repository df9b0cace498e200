"""Check that Cluster.from_objects names items that are not objects by their number."""

from __future__ import annotations

from typing import Any

import pytest

from kschedctl import Cluster
from kschedctl.errors import InputError

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {}}


@pytest.mark.parametrize("item", [None, 1, "text", [POD]])
def test_item_that_is_not_an_object_is_named_by_its_number(item: Any) -> None:
    with pytest.raises(InputError, match=r"items\[1\]: expected an object, got "):
        Cluster.from_objects([POD, item])
    with pytest.raises(InputError, match=r"items\[1\]: expected an object, got "):
        Cluster.from_objects([{"apiVersion": "v1", "kind": "List", "items": [POD, item]}])


@pytest.mark.parametrize("documents", [None, 5])
def test_value_that_is_not_a_list_is_rejected(documents: Any) -> None:
    with pytest.raises(InputError, match="expected a list of objects, got "):
        Cluster.from_objects(documents)
