"""Check which pods ``kschedctl sampling`` asks about, its first line and its exit codes."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import msgspec
import pytest
from command_line import Run, Write, build_node, build_pod

from kschedctl.commands.audit.sampling import sampled_searches
from kschedctl.commands.audit.sampling.page import build_sampling_page
from kschedctl.commands.audit.sampling.report import SampledKind, SamplingCosts
from kschedctl.commands.schema import build_schema
from kschedctl.render.page import Style
from kschedctl.render.plots.plot import Plot

NODES = [build_node(f"n{number:03}") for number in range(120)]
"""All alike: 50 % of them are 60, and 100 the least that is looked at."""


def test_first_line_says_what_to_do(run: Run, write: Write) -> None:
    code, out, err = run("sampling", "-f", write(*NODES, build_pod("web")))
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == "Keep percentageOfNodesToScore, adaptive (50%): it costs 0.0 points per pod"
    assert "now, default of 1.13" in out


def test_named_pod_and_manifest(run: Run, write: Write) -> None:
    cluster = write(*NODES, build_pod("web"), build_pod("db", "2"))
    named = json.loads(run("sampling", "db", "-f", cluster, "-o", "json").out)
    assert (named["asked"], [kind["pod"] for kind in named["profiles"][0]["kinds"]]) == ("named", ["default/db"])
    jsonschema.validate(named, build_schema(SamplingCosts))
    manifest = write(build_pod("more"), name="more.yaml")
    asked = json.loads(run("sampling", "-f", cluster, "-f", manifest, "-o", "json").out)
    assert [kind["pod"] for kind in asked["profiles"][0]["kinds"]] == ["default/more"]


def test_ctrl_c_prints_the_kinds_so_far(run: Run, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user interrupts while the second of two kinds of pods is measured."""
    measure, calls = sampled_searches.measure_sampling_costs, list[int]()

    def measure_until_second(*arguments: Any) -> SampledKind:
        calls.append(1)
        if len(calls) % 2 == 0:
            raise KeyboardInterrupt
        return measure(*arguments)

    monkeypatch.setattr(sampled_searches, "measure_sampling_costs", measure_until_second)
    file = write(*NODES, build_pod("web"), build_pod("db", "2"))
    code, out, err = run("sampling", "web", "db", "-f", file)
    assert (code, err) == (130, "")
    assert out.splitlines()[0] == "Interrupted: the kinds of pods so far"
    document = json.loads(run("sampling", "web", "db", "-f", file, "-o", "json").out)
    [profile] = document["profiles"]
    assert (document["interrupted"], [kind["pod"] for kind in profile["kinds"]]) == (True, ["default/web"])


def test_plot_has_the_figures_of_the_table(run: Run, write: Write) -> None:
    document = json.loads(run("sampling", "-f", write(*NODES, build_pod("web")), "-o", "json").out)
    page = build_sampling_page(msgspec.convert(document, SamplingCosts), Style())
    [plot] = [block for block in page if isinstance(block, Plot)]
    curve = document["profiles"][0]["curve"]
    assert plot.series[0].points == tuple((point["percentage"], point["loss"]) for point in curve)


def test_unread_kinds_make_the_answer_undecided(run: Run, write: Write) -> None:
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    code, out, _ = run("sampling", "web", "-f", write(*NODES, build_pod("web", volumes=[claim]), whole=False))
    assert code == 5
    assert "Not certain: the files may lack PersistentVolumeClaims" in out


@pytest.mark.parametrize("options", [["--kinds", "0"], ["--max-loss", "-1"], ["--max-loss", "nan"], ["no-such-pod"]])
def test_wrong_usage(run: Run, write: Write, options: list[str]) -> None:
    code, out, err = run("sampling", *options, "-f", write(*NODES, build_pod("web")))
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
