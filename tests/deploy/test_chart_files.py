"""The chart's templates and values belong together, and name what a node has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from catalog.cli import app
from catalog.monitoring.health import routes
from catalog.settings import Settings
from tests.deploy.chart import CHART, TEMPLATES
from tests.deploy.files import DEPLOY, ROOT, read_yaml

_TEXT = "".join(path.read_text() for path in TEMPLATES)
_VALUES = read_yaml(CHART / "values.yaml")


def test_each_value_that_a_template_reads_is_there_and_each_one_there_is_read() -> None:
    read = {*re.findall(r"\.Values\.([\w.]+)", _TEXT)}
    given = {*_paths(_VALUES)}
    assert [path for path in read if path not in given] == []
    assert [path for path in given if not any(_is_within(path, each) for each in read)] == []


def _paths(values: dict[str, Any], before: str = "") -> Iterator[str]:
    for name, value in values.items():
        yield before + name
        if isinstance(value, dict):
            yield from _paths(value, f"{before}{name}.")


def _is_within(path: str, read: str) -> bool:
    return path == read or path.startswith(f"{read}.") or read.startswith(f"{path}.")


def test_templates_name_settings_paths_and_commands_that_a_node_has() -> None:
    settings = {f"CONCORD_{name.upper()}" for name in Settings.model_fields}
    assert {*re.findall(r"name: (CONCORD_\w+)", _TEXT)} <= settings
    paths = {route.operation.path for route in routes}
    assert {*re.findall(r"path: (/\w[\w/]*)", _TEXT)} <= paths
    started = {*re.findall(r"args:\s*(?:\[|- )(\w+)", _TEXT)}
    assert started == {"serve", "migrate", "reconcile", "backup"}
    assert started <= get_command(app).commands.keys()


def test_the_chart_has_the_version_of_the_package_and_runs_its_version_of_spark() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    chart = read_yaml(CHART / "Chart.yaml")
    assert f'version = "{chart["appVersion"]}"' in project
    lock = (ROOT / "requirements.lock").read_text()
    assert f"pyspark=={re.findall(r'sparkVersion: ([0-9.]+)', _TEXT)[0]} " in lock


def test_the_user_of_pods_is_that_of_the_image() -> None:
    [user] = re.findall(r"^USER (\d+):\1$", (DEPLOY / "Containerfile").read_text(), re.MULTILINE)
    assert {*re.findall(r"(?:runAsUser|runAsGroup|fsGroup): (\d+)", _TEXT)} == {user}
