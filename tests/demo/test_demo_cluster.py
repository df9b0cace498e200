"""Check that the demo cluster's JSON is up to date."""

from __future__ import annotations

from demo_cluster import read_as_json

from kschedctl import demo


def test_demo_cluster_equals_its_yaml_source() -> None:
    (file,) = demo.list_files()
    assert file.read_text() == read_as_json(), "run python tests/demo_cluster.py"
