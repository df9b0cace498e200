"""Check the findings of ``kschedctl config check``, and the output of ``config view``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Run

CONFIGURATION = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
percentageOfNodesToScore: 90
profiles:
- schedulerName: bin-packing
  plugins:
    preFilter:
      disabled: [{name: NodePorts}, {name: NodePortz}]
    multiPoint:
      enabled:
      - name: NodeResourcesFit
        weight: 0
      disabled: [{name: TaintToleration}]
  pluginConfig:
  - name: Coscheduling
"""


def test_config_check_names_the_profile_and_the_point_that_a_plugin_lacks(run: Run, tmp_path: Path) -> None:
    """DefaultPreemption is still enabled at preEnqueue, where it evicts no pods."""
    (tmp_path / "c.yaml").write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"
        "- schedulerName: default-scheduler\n- schedulerName: batch\n  plugins:\n"
        "    postFilter: {disabled: [{name: DefaultPreemption}]}\n"
    )
    _, out, _ = run("config", "check", str(tmp_path / "c.yaml"), "-o", "json")
    assert [finding["message"] for finding in json.loads(out)["findings"]] == [
        "profile batch: without DefaultPreemption at postFilter, pods of high priority evict nobody"
    ]


def test_config_check_points_to_the_arguments_of_a_plugin_that_fails_to_start(run: Run, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"
        "- schedulerName: default-scheduler\n  pluginConfig:\n  - name: NodeResourcesFit\n"
        "    args: {scoringStrategy: {type: RequestedToCapacityRatio}}\n"
    )
    _, out, _ = run("config", "check", str(tmp_path / "c.yaml"), "-o", "json")
    assert [(finding["rule"], finding["line"]) for finding in json.loads(out)["findings"]] == [("cfg-invalid", 7)]


def test_config_check(run: Run, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(CONFIGURATION)
    code, out, _ = run("config", "check", str(tmp_path / "c.yaml"), "--nodes", "5000", "-o", "json")
    found = {finding["rule"]: finding["line"] for finding in json.loads(out)["findings"]}
    assert code == 1
    assert found == {
        "cfg-percentage": 3,
        "cfg-disabled-default": 6,
        "cfg-without-state": 7,
        "cfg-unknown-plugin": 8,
        "cfg-weight-zero": 12,
        "cfg-unused-args": 15,
    }


@pytest.mark.parametrize(
    ("change", "rule", "line"),
    [
        (("k8s.io/v1", "k8s.io/v1beta3"), "cfg-old-version", 1),
        (("pluginConfig", "pluginConfigs"), "cfg-invalid", 14),
        (("- name: NodeResourcesFit", "- name: NodeLabel"), "cfg-invalid", 11),
    ],
)
def test_config_that_kube_scheduler_rejects(
    run: Run, tmp_path: Path, change: tuple[str, str], rule: str, line: int
) -> None:
    (tmp_path / "c.yaml").write_text(CONFIGURATION.replace(*change))
    code, out, _ = run("config", "check", str(tmp_path / "c.yaml"), "-o", "json")
    (found,) = json.loads(out)["findings"]
    assert (code, found["rule"], found["line"]) == (1, rule, line)


def test_config_view(run: Run, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(CONFIGURATION)
    code, out, _ = run("config", "view", str(tmp_path / "c.yaml"), "-o", "json")
    (profile,) = json.loads(out)["profiles"]
    points = {point["point"]: {p["name"]: p for p in point["plugins"]} for point in profile["points"]}
    assert code == 0
    assert points["filter"]["NodeResourcesFit"]["origin"] == "multiPoint"
    assert points["filter"]["NodePorts"]["origin"] == "default"
    assert points["score"]["NodeAffinity"]["weight"] == 2
    assert not {"NodePorts", "TaintToleration"} & points["preFilter"].keys()
    assert "TaintToleration" not in points["score"]


def test_config_view_of_the_default(run: Run) -> None:
    code, out, _ = run("config", "view")
    assert code == 0
    assert "default-scheduler" in out


FAULTS = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
parallelism: 0
paralelism: 3
percentageOfNodesToScore: fifty
profiles:
- schedulerName: a
  percentageOfNodesToScore: 101
  plugins:
    filter:
      disabled: x
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategies: {}}
  - name: InterPodAffinity
    args: {hardPodAffinityWeight: 1000}
- schedulerName: a
"""


def test_each_configuration_error_is_located_at_its_line(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(FAULTS)
    code, out, _ = run("config", "check", str(file), "-o", "json")
    assert code == 1
    found = {finding["line"]: finding["message"] for finding in json.loads(out)["findings"]}
    assert {line: message.split(":")[0] for line, message in found.items()} == {
        3: "parallelism",
        4: "strict decoding error",
        5: "percentageOfNodesToScore",
        8: "profiles[0].percentageOfNodesToScore",
        11: "profiles[0].plugins.filter.disabled",
        14: "strict decoding error",
        16: "profiles[0].pluginConfig[1].args.hardPodAffinityWeight",
        17: "profiles[1].schedulerName",
    }


def test_every_invalid_profile_is_reported(run: Run, tmp_path: Path) -> None:
    twice = "{plugins: {filter: {enabled: [{name: NodeName}, {name: NodeName}]}}, schedulerName: %s}"
    file = tmp_path / "c.yaml"
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"
    file.write_text(head + f"- {twice % 'a'}\n- schedulerName: b\n- {twice % 'c'}\n")
    findings = json.loads(run("config", "check", str(file), "-o", "json").out)["findings"]
    assert [finding["line"] for finding in findings] == [4, 6]


def test_check_without_a_file_says_so(run: Run) -> None:
    """The message must not say that "check" is an unknown action."""
    assert run("config", "check").err.startswith("error: check needs a FILE")
    assert run("config", "chekc").err.startswith('error: unknown action "chekc"')


def test_view_accepts_only_one_configuration(run: Run, tmp_path: Path) -> None:
    for arguments in (["check", "c.yaml", "--live"], ["view", "c.yaml", "--live"], ["check", "--live"]):
        assert run("config", *arguments).code == 2
