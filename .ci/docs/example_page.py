"""The page with the files of tests/examples, which people copy."""

from __future__ import annotations

from pathlib import Path

EXAMPLES = {
    "ci-gate.sh": "A CI gate",
    "nightly-audit.yaml": "A nightly audit",
    "headroom.py": "A notebook that plots headroom",
    "mcp-session.py": "A session of an agent",
    "alerts.yaml": "Alerts for Prometheus",
}
"""File of tests/examples -> its heading."""
LANGUAGES = {".sh": "sh", ".yaml": "yaml", ".py": "python"}


def build_example_page(folder: Path) -> str:
    """Build the page. Raises SystemExit if the folder has other files than `EXAMPLES`."""
    files = {path.name for path in folder.iterdir() if path.suffix in LANGUAGES and not path.name.startswith("test_")}
    if files != EXAMPLES.keys():
        raise SystemExit(f"{Path(__file__).name} does not list {sorted(files ^ EXAMPLES.keys())}")
    parts = [
        "# Examples to copy",
        "Each file is run by the tests of kschedctl. The first lines of a file say how to use it.",
    ]
    for name, heading in EXAMPLES.items():
        path = folder / name
        parts += [f"## {heading}", f"`{name}`", f"```{LANGUAGES[path.suffix]}\n{path.read_text().rstrip()}\n```"]
    return "\n\n".join(parts)
