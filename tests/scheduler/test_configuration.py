"""Check plugins, weights and validation of configurations against the real kube-scheduler v1.36, and its defaults."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from kschedctl.errors import ConfigurationError
from kschedctl.scheduler.configuration.configuration import load_configuration
from kschedctl.scheduler.framework.declaration import EXTENSION_POINTS, Declaration
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.strict_decoding import GoDuration
from kschedctl.scheduler.in_tree_plugins import IN_TREE
from kschedctl.scheduler.plugins.helper.resource_allocation import ResourceSpec, UtilizationShapePoint

GOLDEN = Path(__file__).parents[1] / "golden" / "configurations.jsonl.gz"
META = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
GATES = FeatureGates()


def read_golden_cases(*, refused):
    with gzip.open(GOLDEN, "rt") as lines:
        cases = [json.loads(line) for line in lines]
    return [case for case in cases if ("error" in case) == refused]


def build_profile(**fields):
    return {**META, "profiles": [fields]}


def build_plugins(**points):
    return build_profile(plugins=points)


def build_names(*plugin_names):
    return [{"name": name} for name in plugin_names]


def build_args(plugin, **fields):
    return build_profile(pluginConfig=[{"name": plugin, "args": fields}])


def load(document, gates=GATES, *, other_builds=False, **registered):
    declared = {name: Declaration(name, frozenset(points)) for name, points in registered.items()}
    return load_configuration(document, gates, declared, other_builds=other_builds)


def load_default_profile(document, gates=GATES, **registered):
    return load(document, gates, **registered).profiles["default-scheduler"]


def load_with_other_builds(document):
    return load(document, other_builds=True).profiles["default-scheduler"]


def test_plugins_and_weights_are_kube_schedulers():
    differing = []
    for case in read_golden_cases(refused=False):
        gates = FeatureGates(overrides=case.get("featureGates"))
        found = load(case.get("config"), gates).profiles[case["profile"]]
        want = {point: tuple(order) for point, order in case["plugins"].items()}
        recorded = ("preEnqueue", "preFilter", "filter", "postFilter", "preScore", "score")
        got = {point: found.plugins[point] for point in recorded if found.plugins[point]}
        if got != want or found.weights != case.get("weights", {}):
            differing.append(case)
    assert not differing


@pytest.mark.parametrize("case", read_golden_cases(refused=True), ids=lambda case: case["error"][:60])
def test_errors_are_kube_schedulers(case):
    with pytest.raises(ConfigurationError) as caught:
        load(case["config"])
    want = case["error"].removeprefix("config: ").removeprefix("scheduler: initializing profiles: ")
    assert str(caught.value) == want


def test_points_without_recorded_plugins():
    found = load_default_profile(None).plugins
    assert found["queueSort"] == ("PrioritySort",)
    assert found["reserve"] == found["preBind"] == ("VolumeBinding", "DynamicResources")
    assert (found["bind"], found["postBind"], found["permit"]) == (("DefaultBinder",), (), ())
    assert found["placementScore"] == ("NodeResourcesFit",)


def test_gates_determine_default_plugins():
    workload = {"GenericWorkload": True, "GangScheduling": True, "TopologyAwareWorkloadScheduling": True}
    found = load_default_profile(None, FeatureGates(overrides=workload))
    assert found.plugins["permit"] == ("GangScheduling",)
    assert found.plugins["placementGenerate"] == ("TopologyPlacementGenerator",)
    assert found.placement_weights == {"NodeResourcesFit": 1, "PodGroupPodsCount": 1}
    assert "DynamicResources" not in load_default_profile(None, FeatureGates("1.33")).plugins["filter"]


THIRD_PARTY = {"All": ("filter", "preScore", "score"), "Scorer": ("preScore", "score"), "Other": ("score",)}


@pytest.mark.parametrize(
    ("multi_point", "score", "want"),
    [
        pytest.param(("Other", "All", "Scorer"), ("Scorer", "All"), ("Scorer", "All", "Other"), id="own order first"),
        pytest.param(("All", "Scorer"), ("Other", "Scorer", "All"), ("Scorer", "All", "Other"), id="only there last"),
        pytest.param(("All", "Scorer"), (), ("All", "Scorer"), id="multiPoint alone"),
    ],
)
def test_multi_point_expansion(multi_point, score, want):
    points = {
        "multiPoint": {
            "disabled": build_names("*"),
            "enabled": build_names("PrioritySort", "DefaultBinder", *multi_point),
        },
        "score": {"enabled": build_names(*score)},
    }
    found = load_default_profile(build_plugins(**points), **THIRD_PARTY)
    assert found.plugins["score"] == want
    assert found.plugins["filter"] == ("All",)


def test_origins_of_enabled_plugins():
    points = {"multiPoint": {"enabled": build_names("All")}, "score": {"enabled": build_names("NodeAffinity")}}
    found = load_default_profile(build_plugins(**points), **THIRD_PARTY).origins["score"]
    assert (found["All"], found["NodeAffinity"], found["ImageLocality"]) == ("multiPoint", "score", "default")


def test_third_party_arguments_stay_a_document():
    document = build_profile(
        plugins={"filter": {"enabled": build_names("All")}}, pluginConfig=[{"name": "All", "args": {"a": [1]}}]
    )
    assert load_default_profile(document, **THIRD_PARTY).args["All"] == {"a": [1]}


def test_plugin_of_another_build_runs_at_the_named_points():
    found = load_with_other_builds(
        build_plugins(permit={"enabled": build_names("Coscheduling")}, score={"enabled": build_names("Trimaran")})
    )
    assert found.foreign == ("Coscheduling", "Trimaran")
    assert found.plugins["permit"] == ("Coscheduling",)
    assert found.plugins["score"][-1] == "Trimaran"
    assert found.weights["Trimaran"] == 1


def test_plugin_of_another_build_may_sort_the_queue_and_bind():
    off = {"queueSort": {"disabled": build_names("*")}, "bind": {"disabled": build_names("*")}}
    found = load_with_other_builds(build_plugins(multiPoint={"enabled": build_names("Coscheduling")}, **off))
    assert found.foreign == ("Coscheduling",)
    with pytest.raises(ConfigurationError, match="only one queue sort plugin required"):
        load_with_other_builds(build_plugins(permit={"enabled": build_names("Coscheduling")}, **off))


@pytest.mark.parametrize("name", ["NodeLabel", "EBSLimits", ""])
def test_removed_plugins_and_empty_names_are_errors(name):
    with pytest.raises(ConfigurationError):
        load_with_other_builds(build_plugins(filter={"enabled": build_names(name)}))


def test_lease_must_outlast_its_renewal():
    lease = {"leaseDuration": "10s", "renewDeadline": "10s"}
    with pytest.raises(ConfigurationError, match="must be greater than `RenewDeadline`"):
        load({**META, "leaderElection": lease})
    load({**META, "leaderElection": {"renewDeadline": "1s", "retryPeriod": "2s"}})


OVERFLOW = "score plugins: total score of Score plugins could overflow"


def test_negative_weight_overflows_if_another_plugin_scores():
    with pytest.raises(ConfigurationError, match=OVERFLOW):
        load(build_plugins(multiPoint={"enabled": [{"name": "TaintToleration", "weight": -1}]}))
    last = {"disabled": build_names("*"), "enabled": [{"name": "ImageLocality", "weight": -1}]}
    load(
        build_plugins(
            multiPoint={"disabled": build_names("*"), "enabled": build_names("PrioritySort", "DefaultBinder")},
            score=last,
        )
    )


@pytest.mark.parametrize("args", [{"x": 1}, {}])
def test_profiles_must_have_equal_queue_sort_arguments(args):
    other = {"schedulerName": "b", "pluginConfig": [{"name": "PrioritySort", "args": args}]}
    with pytest.raises(ConfigurationError, match='different queue sort plugin args for profile "b"'):
        load({**META, "profiles": [{"schedulerName": "a"}, other]})


@pytest.mark.parametrize("ca", [{"caFile": "/ca.pem"}, {"caData": "eA=="}])
def test_root_certificate_contradicts_insecure(ca):
    extender = {"urlPrefix": "https://e", "enableHTTPS": True, "tlsConfig": {"insecure": True, **ca}}
    with pytest.raises(ConfigurationError, match="a root certificates file with the insecure flag is not allowed"):
        load({**META, "extenders": [extender]})


def test_limits_default_and_override():
    found = load({**META, "profiles": None, "parallelism": None})
    assert (found.percentage_of_nodes_to_score, found.parallelism) == (0, 16)
    assert (found.pod_initial_backoff_seconds, found.pod_max_backoff_seconds) == (1, 10)
    document = build_profile(percentageOfNodesToScore=20) | {"percentageOfNodesToScore": 10}
    assert load(document).percentage_of_nodes_to_score == 10
    assert load_default_profile(document).percentage_of_nodes_to_score == 20


def test_arguments_default():
    found = load_default_profile(None).args
    assert found["DefaultPreemption"].min_candidate_nodes_percentage == 10
    assert found["DefaultPreemption"].min_candidate_nodes_absolute == 100
    assert (found["DynamicResources"].filter_timeout, found["DynamicResources"].binding_timeout) == (10, 600)
    assert found["InterPodAffinity"].hard_pod_affinity_weight == 1
    assert found["NodeResourcesFit"].scoring_strategy.type == "LeastAllocated"
    assert found["NodeResourcesBalancedAllocation"].resources == (ResourceSpec("cpu", 1), ResourceSpec("memory", 1))
    assert found["PodTopologySpread"].defaulting_type == "System"
    assert (found["VolumeBinding"].bind_timeout_seconds, found["VolumeBinding"].shape) == (600, None)


def test_partial_arguments_default():
    resources = [{"name": "cpu"}, {"name": "x.y/z", "weight": 0}, {"name": "memory", "weight": 7}]
    found = load_default_profile(
        build_args("NodeResourcesFit", scoringStrategy={"type": "MostAllocated", "resources": resources})
    )
    weighted = found.args["NodeResourcesFit"].scoring_strategy.resources
    assert [resource.weight for resource in weighted] == [1, 1, 7]
    found = load_default_profile(build_args("VolumeBinding"), FeatureGates(overrides={"StorageCapacityScoring": True}))
    assert found.args["VolumeBinding"].shape == (UtilizationShapePoint(0, 10), UtilizationShapePoint(100, 0))
    assert (
        load_default_profile(build_args("DynamicResources"), FeatureGates("1.35"))
        .args["DynamicResources"]
        .binding_timeout
        is None
    )


def test_extenders_are_ordered_and_timed():
    fields = {"urlPrefix": "http://b", "httpTimeout": "1m30s", "enableHTTPS": True}
    found = load({**META, "extenders": [{"urlPrefix": "http://a", "ignorable": True}, fields]}).extenders
    assert [(e.url_prefix, e.http_timeout, e.enable_https) for e in found] == [
        ("http://b", 90, True),
        ("http://a", 5, False),
    ]


def test_resources_of_extenders_replace_the_ignored_ones():
    managed = [{"name": "example.com/a", "ignoredByScheduler": True}, {"name": "example.com/b"}]
    document = build_args("NodeResourcesFit", ignoredResources=["example.com/c"])
    found = load_default_profile(document | {"extenders": [{"urlPrefix": "http://a", "managedResources": managed}]})
    assert found.args["NodeResourcesFit"].ignored_resources == ("example.com/a",)


PATH = "profiles[0].pluginConfig[0].args"
BY_NAME = "creating profile for scheduler name default-scheduler"
STRICT_ARGS = (
    "strict decoding error: decoding .profiles[0].pluginConfig[0]: strict decoding error: decoding args for plugin "
    "NodeResourcesFit: strict decoding error: "
)
REQUIRED_TERMS = "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
CONSTRAINT = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
REFUSED = {
    "no kind": ({"apiVersion": META["apiVersion"]}, "Object 'Kind' is missing in '{"),
    "old version": (
        META | {"apiVersion": "kubescheduler.config.k8s.io/v1beta3"},
        'no kind "KubeSchedulerConfiguration" is registered for version "kubescheduler.config.k8s.io/v1beta3"',
    ),
    "no object": ([META], "a KubeSchedulerConfiguration must be an object"),
    "wrong case": ({**META, "Profiles": []}, 'strict decoding error: unknown field "Profiles"'),
    "unknown in list": (build_profile(bogus=1), 'strict decoding error: unknown field "profiles[0].bogus"'),
    "unknown in args": (
        build_args("NodeResourcesFit", scoringStrategy={"resources": [{"Name": "cpu", "Weight": 1}]}),
        STRICT_ARGS + 'unknown field "scoringStrategy.resources[0].Name", '
        'unknown field "scoringStrategy.resources[0].Weight"',
    ),
    "wrong type": (
        build_profile(percentageOfNodesToScore="5"),
        "profiles[0].percentageOfNodesToScore: expected int, got str",
    ),
    "wrong type in args": (
        build_args("InterPodAffinity", hardPodAffinityWeight=True),
        f"{PATH}.hardPodAffinityWeight: expec",
    ),
    "beyond int32": ({**META, "parallelism": 2**31}, "parallelism: expected int <= 2147483647"),
    "bad duration": (
        build_args("DynamicResources", filterTimeout="10"),
        f"{PATH}.filterTimeout: invalid duration '10'",
    ),
    "args of another plugin": (
        build_args("DefaultPreemption", apiVersion=META["apiVersion"], kind="InterPodAffinityArgs"),
        "decoding .profiles[0].pluginConfig[0]: args for plugin DefaultPreemption were not of type "
        "DefaultPreemptionArgs.kubescheduler.config.k8s.io, got InterPodAffinityArgs.kubescheduler.config.k8s.io",
    ),
    "no scheduler name": (
        {**META, "profiles": [{"schedulerName": "a"}, {}]},
        "profiles[1].schedulerName: Required value",
    ),
    "same scheduler name": (
        {**META, "profiles": [{"schedulerName": "a"}, {"schedulerName": "a"}]},
        "profiles[1].schedulerName: Duplicate value: ",
    ),
    "different queue sorts": (
        {
            **META,
            "profiles": [{"schedulerName": "a"}, {"schedulerName": "b", "plugins": {"queueSort": {"enabled": [{}]}}}],
        },
        "profiles[1].plugins.queueSort: Invalid value: ",
    ),
    "parallelism": ({**META, "parallelism": 0}, "parallelism: Invalid value: 0: should be an integer value greater th"),
    "no backoff": ({**META, "podInitialBackoffSeconds": 0}, "podInitialBackoffSeconds: Invalid value: 0: must be gre"),
    "short backoff": ({**META, "podMaxBackoffSeconds": 0}, "podMaxBackoffSeconds: Invalid value: 0: must be greater "),
    "leader lock": (
        {**META, "leaderElection": {"resourceLock": "endpoints"}},
        'leaderElection.resourceLock: Invalid value: "endpoints": resourceLock value must be "leases"',
    ),
    "removed plugin": (
        build_plugins(filter={"enabled": build_names("EBSLimits")}),
        'profiles[0].plugins.filter.enabled[0]: Invalid value: "EBSLimits": was invalid in version ',
    ),
    "args twice": (
        build_profile(pluginConfig=build_names("NodeAffinity", "NodeAffinity")),
        'profiles[0].pluginConfig[1]: Duplicate value: "NodeAffinity"',
    ),
    "unknown plugin": (
        build_plugins(multiPoint={"enabled": build_names("Nope")}),
        f'{BY_NAME}: PreFilterPlugin "Nope" does not exist',
    ),
    "plugin twice": (
        build_plugins(filter={"enabled": build_names("NodeName", "NodeName")}),
        f'{BY_NAME}: plugin "NodeName" already registered as "FilterPlugin"',
    ),
    "multiPoint plugin twice": (
        build_plugins(multiPoint={"enabled": build_names("NodeName", "NodeName")}),
        f'{BY_NAME}: plugin "NodeName" already registered as "FilterPlugin"',
    ),
    "plugin at a foreign point": (
        build_plugins(filter={"enabled": build_names("ImageLocality")}),
        f'{BY_NAME}: plugin "ImageLocality" does not extend FilterPlugin plugin',
    ),
    "no queue sort": (
        build_plugins(queueSort={"disabled": build_names("*")}),
        f'{BY_NAME}: only one queue sort plugin required for profile with scheduler name "default-scheduler", but',
    ),
    "no bind": (
        build_plugins(bind={"disabled": build_names("*")}),
        f"{BY_NAME}: at least one bind plugin is needed for profile",
    ),
    "preemption": (
        build_args("DefaultPreemption", minCandidateNodesPercentage=101),
        f"{PATH}.minCandidateNodesPercentage: Invalid value: 101: not in valid range [0, 100]",
    ),
    "preemption both zero": (
        build_args("DefaultPreemption", minCandidateNodesPercentage=0, minCandidateNodesAbsolute=0),
        f"[{PATH}.minCandidateNodesPercentage: Invalid value: 0: cannot be zero at the same time as",
    ),
    "binding timeout": (
        build_args("DynamicResources", bindingTimeout="999ms"),
        f'{PATH}.bindingTimeout: Invalid value: "0.999s": must be at least 1 second',
    ),
    "added affinity": (
        build_args(
            "NodeAffinity",
            addedAffinity={
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Is"}]}]
                }
            },
        ),
        f'{PATH}.{REQUIRED_TERMS}[0].matchExpressions[0].operator: Unsupported value: "Is": supported values: "In", ',
    ),
    "balanced weight": (
        build_args("NodeResourcesBalancedAllocation", resources=[{"name": "cpu", "weight": 2}]),
        f"{PATH}.resources[0].weight: Invalid value: 2: must be 1",
    ),
    "resource weight": (
        build_args(
            "NodeResourcesFit", scoringStrategy={"type": "LeastAllocated", "resources": [{"name": "a", "weight": 101}]}
        ),
        f'{BY_NAME}: initializing plugin "NodeResourcesFit": scoringStrategy.resources[0].weight: Invalid value: 101: '
        "resource weight of a not in valid range (0, 100]",
    ),
    "no shape": (
        build_args(
            "NodeResourcesFit", scoringStrategy={"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {}}
        ),
        f'{BY_NAME}: initializing plugin "NodeResourcesFit": scoringStrategy.requestedToCapacityRatio.shape: Required',
    ),
    "resource group": (
        build_args("NodeResourcesFit", ignoredResourceGroups=["a.b/c"]),
        f'{BY_NAME}: initializing plugin "NodeResourcesFit": ignoredResourceGroups[0]: Invalid value: "a.b/c": ',
    ),
    "args by the wrong name": (
        build_args("NodeResourcesFitArgs"),
        f"{PATH}: Invalid value: {{}}: has to match plugin args",
    ),
    "constraint with selector": (
        build_args(
            "PodTopologySpread", defaultingType="List", defaultConstraints=[{**CONSTRAINT, "labelSelector": {}}]
        ),
        f"{PATH}.defaultConstraints[0].labelSelector: Forbidden: constraint must not define a selector",
    ),
    "constraint twice": (
        build_args("PodTopologySpread", defaultingType="List", defaultConstraints=[CONSTRAINT, CONSTRAINT]),
        f'{PATH}.defaultConstraints[1]: Duplicate value: "{{zone, DoNotSchedule}}"',
    ),
    "shape without its gate": (
        build_args("VolumeBinding", shape=[{"utilization": 0, "score": 0}]),
        f"{PATH}.shape: Invalid value: ",
    ),
    "extender weight": (
        {**META, "extenders": [{"prioritizeVerb": "p"}]},
        "extenders[0].weight: Invalid value: 0: must have a positive weight applied to it",
    ),
    "two binders": (
        {**META, "extenders": [{"bindVerb": "b"}, {"bindVerb": "b"}]},
        'extenders: Invalid value: "found 2 extenders implementing bind": only one extender can implement bind',
    ),
    "native managed resource": (
        {**META, "extenders": [{"managedResources": build_names("cpu")}]},
        'extenders[0].managedResources[0].name: Invalid value: "cpu": is an invalid extended resource name',
    ),
}


@pytest.mark.parametrize(("document", "message"), REFUSED.values(), ids=REFUSED)
def test_invalid_configurations(document, message):
    with pytest.raises(ConfigurationError) as caught:
        load(document)
    assert str(caught.value).startswith(message)


def test_arguments_of_a_disabled_fit_are_not_checked():
    document = build_profile(
        plugins={"multiPoint": {"disabled": build_names("NodeResourcesFit")}},
        pluginConfig=[{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "Weird"}}}],
    )
    assert "NodeResourcesFit" not in load_default_profile(document).plugins["filter"]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), ("10s", 10), ("1h2m3s", 3723), ("1.5s", 1.5), ("-250ms", -0.25), (".5m", 30), ("100us", 1e-4)],
)
def test_durations(text, seconds):
    assert GoDuration.parse(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "s", "10", "10 s", "10d", "1m0", 10, None])
def test_invalid_durations(text):
    with pytest.raises(ValueError, match="invalid duration"):
        GoDuration.parse(text)


def test_in_tree_plugins_implement_only_known_points():
    assert {point for plugin in IN_TREE.values() for point in plugin.points} <= EXTENSION_POINTS.keys()
