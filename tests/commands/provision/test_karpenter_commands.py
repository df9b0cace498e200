"""Check ``provision`` and ``consolidate`` on a case that the real Karpenter answered."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Run
from golden_cases import Json, iter_family_lines
from karpenter_cases import build_objects

import kschedctl


def find_smallest_case(family: str, wanted: str) -> Json:
    """Return the smallest case whose answer has something under a key."""
    cases = (json.loads(line) for line in iter_family_lines(f"autoscaling/{family}"))
    found: Json = min(
        (each for each in cases if each["answer"].get(wanted)), key=lambda each: len(json.dumps(each["input"]))
    )
    return found


def write_case_files(tmp_path: Path, given: Json) -> tuple[str, ...]:
    """Write the cluster and the instance types."""
    cluster, types = tmp_path / "cluster.json", tmp_path / "types.json"
    cluster.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": build_objects(given)}))
    types.write_text(json.dumps(given["instanceTypes"]))
    return "-f", str(cluster), "--instance-types", str(types), "--assume-complete"


def build_options(given: Json) -> list[str]:
    options = dict(given["options"])
    gates = options.pop("featureGates", {})
    pairs = [*options.items(), *((name, str(on).lower()) for name, on in gates.items())]
    return [text for name, value in pairs for text in ("--karpenter", f"{name}={value}")]


def test_provision_gives_the_answer_of_the_function(run: Run, tmp_path: Path) -> None:
    given = find_smallest_case("provisioning", "podErrors")["input"]
    asked = ("provision", *write_case_files(tmp_path, given), *build_options(given))
    done = run(*asked, "-o", "json")
    assert done.code == 1
    answer = json.loads(done.out)
    cluster = kschedctl.Cluster.from_objects(build_objects(given))
    expected = kschedctl.provision(cluster, given["instanceTypes"], given["options"], now=given["now"]).to_dict()
    assert (answer["kind"], answer["seenTypes"]) == ("Provisioning", None)
    assert answer == expected
    out = run(*asked).out
    assert out.startswith("Karpenter would launch")
    assert all(word in out for word in ("What stops each NodePool", "Pods without a new node", "in Karpenter's words"))
    assert "(counts = " not in out


def test_types_of_existing_nodes_decide_nothing(run: Run, tmp_path: Path) -> None:
    given = find_smallest_case("provisioning", "podErrors")["input"]
    done = run("provision", *write_case_files(tmp_path, given)[:2], "--assume-complete")
    assert done.code == 5
    assert "no instance type is known, so some may fit" in " ".join(done.out.split())
    assert "$" not in done.out


def test_unread_kinds_are_named_first(run: Run, tmp_path: Path) -> None:
    """Files without DaemonSets do not prove that none exist."""
    given = find_smallest_case("provisioning", "newNodeClaims")["input"]
    given = {key: value for key, value in given.items() if key != "daemonSets"}
    done = run("provision", *write_case_files(tmp_path, given)[:-1])
    assert done.code == 5
    assert done.out.startswith("Not certain: ")
    assert "DaemonSets" in done.out.splitlines()[0]


def test_nodes_that_karpenter_would_remove(run: Run, tmp_path: Path) -> None:
    cases = [json.loads(line) for line in iter_family_lines("autoscaling/disruption")]
    given = next(each["input"] for each in cases if each["answer"]["single"]["commands"])
    asked = ("consolidate", "--autoscaler", "karpenter", *write_case_files(tmp_path, given), *build_options(given))
    answer = json.loads(run(*asked, "-o", "json").out)
    assert answer["kind"] == "Disruption"
    assert [each["node"] for each in answer["fates"] if each["fate"] != "stays"]
    managed = {claim["status"].get("nodeName") for claim in given["nodeClaims"]}
    assert {each["node"] for each in answer["fates"]} <= managed | {c["metadata"]["name"] for c in given["nodeClaims"]}
    out = run(*asked).out
    assert "Each node on its own, regardless of budgets" in out
    assert "saving $" in out or "removes no nodes" in out


def test_removable_nodes_compared_with_karpenters(run: Run, tmp_path: Path) -> None:
    cases = [json.loads(line) for line in iter_family_lines("autoscaling/disruption")]
    given = next(each["input"] for each in cases if each["answer"]["single"]["commands"])
    asked = (*write_case_files(tmp_path, given), *build_options(given))
    alone = json.loads(run("consolidate", "--autoscaler", "karpenter", *asked, "-o", "json").out)
    both = json.loads(run("consolidate", "--compare", "karpenter", *asked, "-o", "json").out)
    first = next(
        alone[name]["commands"] for name in ("emptiness", "drift", "multi", "single") if alone[name]["commands"]
    )
    taken = {name for command in first for name in command["candidates"]}
    replaced = {name for command in first if command["replacements"] for name in command["candidates"]}
    assert both["kind"] == "Consolidation"
    told = {each["node"]: each["autoscaler"] for each in (*both["removable"], *both["staying"])}
    assert {name for name, said in told.items() if said == "removes it"} == (taken - replaced) & told.keys()
    assert {name for name, said in told.items() if said.startswith("replaces it with ")} == replaced & told.keys()
    verb = "replaces" if taken == replaced else "removes"
    assert both["autoscaler"].startswith(f"Karpenter {verb} {len(taken)} node")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("consolidate", "--autoscaler", "karpenter", "--demo"), "--instance-types FILE"),
        (("consolidate", "--compare", "karpenter", "--demo"), "--instance-types FILE"),
        (("consolidate", "--compare", "karpenter", "--demo", "--instance-types", "CLUSTER"), "no Karpenter NodePools"),
        (("consolidate", "--demo", "--headroom", "much"), "not a percentage"),
        (("consolidate", "--demo", "--headroom", "100%"), "not a percentage"),
        (("consolidate", "--demo", "--headroom-for", "nowhere.yaml"), "nowhere.yaml"),
        (("consolidate", "--demo", "--pool", "nowhere"), 'pool "nowhere" not found'),
        (("consolidate", "--demo", "--autoscaler", "mine"), "karpenter"),
        (("provision", "--demo"), "no Karpenter NodePools"),
        (("provision", "-f", "CLUSTER", "--karpenter", "speed=9"), "known: preferencePolicy"),
        (("provision", "-f", "CLUSTER", "--karpenter", "NodeOverlay=maybe"), "needs SETTING=VALUE"),
        (("provision", "-f", "CLUSTER", "--karpenter", "preferencePolicy=Maybe"), "preferencePolicy"),
        (("provision", "-f", "CLUSTER", "--instance-types", "nowhere.json"), "nowhere.json"),
        (("provision", "-f", "CLUSTER", "--instance-types", "CLUSTER"), "no instance types"),
    ],
)
def test_invalid_options_are_errors(run: Run, tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    cluster = write_case_files(tmp_path, find_smallest_case("provisioning", "newNodeClaims")["input"])[1]
    done = run(*(cluster if each == "CLUSTER" else each for each in arguments))
    assert done.code == 2
    assert message in done.err
    assert len(done.err.splitlines()) == 1


def test_invalid_type_is_reported_with_its_file(run: Run, tmp_path: Path) -> None:
    offering = {"Price": "cheap", "Available": True, "Requirements": []}
    (tmp_path / "bad.json").write_text(json.dumps([{"name": "a", "resources": {}, "offerings": [offering]}]))
    cluster = write_case_files(tmp_path, find_smallest_case("provisioning", "newNodeClaims")["input"])[1]
    done = run("provision", "-f", cluster, "--instance-types", str(tmp_path / "bad.json"))
    said = f"error: {tmp_path}/bad.json: instanceTypes[0]: Expected `float`, got `str` - at `$.offerings[0].Price`\n"
    assert (done.code, done.err) == (2, said)


def test_folder_of_types(run: Run, tmp_path: Path) -> None:
    given = find_smallest_case("provisioning", "newNodeClaims")["input"]
    half = len(given["instanceTypes"]) // 2
    folder = tmp_path / "types"
    folder.mkdir()
    (folder / "a.json").write_text(json.dumps(given["instanceTypes"][:half]))
    (folder / "b.json").write_text(json.dumps(given["instanceTypes"][half:]))
    (folder / "notes.txt").write_text("no types")
    whole = write_case_files(tmp_path, given)
    parted = (*whole[:3], str(folder), *whole[4:])
    assert run("provision", *parted, "-o", "json").out == run("provision", *whole, "-o", "json").out


def test_explanation_says_if_a_node_would_be_launched(run: Run, tmp_path: Path) -> None:
    """Each pool has the answer of the real Karpenter about the pod."""
    cases = [json.loads(line) for line in iter_family_lines("autoscaling/provisioning")]
    found = 0
    for each in cases[:40]:
        given, pools = each["input"], each["answer"].get("perPool") or {}
        if not given.get("nodes") or not pools:
            continue
        pod = next(iter(pools))
        done = run(
            "explain", pod, *write_case_files(tmp_path, given), *build_options(given), "--no-remedies", "-o", "json"
        )
        new = json.loads(done.out)["newNode"]
        if new is None:
            assert done.code != 1  # kube-scheduler has a place for it, or would make one
            continue
        takes = {name: bool(answer.get("instanceTypes")) for name, answer in pools[pod].items()}
        assert {verdict["pool"]: verdict["takes"] for verdict in new["pools"]} == takes
        found += 1
    assert found >= 3


def test_section_in_the_page(run: Run, tmp_path: Path) -> None:
    given = find_smallest_case("provisioning", "podErrors")["input"]
    out = run("explain", "-f", write_case_files(tmp_path, given)[1], "-A", "--assume-complete").out
    assert "Would a new node be added?" not in out  # of many pods a summary is given
