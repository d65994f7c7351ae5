"""The units of systemd, as systemd reads them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from catalog.cli import app
from catalog.settings import Settings
from tests.deploy.files import DEPLOY

UNITS = sorted((DEPLOY / "systemd").glob("concord*.[st]*"))
SERVICES = [path for path in UNITS if path.suffix == ".service"]
PROGRAM = "/opt/concord/bin/concord"
# Of ten; systemd calls up to 2 OK.
MOST_EXPOSURE = "2.0"


def analyze(*arguments: str) -> str:
    path = shutil.which("systemd-analyze")
    if path is None:
        pytest.skip("systemd-analyze is missing: install it with apt-get install systemd")
    done = subprocess.run([path, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stderr


def test_systemd_finds_nothing_wrong(tmp_path: Path) -> None:
    for unit in UNITS:
        # The program has to be there.
        (tmp_path / unit.name).write_text(unit.read_text().replace(PROGRAM, sys.executable))
    assert analyze("verify", *(str(tmp_path / unit.name) for unit in UNITS)) == ""


@pytest.mark.parametrize("service", SERVICES, ids=lambda path: path.name)
def test_a_service_is_confined(service: Path) -> None:
    threshold = str(round(float(MOST_EXPOSURE) * 10))
    analyze("security", "--offline=true", f"--threshold={threshold}", str(service))


@pytest.mark.parametrize("service", SERVICES, ids=lambda path: path.name)
def test_a_service_runs_a_command_that_is_there(service: Path) -> None:
    [command] = re.findall(rf"^ExecStart={PROGRAM} (\w+)", service.read_text(), re.MULTILINE)
    assert command in get_command(app).commands


def test_the_variables_of_the_example_are_settings() -> None:
    text = (DEPLOY / "systemd" / "concord.env").read_text()
    given = {*re.findall(r"^#?(CONCORD_\w+)=", text, re.MULTILINE)}
    assert given <= {f"CONCORD_{name.upper()}" for name in Settings.model_fields}
