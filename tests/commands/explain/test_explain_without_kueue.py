"""Check that `explain` loads Kueue's replay only for clusters with objects of Kueue."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from kueue_objects import NODES, QUEUES, build_manifest

from kschedctl.api.json_values import JsonObject

_EXPLAIN = """
import sys
from kschedctl.__main__ import main
try:
    main()
except SystemExit:
    pass
print(any(name.startswith("kschedctl.kueue") for name in sys.modules))
"""


@pytest.mark.parametrize(("queues", "is_loaded"), [((), False), (QUEUES, True)])
def test_kueue_is_loaded_only_for_clusters_with_its_objects(
    tmp_path: Path, queues: tuple[JsonObject, ...], is_loaded: bool
) -> None:
    manifest = tmp_path / "cluster.json"
    manifest.write_text(json.dumps({"kind": "List", "items": [*NODES, *queues, build_manifest(1, 1)]}))
    command = [sys.executable, "-c", _EXPLAIN, "explain", "-f", str(manifest), "job/train", "-n", "ai"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.stdout.splitlines()[-1] == str(is_loaded), result.stderr
