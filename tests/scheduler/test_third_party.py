"""Check registered third-party plugins: replayed if a profile enables them, and named if they fail."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

import kschedctl
from kschedctl.cluster import Cluster, Gap
from kschedctl.commands.explain.report import Explanation
from kschedctl.errors import ConfigurationError, ThirdPartyError
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.scheduler.third_party_plugins import ENTRY_POINTS, find_third_party_plugins

MODULE = """
import sys
import msgspec
import numpy as np
from kschedctl.plugins import ActionType, ClusterEventWithHint, Code, PluginError, PreFilterResult
from kschedctl.plugins import Rejection, Reservation, Status

class Odd:
    def __init__(self, args, gates): self.letter = (args or {}).get("letter", "n")
    def filter(self, info, view, state, delta):
        mask = np.array([name.startswith(self.letter) for name in view.nodes.names])
        yield Rejection(mask, Code.UNSCHEDULABLE, "node(s) begin with it")

class Failing(Odd):
    def filter(self, info, view, state, delta): raise PluginError("it says so itself")

class Waiting(Odd):
    def events_to_register(self, gates):
        yield ClusterEventWithHint("Node", ActionType.ADD, lambda info, change, view: change.new.metadata.name == "big")

class Hinting(Odd):
    def events_to_register(self, gates): yield ClusterEventWithHint("Node", ActionType.ADD, lambda *_: {}["gone"])

class Asking(Odd):
    def events_to_register(self, gates): yield ClusterEventWithHint("ConfigMap", ActionType.ADD)

class Crashing(Odd):
    def filter(self, info, view, state, delta):
        yield from ()
        {}["gone"]

class Nonsense(Odd):
    def pre_filter(self, info, view): return None

class Short(Odd):
    def filter(self, info, view, state, delta): yield Rejection(np.array([True, False]), Code.UNSCHEDULABLE, "")

class Floats(Odd):
    def score(self, info, view, state, rows): return np.ones(len(rows))
    def normalize(self, state, scores): return scores

class Half(Odd):
    def score(self, info, view, state, rows): return np.ones(len(rows), np.int64)

