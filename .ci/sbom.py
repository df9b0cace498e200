"""What a wheel is made of, as CycloneDX 1.6 in its ``.dist-info/sboms`` (PEP 770): the build asks for it.

It is the same for the same sources: neither a time nor a serial number is in it. What was installed beside the wheel
when it was tried is in the file that ``.ci/package`` writes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NAME = "kschedctl.cdx.json"


class SbomHook(BuildHookInterface):
    """Adds it to wheels, but not to editable installations."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        core = self.metadata.core
        file = Path(self.directory) / NAME
        file.parent.mkdir(parents=True, exist_ok=True)
        document = bill_of_materials(core.name, self.metadata.version, core.license_expression, core.dependencies)
        file.write_text(json.dumps(document, indent=1) + "\n")
        build_data["sbom_files"].append(str(file))

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        (Path(self.directory) / NAME).unlink(missing_ok=True)


def bill_of_materials(name: str, version: str, license_id: str, requirements: Iterable[str]) -> dict[str, Any]:
    """The package, into which nothing of others is copied, and what it needs, in no version before it is installed."""
    own = f"pkg:pypi/{name}@{version}"
    needed = sorted({re.split(r"[^\w.-]", requirement)[0].lower().replace("_", "-") for requirement in requirements})
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": name,
                "version": version,
                "purl": own,
                "licenses": [{"license": {"id": license_id}}],
            }
        },
        "components": [
            {"type": "library", "bom-ref": f"pkg:pypi/{of}", "name": of, "purl": f"pkg:pypi/{of}"} for of in needed
        ],
        "dependencies": [
            {"ref": own, "dependsOn": [f"pkg:pypi/{of}" for of in needed]},
            *({"ref": f"pkg:pypi/{of}"} for of in needed),
        ],
    }
