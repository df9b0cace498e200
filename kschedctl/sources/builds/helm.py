"""Rendering of Helm charts, with the template that each object comes from."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from kschedctl.errors import InputError
from kschedctl.sources.builds.build import BuiltObject, find_program, run_program
from kschedctl.sources.documents.documents import load_content, load_documents
from kschedctl.sources.documents.files import STDIN, make_relative_path
from kschedctl.sources.documents.positions import parse_objects

CHART = "Chart.yaml"
_CHART_FOLDERS = ("templates", "charts", "crds")
_FIELD = re.compile(r"[ \t-]*+([A-Za-z][\w./-]*+):")


@dataclass(frozen=True)
class HelmRender:
    """The rendering of the chart in a folder by a command."""

    folder: str
    command: Sequence[str]

    @property
    def name(self) -> str:
        """The chart's description file, as messages name it."""
        return make_relative_path(os.path.join(self.folder, CHART))

    @cached_property
    def source_files(self) -> frozenset[str]:
        """The absolute paths of the chart's templates, subcharts and CRDs, its description and its values."""
        paths = {os.path.join(self.folder, entry) for entry in os.listdir(self.folder) if _is_chart_file(entry)}
        for own_folder in _CHART_FOLDERS:
            for parent, _subfolders, names in os.walk(os.path.join(self.folder, own_folder)):
                paths |= {os.path.join(parent, name) for name in names}
        return frozenset(map(os.path.abspath, paths))

    def build_objects(self) -> Iterator[BuiltObject]:
        """Render the chart and yield its objects, except tests.

        The release is named after the folder. Raises InputError with Helm's message if rendering fails.
        """
        folder_name = os.path.basename(self.folder).lower()
        release = re.sub(r"[^a-z0-9-]", "-", folder_name).strip("-")[:40] or "release"
        content = run_program([*self.command, release, self.folder, "--skip-tests"], self.name)
        lines_by_template: dict[str, dict[str, int]] = {"": {}}  # "" if the template is unknown
        for manifest in parse_objects(self.name, content):
            template = self._find_template(manifest.source)
            if template not in lines_by_template:
                lines_by_template[template] = _find_unique_lines(template)
            yield BuiltObject(
                manifest.value,
                build=make_relative_path(self.folder),
                file=make_relative_path(template) if template else self.name,
                source=manifest.source,
                lines=lines_by_template[template],
            )

    def _find_template(self, source: str) -> str:
        """Return the path of the template that Helm names as ``chart/templates/web.yaml``.

        Return "" if the file does not exist, is in a packed chart, or is outside of the chart's folder.
        """
        path = os.path.join(self.folder, *source.split("/")[1:])
        is_inside = os.path.abspath(path).startswith(os.path.abspath(self.folder) + os.sep)
        return path if source and is_inside and os.path.isfile(path) else ""


def find_helm_renders(files: Collection[str], values: Sequence[str] = (), kube_version: str = "") -> list[HelmRender]:
    """Return the renderings of the charts among the files, except subcharts and library charts.

    ``values`` are files with values for the charts. ``kube_version`` is the Kubernetes version that the charts see, or
    "" for Helm's default. Raises UsageError if helm is not installed.
    """
    command = [*find_program("--helm", ("helm", "template"))]
    for file in values:
        command += ["--values", file]
    if kube_version:
        command += ["--kube-version", kube_version]
    chart_files = [file for file in files if file != STDIN and os.path.basename(file) == CHART]
    chart_folders = {os.path.dirname(os.path.abspath(file)) for file in chart_files}
    charts = sorted(folder for folder in chart_folders if not _is_subchart(folder) and not _is_library_chart(folder))
    return [HelmRender(folder, command) for folder in charts]


def _is_chart_file(entry: str) -> bool:
    """Return whether an entry of a chart's folder is a file of the chart itself."""
    return entry in (CHART, "Chart.lock") or (entry.startswith("values") and entry.endswith((".yaml", ".yml", ".json")))


def _is_subchart(folder: str) -> bool:
    """Return whether the folder is a subchart of another chart."""
    parent = os.path.dirname(folder)
    return os.path.basename(parent) == "charts" and os.path.isfile(os.path.join(os.path.dirname(parent), CHART))


def _is_library_chart(folder: str) -> bool:
    """Return whether the chart is a library, which Helm does not render.

    Return False for an unreadable chart, so that Helm reports the error.
    """
    try:
        documents: list[object] = [document.value for document in load_documents(os.path.join(folder, CHART))]
    except InputError:  # Helm says what is wrong with it
        return False
    return any(isinstance(value, Mapping) and value.get("type") == "library" for value in documents)


def _find_unique_lines(template: str) -> dict[str, int]:
    """Return the line of each field that occurs exactly once in a template.

    Return {} if the template cannot be read.
    """
    try:
        lines = load_content(template).text.splitlines()
    except InputError:
        return {}
    matches = [(_FIELD.match(line), number) for number, line in enumerate(lines, 1)]
    fields = [(match[1], number) for match, number in matches if match]
    counts = Counter(field for field, _ in fields)
    return {field: line for field, line in fields if counts[field] == 1}
