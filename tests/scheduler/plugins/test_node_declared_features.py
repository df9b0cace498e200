"""NodeDeclaredFeatures against upstream's own table (plugins/nodedeclaredfeatures; v1.36)."""

from __future__ import annotations

import pytest
from plugin_cases import cases, filtered, pod_info, snapshot

from kschedctl.scheduler.framework import PluginError
from kschedctl.scheduler.plugins.node_declared_features import NodeDeclaredFeatures


@cases("nodedeclaredfeatures", "filter")
def test_filter(case):
    """The table puts its own features into the state that PreFilter leaves; None: PreFilter did not run."""
    view = snapshot(case)
    info, plugin = pod_info(case, view), NodeDeclaredFeatures(case["pluginEnabled"])
    state = None if case.get("requiredFeatures") is None else frozenset(case["requiredFeatures"])
    wanted = case["want"]["filter"]
    if any(status["code"] == "Error" for status in wanted.values()):
        with pytest.raises(PluginError, match="not found"):
            filtered(plugin, info, view, state)
    else:
        assert filtered(plugin, info, view, state) == wanted
