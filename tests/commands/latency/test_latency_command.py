"""Check ``kschedctl latency`` and the audit section with the same metrics."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
from metrics_server import MetricsServer, serve_metrics
from metrics_texts import write_attempts, write_extension_point, write_plugin, write_queues, write_sample

from kschedctl.cli.main import main

SOUND = write_attempts({0.005: 1000}) + write_queues(active=0)
SLOW = write_attempts({0.5: 1000}) + write_queues(active=0)


@pytest.fixture
def sound(tmp_path: Path) -> str:
    (tmp_path / "sound.txt").write_text(SOUND)
    return str(tmp_path / "sound.txt")


@pytest.fixture
def slow(tmp_path: Path) -> str:
    (tmp_path / "slow.txt").write_text(SLOW)
    return str(tmp_path / "slow.txt")


def test_the_first_line_answers(sound: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["latency", "--metrics", sound]) == 0
    assert " ".join(capsys.readouterr().out.split()).startswith(
        "Attempts (scheduled, default-scheduler) are within the target of 100 ms: P50 6 ms, P90 7.6 ms, P99 7.96 ms"
    )


@pytest.mark.parametrize(("options", "code"), [([], 1), (["--fail-on", "never"], 0), (["--target", "1s"], 0)])
def test_slow_attempts_fail_from_the_given_severity_and_target(slow: str, options: list[str], code: int) -> None:
    assert main(["latency", "--metrics", slow, *options]) == code


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(SOUND.encode())))
    assert main(["latency", "--metrics", "-"]) == 0
    assert "standard input: since the scheduler started" in capsys.readouterr().out


def test_two_texts_give_rates_over_the_time_between_them(
    sound: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    newer = tmp_path / "newer.txt"
    newer.write_text(write_attempts({0.005: 1600}) + write_queues(active=0))
    options = ["--metrics", sound, "--metrics", str(newer), "--window", "5m", "-o", "json"]
    assert main(["latency", *options]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["period"] == "between the two readings"
    assert document["results"] == [
        {"labels": {"result": "scheduled", "profile": "default-scheduler"}, "count": 600.0, "perSecond": 2.0}
    ]


def test_prometheus_is_queried_for_the_window(capsys: pytest.CaptureFixture[str]) -> None:
    body = json.dumps({"status": "success", "data": {"resultType": "vector", "result": []}}).encode()
    with serve_metrics(MetricsServer(lambda path, query: (200, body))) as server:
        code = main(["latency", "--prometheus", server.url, "--window", "5m"])
    assert code == 2
    assert "no metrics of kube-scheduler" in capsys.readouterr().err
    assert all("%5B300s%5D" in path for _, path, _ in server.asked if "increase" in path)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], "no metrics given"),
        (["--metrics", "a", "--prometheus", "http://p"], "cannot be combined"),
        (["--metrics", "a", "--prometheus-labels", 'job="a"'], "needs --prometheus"),
        (["--metrics", "http://p", "--window", "2h"], "must be between 1s and 3,600s"),
        (["--metrics", "a", "--target", "fast"], '--target: "fast" is not a duration'),
        (["--metrics", "a", "--target", "0"], '--target: "0" must be more than 0'),
        (["--metrics", "no/such/file"], "no such file"),
    ],
)
def test_contradictory_options_are_errors_of_one_line(
    options: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["latency", *options]) == 2
    told = capsys.readouterr().err
    assert expected in told
    assert told.count("\n") == 1


def test_api_server_proxy_is_read_with_the_kubeconfig(tmp_path: Path) -> None:
    path = "/api/v1/namespaces/kube-system/pods/https:kube-scheduler-a:10259/proxy/metrics"
    with serve_metrics(MetricsServer(lambda path, query: (200, SOUND.encode()))) as server:
        kubeconfig = {
            "current-context": "here",
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
            "clusters": [{"name": "here", "cluster": {"server": server.url}}],
            "users": [{"name": "me", "user": {"token": "t0ken"}}],
        }
        (tmp_path / "config").write_text(json.dumps(kubeconfig))
        options = ["--kubeconfig", str(tmp_path / "config")]
        assert main(["latency", "--metrics", f"{server.url}{path}", *options]) == 0
        assert main(["latency", "--metrics", f"{server.url}/metrics", *options]) == 0
    proxied, direct = server.asked
    assert (proxied[1], proxied[2]["authorization"]) == (path, "Bearer t0ken")
    assert (direct[1], direct[2].get("authorization")) == ("/metrics", None)


def test_labels_without_distinction_are_only_in_wide_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "metrics.txt"
    file.write_text(SOUND + write_extension_point("Filter", {0.001: 5}) + write_extension_point("Score", {0.001: 5}))
    for options, shown in (([], False), (["-o", "wide"], True)):
        assert main(["latency", "--metrics", str(file), *options]) == 0
        assert ("PROFILE" in capsys.readouterr().out) == shown


def test_names_in_metrics_cannot_control_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "metrics.txt"
    file.write_text(SOUND + write_sample("scheduler_pending_pods", 1, queue="\x1b[31mred[/]"))
    assert main(["latency", "--metrics", str(file), "-o", "wide"]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_audit_has_the_section_if_metrics_are_given(slow: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "--demo", "--section", "latency", "--metrics", slow, "-o", "json"]) == 1
    (section,) = json.loads(capsys.readouterr().out)["sections"]
    assert (section["name"], section["state"]) == ("latency", "findings")
    assert main(["audit", "--demo", "-o", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert "latency" not in {section["name"] for section in document["sections"]}
    assert "latency" in document["notAsked"]


def test_section_without_metrics_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "--demo", "--section", "latency"]) == 2
    assert "--section latency needs --metrics or --prometheus" in capsys.readouterr().err


def test_quantile_bound_far_below_the_mean_is_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The buckets of a plugin's time end at 22 ms, so the quantiles of ten runs of 14 s are unknown."""
    (tmp_path / "m.txt").write_text(SOUND + write_plugin("Slow", "Permit", {14.0: 10}))
    monkeypatch.setenv("COLUMNS", "240")
    main(["latency", "--metrics", str(tmp_path / "m.txt"), "-o", "wide"])
    line = next(each for each in capsys.readouterr().out.splitlines() if each.split()[:1] == ["Slow"])
    assert "14 s" in line
    assert "not known: above the last bucket, 22.2 ms" in line
    assert "≥" not in line


def test_demo_has_no_metrics(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(("latency", "--demo")) == 2
    assert "give a scheduler's metrics with --metrics FILE" in capsys.readouterr().err
