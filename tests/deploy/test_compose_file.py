"""compose.yaml names what is there."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from catalog.model.roles import RoleRule
from catalog.settings import Settings
from tests.deploy.composed import COMPOSE, NODES, copy_of_secrets, secrets, services
from tests.deploy.files import DEPLOY, MONITORING, ROOT, read_yaml

_REQUIRED = re.compile(r"\$\{(\w+):\?run sh deploy/compose/secrets.sh first\}")
# Two dollars are one that is for the shell of a container.
_TAKEN = re.compile(r"(?<!\$)\$\{?\w")

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
        built = ROOT / service["build"]["context"] / service["build"]["dockerfile"]
        assert f" AS {service['build']['target']}\n" in built.read_text()
    else:
        assert re.fullmatch(r"[a-z./]+:v?[\d.]+", service["image"])


@each_service
def test_the_variables_of_a_service_are_settings(service: dict[str, Any]) -> None:
    given = {name for name in service.get("environment", ()) if name.startswith("CONCORD_")}
    assert given <= {f"CONCORD_{name.upper()}" for name in Settings.model_fields}


@each_service
def test_a_service_has_no_privileges_and_writes_only_what_is_its_own(
    service: dict[str, Any],
) -> None:
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    assert "cap_add" not in service
    assert service["security_opt"] == ["no-new-privileges:true"]


def test_only_those_are_in_a_network_who_need_each_other() -> None:
    networks = read_yaml(COMPOSE)["networks"]
    members: dict[str, set[str]] = {name: set() for name in networks}
    for name, service in services().items():
        assert "networks" in service or service["network_mode"] == "none", name
        for network in service.get("networks", ()):
            members[network].add(name)
    assert members["database"] == {"postgres", *NODES}
    assert members["broker"] == {"kafka", *NODES}
    assert members["monitoring"] == {"prometheus", "grafana"}
    assert networks["database"]["internal"]
    assert networks["broker"]["internal"]
    for inner in ("postgres", "kafka", "grafana"):
        assert len(services()[inner]["networks"]) == 1


def test_there_is_no_secret_before_a_command_makes_random_ones(tmp_path: Path) -> None:
    text = COMPOSE.read_text()
    required = {*_REQUIRED.findall(text)}
    assert len(_TAKEN.findall(text)) == len(_REQUIRED.findall(text)), "each is required"
    copy_of_secrets(tmp_path)
    made = dict(line.split("=", 1) for line in (tmp_path / ".env").read_text().splitlines())
    assert made.keys() == required
    assert all(re.fullmatch("[0-9a-f]{48}", each) for each in made.values())
    assert len({*made.values(), *secrets().values()}) == 2 * len(required)
    assert (tmp_path / ".env").stat().st_mode & 0o077 == 0
    with pytest.raises(subprocess.CalledProcessError):
        copy_of_secrets(tmp_path)
    assert (tmp_path / ".env").read_text().count("\n") == len(required)


def test_the_realm_locks_an_account_whose_password_is_guessed() -> None:
    realm = json.loads((DEPLOY / "compose" / "realm.json").read_text())
    assert realm["bruteForceProtected"]
    assert realm["failureFactor"] <= 10


def test_the_profiles_add_to_three_nodes_that_start_without_any() -> None:
    without = {name for name, service in services().items() if "profiles" not in service}
    assert without == {*NODES, "postgres", "keycloak", "certificates", "links"}
    assert all("full" in each["profiles"] for each in services().values() if "profiles" in each)


@pytest.mark.parametrize("place", [MONITORING, DEPLOY / "compose"], ids=lambda path: path.name)
def test_prometheus_scrapes_each_node_under_its_name(place: Path) -> None:
    scraped = {}
    for job in read_yaml(place / "prometheus.yml")["scrape_configs"]:
        assert job.keys() & {"authorization", "oauth2"}, "nodes ask who is there"
        for each in job["static_configs"]:
            assert each["labels"].get("job", job["job_name"]) == "concord"
            scraped[each["labels"]["node"]] = each["targets"]
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
