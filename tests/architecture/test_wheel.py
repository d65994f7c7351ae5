"""The wheels of the catalog and of its client share the package `catalog`, file by file."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CLIENT = ROOT / "deploy" / "client"


def build(project: Path, target: str, directory: Path) -> Path:
    before = {*directory.iterdir()}
    command = [sys.executable, "-m", "hatchling", "build", "--target", target]
    subprocess.run(
        [*command, "--directory", str(directory)], cwd=project, check=True, capture_output=True
    )
    [built] = {*directory.iterdir()} - before
    return built


def files(wheel: Path) -> set[str]:
    """The files of a wheel that are not about the distribution."""
    with zipfile.ZipFile(wheel) as opened:
        return {name for name in opened.namelist() if ".dist-info/" not in name}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> tuple[set[str], set[str]]:
    """The files of the catalog's wheel, and of the client's."""
    directory = tmp_path_factory.mktemp("wheels")
    return files(build(ROOT, "wheel", directory)), files(build(CLIENT, "wheel", directory))


def test_each_file_is_in_one_of_the_two_wheels(wheels: tuple[set[str], set[str]]) -> None:
    catalog, client = wheels
    assert catalog & client == set()
    packages = (each for name in ("catalog", "replication") for each in (ROOT / name).rglob("*"))
    present = {each.relative_to(ROOT).as_posix() for each in packages if each.is_file()}
    assert catalog | client == {each for each in present if "__pycache__" not in each}


def test_both_packages_say_that_they_have_types(wheels: tuple[set[str], set[str]]) -> None:
    catalog, client = wheels
    assert "replication/py.typed" in catalog
    assert "catalog/py.typed" in client


def test_the_source_distribution_of_the_client_builds_the_same_wheel(
    wheels: tuple[set[str], set[str]], tmp_path: Path
) -> None:
    archive = build(CLIENT, "sdist", tmp_path)
    with tarfile.open(archive) as opened:
        opened.extractall(tmp_path / "unpacked", filter="data")
    [project] = (tmp_path / "unpacked").iterdir()
    assert files(build(project, "wheel", tmp_path)) == wheels[1]


def test_the_versions_of_the_two_move_together() -> None:
    catalog, client = (
        tomllib.loads((project / "pyproject.toml").read_text())["project"]
        for project in (ROOT, CLIENT)
    )
    assert client["version"] == catalog["version"]
    assert f"{client['name']}=={client['version']}" in catalog["dependencies"]
    own = {each for each in client["dependencies"] if each in catalog["dependencies"]}
    assert own == {*client["dependencies"]}, "the same bounds"
