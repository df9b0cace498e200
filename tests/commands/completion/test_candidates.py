"""Check completed names: whose they are, their order, their speed, and silence on errors."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from command_line import Run, Write, build_node, build_pod

from kschedctl.cli import completing
from kschedctl.cli.completing import iter_candidates, run_with_time_limit
from kschedctl.errors import InputError

PODS = (
    build_pod("web-1", nodeName="n1"),
    build_pod("web-2"),
    build_pod("ended") | {"status": {"phase": "Succeeded"}},
    build_pod("cart", namespace="shop"),
    build_pod("runs", namespace="shop", nodeName="n1"),
)


def list_candidates(*words: str) -> list[str]:
    return list(iter_candidates(words[0], words[1:]))


@pytest.fixture(params=["json", "yaml", "json.gz", "folder", "snapshot"])
def source(request: pytest.FixtureRequest, run: Run, write: Write, tmp_path: Path) -> list[str]:
    """Provide the same small cluster in each form."""
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 7}
    team = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
    file = write(build_node("n2"), build_node("n1"), *PODS, high, team)
    text = Path(file).read_text()
    if request.param == "snapshot":
        run("snapshot", "save", "-f", file, "-o", str(tmp_path / "x.ksnap"))
        return ["--snapshot", str(tmp_path / "x.ksnap")]
    path = tmp_path / f"cluster.{request.param}"
    if request.param == "folder":
        path.mkdir()
        (path / "a.json").write_text(text)
    else:
        data = yaml.safe_dump_all(json.loads(text)["items"]) if request.param == "yaml" else text
        path.write_bytes(gzip.compress(data.encode()) if path.suffix == ".gz" else data.encode())
    return ["-f", str(path)]


def test_names_of_each_kind(source: list[str]) -> None:
    assert list_candidates("pods", "explain", *source, "") == [
        *("web-2", "shop/cart"),  # pending ones
        *("ended", "web-1", "shop/runs"),
    ]
    assert list_candidates("pods", "explain", *source, "-n", "shop", "") == ["cart", "runs"]
    assert list_candidates("pods", "explain", *source, "shop/r") == ["shop/runs"]
    assert list_candidates("nodes", "drain", *source, "") == ["n1", "n2"]
    assert list_candidates("namespaces", "explain", *source, "-n", "") == ["default", "shop", "team"]
    assert list_candidates("priority-classes", "explain", *source, "--as-if-priority-class", "h") == ["high"]


def test_options_with_attached_values(write: Write) -> None:
    file = write(*PODS)
    assert list_candidates("pods", "explain", f"--filename={file}", "--namespace=shop", "c") == ["cart"]
    assert list_candidates("nodes", "drain", "--demo", "general-a")[0] == "general-a1"


def test_rules_and_names_of_a_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "pdb-missing" in list_candidates("rules", "lint", "--select", "pdb-")
    first = {"contexts": [{"name": "prod"}, {"name": "arn:aws:eks:eu:1:cluster/x"}], "users": [{"name": "me"}]}
    (tmp_path / "a").write_text(json.dumps(first))
    (tmp_path / "b").write_text(json.dumps({"contexts": [{"name": "dev"}], "clusters": [{"name": "c"}]}))
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'a'}{os.pathsep}{tmp_path / 'b'}{os.pathsep}/nope")
    assert list_candidates("contexts", "explain", "--context", "") == ["prod", "arn:aws:eks:eu:1:cluster/x", "dev"]
    assert list_candidates("users", "explain", "--user", "") == ["me"]
    assert list_candidates("contexts", "explain", "--kubeconfig", str(tmp_path / "b"), "--context", "") == ["dev"]


def test_names_that_a_shell_would_run_are_left_out(write: Write) -> None:
    assert list_candidates(
        "pods", "explain", "-f", write(build_pod("$(id)"), build_pod("a;b"), build_pod("`id`"), build_pod("fine")), ""
    ) == ["fine"]


@pytest.mark.parametrize("words", [["explain", "-f", "nope", ""], ["drain", "--snapshot", "x", ""]])
def test_errors_are_silent(run: Run, words: list[str]) -> None:
    assert run("__complete", *words) == (0, ":36\n", "")
    assert run("__complete", "nothing", "such") == (0, ":4\n", "")


def test_nested_aliases_are_rejected(tmp_path: Path) -> None:
    """Six levels of ten aliases are a million pods. The file is rejected as by every command."""
    lists = [f"- &l{i} {{kind: List, items: [{', '.join([f'*l{i - 1}'] * 10)}]}}" for i in range(1, 7)]
    first = "- &l0 {kind: Pod, metadata: {name: many}}"
    (tmp_path / "few.yaml").write_text("\n".join(["kind: List", "items:", first, *lists[:1]]))
    (tmp_path / "many.yaml").write_text("\n".join(["kind: List", "items:", first, *lists]))
    assert set(list_candidates("pods", "explain", "-f", str(tmp_path / "few.yaml"), "")) == {"many"}
    with pytest.raises(InputError, match="excessive aliasing"):
        list_candidates("pods", "explain", "-f", str(tmp_path / "many.yaml"), "")


def test_work_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is CPU time or, while waiting for a disk or a server, elapsed time."""

    def stuck() -> str:
        while True:
            pass

    def waiting() -> str:
        time.sleep(600)
        return "late"

    monkeypatch.setattr("kschedctl.cli.completing.MAX_SECONDS", 600)
    assert run_with_time_limit(0.1, stuck) == ""
    monkeypatch.setattr("kschedctl.cli.completing.MAX_SECONDS", 0.1)
    assert run_with_time_limit(600, waiting) == ""


def test_waiting_for_the_processor_is_not_counted() -> None:
    """On a busy machine, the work takes more elapsed time than its limit of CPU time."""

    def delayed() -> str:
        time.sleep(0.5)
        return "web-2"

    assert run_with_time_limit(0.2, delayed) == "web-2"


def test_truncated_output_is_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """The names are more than a pipe holds, and they are read only after the process was killed."""
    read = completing._read_until_closed

    def late(reader: int) -> bytes | None:
        time.sleep(0.3)
        return read(reader)

    def many() -> str:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        return "web-2\n" * 100_000

    monkeypatch.setattr(completing, "_read_until_closed", late)
    assert run_with_time_limit(30, many) == ""


def test_results_of_the_worker_process() -> None:
    assert run_with_time_limit(30, lambda: "x" * 100_000) == "x" * 100_000
    assert run_with_time_limit(30, lambda: str(1 // 0)) == ""


def test_completion_imports_nothing_heavy() -> None:
    heavy = "numpy", "rich", "kubernetes", "urllib3", "kschedctl.api.objects", "kschedctl.scheduler"
    code = f"""if True:
        import sys
        from kschedctl.cli import completing
        assert list(completing.iter_candidates("pods", ["explain", "--demo", ""]))
        print({{*{heavy}}} & sys.modules.keys())
    """
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"