class Fact(Odd):
    def filter(self, info, view, state, delta):
        facts = {"raises": lambda row: 1 // 0, "number": lambda row: 5, "late": lambda row: self.late()}
        yield Rejection(np.array([True]), Code.UNSCHEDULABLE, "r", facts[self.letter])
    def late(self): raise PluginError("too late")

class Far(Odd):
    def filter(self, info, view, state, delta):
        yield Rejection(np.array([True]), Code.UNSCHEDULABLE, "r", None, np.array([1]))

class Printing(Odd):
    def filter(self, info, view, state, delta):
        print("looking at", len(view.nodes))
        yield from ()

class Coded(Odd):
    def filter(self, info, view, state, delta): yield Rejection(np.ones(1, bool), Code.SUCCESS, "")

class Numbered(Odd):
    def filter(self, info, view, state, delta): yield Rejection(np.ones(1, bool), Code.UNSCHEDULABLE, 5)

class Stating(Odd):
    def filter(self, info, view, state, delta): yield Rejection(np.ones(1, bool), Code.UNSCHEDULABLE, "", {"a": 1})

class Naming(Odd):
    def pre_filter(self, info, view): return PreFilterResult(node_names="n1")

class Permitting(Odd):
    def permit(self, info, view, row): return Status(Code.ERROR, ("no",))

class Spelling(Odd):
    def permit(self, info, view, row): return Status(Code.UNSCHEDULABLE, "no")

class Queue:
    def __init__(self, args, gates): pass
    def pre_enqueue(self, info, view): raise PluginError("no such answer here")

class Refusing(Odd):
    @classmethod
    def make(cls, args, gates): raise PluginError("not with these arguments")

class Leaving(Odd):
    @classmethod
    def make(cls, args, gates): sys.exit(3)

class Prices(msgspec.Struct, frozen=True, rename="camel"):
    dearest_node: str = "none"

class Cheap:
    '''Rejects the dearest node, likes names with a 2, and reads what claims say.'''
    points = ("permit",)
    kinds = ("PersistentVolumeClaim",)
    default_weight = 7
    args_type = Prices
    made = []

    @classmethod
    def make(cls, args, gates):
        cls.made.append(args)
        return cls(args)

    def __init__(self, args): self.args = args
    def filter(self, info, view, state, delta):
        mask = np.array([name == self.args.dearest_node for name in view.nodes.names])
        yield Rejection(mask, Code.UNSCHEDULABLE, "node(s) were too dear")
    def score(self, info, view, state, rows):
        return np.array([50 * ("2" in view.nodes.names[row]) for row in rows])
    def normalize(self, state, scores): return scores

class Choosing:
    '''Leaves two nodes, and prefers the last.'''
    def __init__(self, args, gates): pass
    def pre_filter(self, info, view):
        return PreFilterResult(node_names=frozenset(["n2", "n3"]), state={"n2": 1, "n3": 2})
    def score(self, info, view, state, rows): return np.array([state[view.nodes.names[row]] for row in rows])
    def normalize(self, state, scores): return scores

class Labelling(Cheap):
    '''Binds the pod's claim to a volume of its own making on the node, and tells so.'''
    def reserve(self, info, pod, view, row, state):
        if self.args.dearest_node == "ConfigMap": return {"ConfigMap": []}
        if self.args.dearest_node == "error": raise PluginError("nothing left")
        (claim,) = view.objects.of("PersistentVolumeClaim")
        spec = msgspec.structs.replace(claim.spec, volume_name=f"made-on-{view.nodes.names[row]}")
        return {"PersistentVolumeClaim": [msgspec.structs.replace(claim, spec=spec)]}
    def release(self, view, positions): return {}
    def reservation(self, info, view, row, state): return Reservation(bindings={"default/c": "made"})

def from_factory(args, gates): return Odd(args, gates)
from_factory.points = ("filter",)

def undeclared(args, gates): return Floats(args, gates)
undeclared.points = ("filter",)

class Pointless:
    def __init__(self, args, gates): pass

class Misspelled(Odd): points = ("preScoring",)
class Letters(Odd): kinds = "Node"
class Unread(Odd): kinds = ("Secret",)
class Untyped(Odd): args_type = int
"""
CLASSES = (
    *("Odd", "Failing", "Crashing", "Nonsense", "Short", "Floats", "Queue", "Refusing", "Leaving", "Cheap"),
    "Labelling",
    "Choosing",
    *("Waiting", "Hinting", "Asking", "Fact", "Far", "Printing"),
    *("Coded", "Numbered", "Stating", "Naming", "Permitting", "Spelling"),
)
FAULTY = ("Half", "Pointless", "Misspelled", "Letters", "Unread", "Untyped")
FACTORIES = ("Factory = odd_plugins:from_factory", "Undeclared = odd_plugins:undeclared")
POD = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a package ``odd-plugins`` 1.2 that registers the plugins above and one that cannot be imported."""
    registered = (f"{name} = odd_plugins:{name}" for name in (*CLASSES, *FAULTY))
    install(tmp_path, "odd-plugins", *registered, *FACTORIES, "Absent = no_such_module:make")
    (tmp_path / "odd_plugins.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "odd_plugins", raising=False)


def install(folder: Path, distribution: str, *points: str) -> None:
    info = folder / f"{distribution.replace('-', '_')}-1.2.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text("\n".join((f"[{ENTRY_POINTS}]", *points)))


def build_cluster(name: str, args: object = None, *, nodes: tuple[str, ...] = ("n1",), **plugins: Any) -> Cluster:
    """Build a pod, nodes, and a profile that enables the plugin at all or at certain extension points."""
    profile: dict[str, Any] = {"plugins": plugins or {"multiPoint": {"enabled": [{"name": name}]}}}
    if args is not None:
        profile["pluginConfig"] = [{"name": name, "args": args}]
    meta = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    amounts = {"allocatable": {"cpu": "2", "pods": "9"}}
    objects = [{"kind": "Node", "metadata": {"name": node}, "status": amounts} for node in nodes]
    return Cluster.from_objects([*objects, POD], config={**meta, "profiles": [profile]})


def explain_pod(name: str, args: object = None, **options: Any) -> Explanation:
    """Explain the pod with the plugin and its arguments."""
    report = kschedctl.explain(build_cluster(name, args, **options), "default/p")
    assert isinstance(report, Explanation)
    return report


@pytest.mark.parametrize("name", ["Odd", "Factory"])
def test_plugin_is_replayed_under_its_registered_name(name: str) -> None:
    report = explain_pod(name)
    assert report.to_dict()["firstFail"]["n1"] == {
        "plugin": name,
        "code": "Unschedulable",
        "reasons": ["node(s) begin with it"],
    }
    assert report.not_replayed == ()


@pytest.mark.parametrize(
    ("name", "node", "hint"),
    [("Waiting", "big", "Queue"), ("Waiting", "n9", "QueueSkip"), ("Odd", "n9", "Queue")],
    ids=["its hint says yes", "its hint says no", "one that asks for nothing is told of everything"],
)
def test_events_of_the_plugin_wake_its_rejected_pods(name: str, node: str, hint: str) -> None:
    event = {"action": "Add", "new": {"kind": "Node", "metadata": {"name": node}}}
    (found,) = kschedctl.wakes(build_cluster(name), "default/p", event).events
    assert found.hints == {name: hint}


@pytest.mark.parametrize(
    ("name", "problem"),
    [("Hinting", "fails in a hint: KeyError"), ("Asking", "fails in events_to_register: TypeError")],
)
def test_faulty_events_and_hints_name_the_package(name: str, problem: str) -> None:
    event = {"action": "Add", "new": {"kind": "Node", "metadata": {"name": "n9"}}}
    with pytest.raises(ThirdPartyError, match=f'plugin "{name}" of package odd-plugins 1.2 {problem}'):
        kschedctl.wakes(build_cluster(name), "default/p", event)


def test_plugin_gets_its_arguments() -> None:
    assert explain_pod("Odd", {"letter": "x"}).verdict == "Schedulable"


def test_added_and_removed_packages_are_noticed(tmp_path: Path) -> None:
    assert "New" not in find_third_party_plugins()
    install(tmp_path, "new-plugins", "New = odd_plugins:Odd")
    assert "New" in find_third_party_plugins()
    (tmp_path / "new_plugins-1.2.dist-info").rename(tmp_path / "gone")
    assert "New" not in find_third_party_plugins()


def test_class_declares_points_kinds_and_arguments() -> None:
    """Points, kinds and arguments are read without creating an instance. Only the profile creates one."""
    (found,) = entry_points(group=ENTRY_POINTS, name="Cheap")
    made = found.load().made
    scheduler = Scheduler(build_cluster("Cheap", {"dearestNode": "n1"}, nodes=("n1", "n2", "n3")))
    profile = scheduler.configuration.profiles["default-scheduler"]
    assert [point for point, names in profile.plugins.items() if "Cheap" in names] == ["filter", "score", "permit"]
    assert set(Scheduler(Cluster()).list_kinds_read()) <= set(scheduler.list_kinds_read())
    assert made == []
    framework = scheduler.find_framework("default-scheduler")
    assert framework is not None
    assert [type(args).__name__ for args in made] == ["Prices"]
    assert made[0].dearest_node == "n1"


def test_plugin_scores_with_the_weight_of_the_profile() -> None:
    """A plugin that a profile enables without a weight has weight 1, the only default of kube-scheduler."""
    at = {"multiPoint": {"enabled": [{"name": "Cheap", "weight": 3}]}}
    for plugins, weight in (({}, 1), (at, 3)):
        found = explain_pod("Cheap", {"dearestNode": "n3"}, nodes=("n1", "n2", "n3"), **plugins).to_dict()
        assert found["firstFail"]["n3"]["reasons"] == ["node(s) were too dear"]
        assert found["weighted"]["Cheap"] == {"n1": 0, "n2": 50 * weight}
        assert found["best"] == ["n2"]


@pytest.mark.parametrize("claims", [(), ("c",)])
def test_score_gets_the_pre_filter_state(claims: tuple[str, ...]) -> None:
    """Without PreScore, Score reads upstream's cycle state.

    The same holds in a simulation, also for a pod with claims.
    """
    known = build_cluster("Choosing", nodes=("n1", "n2", "n3"))
    spec = {**POD["spec"], "resourceClaims": [{"name": name, "resourceClaimName": name} for name in claims]}
    allocated = [
        {"kind": "ResourceClaim", "metadata": {"name": c, "namespace": "default"}, "status": {"allocation": {}}}
        for c in claims
    ]
    read = Cluster.from_objects([{**POD, "spec": spec}, *allocated])
    known = replace(known, pods=read.pods, resource_claims=read.resource_claims)
    report = kschedctl.explain(known, "default/p")
    assert isinstance(report, Explanation)
    assert report.to_dict()["weighted"]["Choosing"] == {"n2": 1, "n3": 2}
    simulation = Simulation(Scheduler(known))
    (outcome,) = simulation.run([0])
    assert simulation.view.nodes.names[outcome.row] == "n3"


def test_points_that_are_not_replayed_are_reported() -> None:
    assert explain_pod("Cheap").not_replayed == ("plugin Cheap at permit",)
    assert explain_pod("Cheap", permit={}, filter={"enabled": [{"name": "Cheap"}]}).not_replayed == ()


def test_kinds_of_the_plugin_are_relevant_to_every_pod() -> None:
    """The in-tree plugins read claims and classes only for pods with volumes, and no pod has any here."""
    without, needed = (
        Scheduler(build_cluster("Odd")).find_irrelevant_kinds(()),
        Scheduler(build_cluster("Cheap")).find_irrelevant_kinds(()),
    )
    assert "no pod has a claim or a disk" in without["PersistentVolumeClaim"]
    assert without.keys() - needed.keys() == {"PersistentVolumeClaim"}


def build_reserving_simulation(args: object) -> Simulation:
    claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": "c", "namespace": "default"}, "spec": {}}
    known = build_cluster("Labelling", args)
    claims = Cluster.from_objects([claim]).persistent_volume_claims
    return Simulation(Scheduler(replace(known, persistent_volume_claims=claims)))


def test_plugin_reserves() -> None:
    simulation = build_reserving_simulation({})
    assert [outcome.verdict for outcome in simulation.run([0])] == ["Scheduled"]
    (claim,) = simulation.view.cluster.persistent_volume_claims
    assert claim.spec.volume_name == "made-on-n1"
    assert explain_pod("Labelling").to_dict()["volumes"] == {
        "n1": {"bindings": {"default/c": "made"}, "provisions": []}
    }


def test_failed_reservation_is_the_outcome() -> None:
    (outcome,) = build_reserving_simulation({"dearestNode": "error"}).run([0])
    assert (outcome.verdict, outcome.row) == ("Error", -1)
    assert outcome.message == 'running Reserve plugin "Labelling": nothing left'
    with pytest.raises(ThirdPartyError, match="fails in reserve: TypeError: it changes ConfigMap, not one of"):
        build_reserving_simulation({"dearestNode": "ConfigMap"}).run([0])


def test_answer_is_conditional_without_a_kind_of_the_plugin() -> None:
    known = build_cluster("Cheap")
    assert kschedctl.explain(known, "default/p").unknown == ()
    gaps: Mapping[str, Gap] = {"PersistentVolumeClaim": Gap("were not listed")}
    report = kschedctl.explain(replace(known, gaps=gaps), "default/p")
    assert ["PersistentVolumeClaim" in str(each) for each in report.unknown] == [True]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ({"dearestNode": 5}, "args of plugin Cheap.dearestNode: expected str, got int"),
        ({"cheapestNode": ""}, 'args for plugin Cheap: strict decoding error: unknown field "cheapestNode"'),
    ],
)
def test_declared_arguments_are_decoded_strictly(args: object, says: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Scheduler(build_cluster("Cheap", args))
    assert says in str(caught.value)


def test_error_that_a_plugin_reports_is_the_verdict() -> None:
    assert explain_pod("Failing").to_dict()["message"] == 'running "Failing" filter plugin: it says so itself'


@pytest.mark.parametrize(
    ("name", "args", "says"),
    [
        ("Absent", None, "cannot be loaded: ModuleNotFoundError: No module named 'no_such_module'"),
        ("Pointless", None, "cannot be loaded: TypeError: it never runs: it implements no extension point"),
        ("Misspelled", None, "cannot be loaded: TypeError: points has unknown names: preScoring"),
        ("Letters", None, "cannot be loaded: TypeError: kinds has unknown names: Node"),
        ("Unread", None, "cannot be loaded: TypeError: kinds has unknown names: Secret"),
        ("Untyped", None, "cannot be loaded: TypeError: args_type is int, not a msgspec.Struct"),
        ("Undeclared", None, "cannot be built: TypeError: it runs at score, which it does not declare"),
        ("Odd", 5, "cannot be built: AttributeError: 'int' object has no attribute 'get'"),
        ("Refusing", None, "cannot be built: PluginError: not with these arguments"),
        ("Leaving", None, "cannot be built: SystemExit: 3"),
        ("Crashing", None, "fails in filter: KeyError: 'gone'"),
        ("Nonsense", None, "fails in pre_filter: TypeError: it returned NoneType, not PreFilterResult"),
        ("Short", None, "fails in filter: TypeError: its mask is bool (2,), not one boolean for each of 1 nodes"),
        ("Queue", None, "fails in pre_enqueue: PluginError: no such answer here"),
        ("Half", None, "cannot be loaded: TypeError: it has score, but not normalize: score needs score"),
        (
            "Coded",
            None,
            "fails in filter: TypeError: it returned code Success, not one of Error, Unschedulable",
        ),
        ("Numbered", None, "fails in filter: TypeError: its reasons are (5,), not a collection of strings"),
        ("Stating", None, "fails in filter: TypeError: its fact is dict, not a function of the row"),
        ("Fact", {"letter": "raises"}, "fails in a fact: ZeroDivisionError: "),
        ("Fact", {"letter": "number"}, "fails in a fact: TypeError: it returned int, not text"),
        ("Fact", {"letter": "late"}, "fails in a fact: PluginError: too late"),
        ("Far", None, "fails in filter: TypeError: its distance is int64 (1,), not one float for each of 1 nodes"),
        ("Naming", None, "fails in pre_filter: TypeError: its node_names are 'n1', not a collection of strings"),
        ("Permitting", {"letter": "x"}, "fails in permit: TypeError: it returned code Error, not one of"),
        ("Spelling", {"letter": "x"}, "fails in permit: TypeError: its reasons are 'no', not a collection of strings"),
    ],
)
def test_faulty_plugin_is_named_with_its_package(name: str, args: object, says: str) -> None:
    with pytest.raises(ThirdPartyError) as caught:
        explain_pod(name, args)
    assert str(caught.value).startswith(f'plugin "{name}" of package odd-plugins 1.2 {says}')
    assert caught.value.exit_code == 2


def test_output_of_the_plugin_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    explain_pod("Printing")
    out, err = capsys.readouterr()
    assert (out, "looking at 1\n" in err) == ("", True)


def test_scores_are_whole_numbers() -> None:
    with pytest.raises(ThirdPartyError) as caught:
        explain_pod("Floats", {"letter": "x"}, nodes=("n1", "n2"))
    assert "fails in score: TypeError: it returned float64 (2,), not one integer for each" in str(caught.value)


def test_faulty_plugins_do_not_affect_other_configurations() -> None:
    assert explain_pod("Odd", {"letter": "x"}).verdict == "Schedulable"


def test_in_tree_name_is_taken(tmp_path: Path) -> None:
    install(tmp_path, "odd-plugins", "NodeName = odd_plugins:Odd")
    with pytest.raises(ConfigurationError) as caught:
        find_third_party_plugins()
    assert str(caught.value) == "package odd-plugins 1.2: a plugin named NodeName already exists"


def test_name_of_another_package_is_taken(tmp_path: Path) -> None:
    install(tmp_path, "tail-plugins", "Odd = odd_plugins:Short")
    with pytest.raises(ConfigurationError) as caught:
        find_third_party_plugins()
    assert str(caught.value) == "package tail-plugins 1.2: a plugin named Odd already exists"


def test_plugin_is_loaded_when_it_is_looked_up() -> None:
    found = find_third_party_plugins()
    assert "Absent" in set(found)
    with pytest.raises(ThirdPartyError):
        found["Absent"]
