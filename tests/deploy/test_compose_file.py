"""compose.yaml names what is there."""

from __future__ import annotations

import re
from typing import Any

import pytest

from catalog.config import Settings
from tests.deploy.composed import COMPOSE, NODES, services
from tests.deploy.files import DEPLOY, MONITORING, ROOT, read_yaml

_CONTAINERFILE = (DEPLOY / "Containerfile").read_text()

each_service = pytest.mark.parametrize(
    "service", [pytest.param(service, id=name) for name, service in services().items()]
)


@each_service
def test_a_service_mounts_files_that_are_there_and_depends_on_others(
    service: dict[str, Any],
) -> None:
    for volume in service.get("volumes", ()):
        source = volume.split(":")[0]
        if source.startswith("."):
            assert (ROOT / source).exists(), source
        else:
            assert source in read_yaml(COMPOSE)["volumes"]
    assert service.get("depends_on", {}).keys() <= services().keys()
    for name in service.get("depends_on", ()):
        assert "healthcheck" in services()[name], f"{name} tells when it is ready"


@each_service
def test_a_service_is_published_on_loopback_only(service: dict[str, Any]) -> None:
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))


@each_service
def test_an_image_is_built_from_a_target_or_has_a_tag(service: dict[str, Any]) -> None:
    if "build" in service:
        assert f" AS {service['build']['target']}\n" in _CONTAINERFILE
        assert (ROOT / service["build"]["dockerfile"]).exists()
    else:
        assert re.fullmatch(r"[a-z/]+:v?[\d.]+", service["image"])


@each_service
def test_the_variables_of_a_service_are_settings(service: dict[str, Any]) -> None:
    given = {name for name in service.get("environment", ()) if name.startswith("CONCORD_")}
    assert given <= {f"CONCORD_{name.upper()}" for name in Settings.model_fields}


def test_the_profiles_add_to_three_nodes_that_start_without_any() -> None:
    without = {name for name, service in services().items() if "profiles" not in service}
    assert without == {*NODES, "postgres", "links"}
    assert all("full" in each["profiles"] for each in services().values() if "profiles" in each)


def test_prometheus_scrapes_each_node_under_its_name() -> None:
    [job] = read_yaml(MONITORING / "prometheus.yml")["scrape_configs"]
    scraped = {each["labels"]["node"]: each["targets"] for each in job["static_configs"]}
    assert scraped == {name: [f"{name}:8080"] for name in NODES}
