"""Build the demo cluster's JSON, one object per line, from the YAML that people edit.

``python tests/demo_cluster.py`` writes it. A YAML parser is then imported for nobody.
"""

from __future__ import annotations

import json

from kschedctl.demo import FOLDER
from kschedctl.sources.read import read_documents

WRITTEN = FOLDER / "cluster.yaml"


def read_as_json() -> str:
    """Return the only List of the YAML file as JSON, with one object per line."""
    (listed,) = read_documents(str(WRITTEN))
    items = listed.pop("items")
    assert isinstance(items, list)
    lines = ",\n".join(json.dumps(item, separators=(",", ":"), ensure_ascii=False) for item in items)
    return f'{json.dumps(listed)[:-1]}, "items": [\n{lines}\n]}}\n'


if __name__ == "__main__":
    (FOLDER / "cluster.json").write_text(read_as_json(), encoding="utf-8")
