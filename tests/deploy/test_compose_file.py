"""compose.yaml names what is there."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from catalog.config import Settings
from catalog.rolerules import RoleRule
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
    for name, how in service.get("depends_on", {}).items():
        # Else it tells when it is ready.
        ends = how["condition"] == "service_completed_successfully"
        assert ends or "healthcheck" in services()[name], name


@each_service
def test_a_service_is_published_on_loopback_only(service: dict[str, Any]) -> None:
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))


@each_service
def test_an_image_is_built_from_a_target_or_has_a_tag(service: dict[str, Any]) -> None:
    if "build" in service:
        assert f" AS {service['build']['target']}\n" in _CONTAINERFILE
        assert (ROOT / service["build"]["dockerfile"]).exists()
    else:
        assert re.fullmatch(r"[a-z./]+:v?[\d.]+", service["image"])


@each_service
def test_the_variables_of_a_service_are_settings(service: dict[str, Any]) -> None:
    given = {name for name in service.get("environment", ()) if name.startswith("CONCORD_")}
    assert given <= {f"CONCORD_{name.upper()}" for name in Settings.model_fields}


def test_the_profiles_add_to_three_nodes_that_start_without_any() -> None:
    without = {name for name, service in services().items() if "profiles" not in service}
    assert without == {*NODES, "postgres", "keycloak", "certificates", "links"}
    assert all("full" in each["profiles"] for each in services().values() if "profiles" in each)


@pytest.mark.parametrize("place", [MONITORING, DEPLOY / "compose"], ids=lambda path: path.name)
def test_prometheus_scrapes_each_node_under_its_name(place: Path) -> None:
    [job] = read_yaml(place / "prometheus.yml")["scrape_configs"]
    scraped = {each["labels"]["node"]: each["targets"] for each in job["static_configs"]}
    assert scraped == {name: [f"{name}:8080"] for name in NODES}


def test_a_node_gives_the_roles_that_the_realm_has() -> None:
    realm = json.loads((DEPLOY / "compose" / "realm.json").read_text())
    roles = {each["name"] for each in realm["roles"]["realm"]}
    given = {role for user in realm["users"] for role in user["realmRoles"]}
    secrets = {client["secret"][2:-1] for client in realm["clients"] if "secret" in client}
    assert given <= roles
    assert secrets <= services()["keycloak"]["environment"].keys()
    for name in NODES:
        settings = services()[name]["environment"]
        rules = map(RoleRule.parse, settings["CONCORD_OIDC_ROLES"].split(","))
        assert {each for rule in rules for each in rule.names("realm_access.roles")} == roles
        assert settings["CONCORD_OIDC_AUDIENCES"] in str(realm["clientScopes"])
