"""The alarms and the board are well formed, and alarms are raised when they should be."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from catalog.cli import app
from tests.deploy.files import BOARD, DEPLOY, MONITORING, ROOT, alarms, panels, read_yaml
from tests.deploy.prometheus import program

CASES = Path(__file__).with_name("alarms.yml")
_ALARM = re.compile(r'alertname="(\w+)"')
_COMMAND = re.compile(r"`concord ([a-z]+)(?: ([a-z]+))?")


def promtool(*arguments: str) -> str:
    done = subprocess.run(
        [program("promtool"), *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("place", [MONITORING, DEPLOY / "compose"], ids=lambda path: path.name)
def test_promtool_accepts_a_configuration(place: Path, tmp_path: Path) -> None:
    for path in (place / "prometheus.yml", MONITORING / "rules.yml"):
        shutil.copy(path, tmp_path)
    for name in re.findall(r"\w+\.token", (place / "prometheus.yml").read_text()):
        (tmp_path / name).touch()
    promtool("check", "config", str(tmp_path / "prometheus.yml"))


def test_promtool_accepts_the_rules() -> None:
    promtool("check", "rules", "--lint=all", "--lint-fatal", str(MONITORING / "rules.yml"))


def test_alarms_are_raised_and_end_as_promtool_computes_from_series(tmp_path: Path) -> None:
    cases = CASES.read_text().replace("RULES", str(MONITORING / "rules.yml"))
    (tmp_path / "alarms.yml").write_text(cases)
    promtool("test", "rules", str(tmp_path / "alarms.yml"))


def test_each_alarm_has_a_case_in_which_it_is_raised() -> None:
    raised = {
        _ALARM.findall(sample["labels"])[0]
        for test in read_yaml(CASES)["tests"]
        for case in test["promql_expr_test"]
        for sample in case["exp_samples"]
    }
    assert raised == {rule["alert"] for rule in alarms()}


@pytest.mark.parametrize("rule", [*alarms()], ids=lambda rule: rule["alert"])
def test_an_alarm_says_what_to_do_by_commands_that_are_there(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert rule["annotations"].keys() == {"summary", "description", "runbook"}
    commands = get_command(app).commands
    for name, subcommand in _COMMAND.findall(rule["annotations"]["description"]):
        group = getattr(commands[name], "commands", None)
        assert group is None or subcommand in group or not subcommand


def test_the_runbook_has_a_paragraph_for_each_alarm_that_the_alarm_names() -> None:
    text = (ROOT / "docs" / "runbook.md").read_text()
    names = [rule["alert"] for rule in alarms()]
    assert re.findall(r"^### (\w+)$", text, re.MULTILINE) == names
    for rule in alarms():
        assert rule["annotations"]["runbook"] == f"docs/runbook.md#{rule['alert'].lower()}"
    paragraphs = re.split(r"^### \w+$", text, flags=re.MULTILINE)[1:]
    assert all(len(each.split("\n## ")[0]) > 100 for each in paragraphs)


def test_the_board_has_room_for_each_panel_and_reads_the_chosen_source() -> None:
    board = json.loads(BOARD.read_text())
    ids = [panel["id"] for panel in board["panels"]]
    assert len({*ids}) == len(ids)
    assert not [
        (one["title"], other["title"])
        for one, other in combinations(board["panels"], 2)
        if _overlap(one["gridPos"], other["gridPos"])
    ]
    for panel in panels():
        assert panel["description"], panel["title"]
        for target in panel["targets"]:
            assert target["datasource"]["uid"] == "${datasource}"


def _overlap(one: dict[str, int], other: dict[str, int]) -> bool:
    return all(
        one[start] < other[start] + other[size] and other[start] < one[start] + one[size]
        for start, size in (("x", "w"), ("y", "h"))
    )
