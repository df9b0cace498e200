"""Plugins that other packages register: replayed where a profile enables them, and named when they do not work."""

from __future__ import annotations

from pathlib import Path

import pytest

import kschedctl
from kschedctl.errors import ConfigurationError, ThirdPartyError
from kschedctl.scheduler.configuration.feature_gates import FeatureGates
from kschedctl.scheduler.third_party import third_party_plugins

MODULE = """
import numpy as np
from kschedctl.scheduler.framework import Code, PluginError, Rejection

class Odd:
    name = "whatever"
    def __init__(self, args, gates): self.letter = (args or {}).get("letter", "n")
    def filter(self, info, view, state, delta):
        mask = np.array([name.startswith(self.letter) for name in view.nodes.names])
        yield Rejection(mask, Code.UNSCHEDULABLE, "node(s) begin with it")

class Failing(Odd):
    def filter(self, info, view, state, delta): raise PluginError("it says so itself")

class Crashing(Odd):
    def filter(self, info, view, state, delta):
        yield from ()
        {}["gone"]

class Nonsense(Odd):
    def pre_filter(self, info, view): return None

class NoArguments:
    def __init__(self): pass
"""
NAMES = ("Odd", "Failing", "Crashing", "Nonsense", "NoArguments")
NODE = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "2", "pods": "9"}}}
POD = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package ``odd-plugins`` 1.2 that registers the plugins above, and one that cannot be imported."""
    register(tmp_path, *(f"{name} = odd_plugins:{name}" for name in NAMES), "Absent = no_such_module:make")
    (tmp_path / "odd_plugins.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))


def register(folder: Path, *points: str) -> None:
    info = folder / "odd_plugins-1.2.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: odd-plugins\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text("\n".join(("[kschedctl.plugins]", *points)))


def explained(name: str, args: object = None) -> kschedctl.cluster.Cluster:
    profile = {"plugins": {"multiPoint": {"enabled": [{"name": name}]}}}
    if args is not None:
        profile["pluginConfig"] = [{"name": name, "args": args}]
    meta = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    cluster = kschedctl.Cluster.from_objects([NODE, POD], config={**meta, "profiles": [profile]})
    return kschedctl.explain(cluster, "default/p")


def test_a_registered_plugin_is_replayed_under_its_registered_name() -> None:
    report = explained("Odd")
    assert report.to_dict()["firstFail"]["n1"] == {
        "plugin": "Odd",
        "code": "Unschedulable",
        "reasons": ["node(s) begin with it"],
    }
    assert report.not_replayed == ()


def test_it_gets_its_arguments() -> None:
    assert explained("Odd", {"letter": "x"}).verdict == "Schedulable"


def test_an_error_that_a_plugin_reports_is_the_verdict() -> None:
    assert explained("Failing").to_dict()["message"] == 'running "Failing" filter plugin: it says so itself'


@pytest.mark.parametrize(
    ("name", "args", "says"),
    [
        ("NoArguments", None, "cannot be made: TypeError: "),
        ("Absent", None, "cannot be made: ModuleNotFoundError: No module named 'no_such_module'"),
        ("Odd", 5, "cannot be made: AttributeError: 'int' object has no attribute 'get'"),
        ("Crashing", None, "fails in filter: KeyError: 'gone'"),
        ("Nonsense", None, "fails in pre_filter: TypeError: it answers with NoneType, not with PreFilterResult"),
    ],
)
def test_a_plugin_that_does_not_work_is_named_with_its_package(name: str, args: object, says: str) -> None:
    with pytest.raises(ThirdPartyError) as caught:
        explained(name, args)
    assert str(caught.value).startswith(f'plugin "{name}" of package odd-plugins 1.2 {says}')
    assert caught.value.exit_code == 2


def test_it_does_not_matter_to_a_configuration_that_does_not_use_it() -> None:
    assert explained("Odd", {"letter": "x"}).verdict == "Schedulable"


def test_an_in_tree_name_is_taken(tmp_path: Path) -> None:
    register(tmp_path, "NodeName = odd_plugins:Odd")
    with pytest.raises(ConfigurationError) as caught:
        third_party_plugins()
    assert str(caught.value) == "package odd-plugins 1.2: a plugin named NodeName already exists"


def test_a_plugin_is_loaded_when_it_is_made() -> None:
    absent = third_party_plugins()["Absent"]
    with pytest.raises(ThirdPartyError):
        absent(None, FeatureGates())
