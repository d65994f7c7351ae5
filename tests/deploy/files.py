"""The files below deploy/, and what they say."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
MONITORING = DEPLOY / "monitoring"
BOARD = MONITORING / "grafana" / "dashboards" / "concord.json"

# What Grafana puts in place of these.
_VARIABLES = {"$__rate_interval": "1m", "$node": ".*"}
_TEXT = re.compile(r'"[^"]*"')
_LABELS = re.compile(r"\{[^}]*\}|\b(?:by|without|on|ignoring)\s*\([^)]*\)|\[[^\]]*\]")
_NAME = re.compile(r"\b[a-zA-Z_:][\w:]*\b(?!\s*\()")
_WORDS = {"and", "or", "unless", "by", "without", "on", "ignoring", "bool", "offset"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """An expression in PromQL, and where it stands."""

    place: str
    text: str

    def metrics(self) -> set[str]:
        """The names of the metrics that it reads."""
        bare = _LABELS.sub(" ", _TEXT.sub('""', self.text))
        return {name for name in _NAME.findall(bare) if name not in _WORDS and name != "e6"}


def read_yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def alarms() -> Iterator[dict[str, Any]]:
    """The rules that raise alarms."""
    for group in read_yaml(MONITORING / "rules.yml")["groups"]:
        yield from group["rules"]


def panels() -> Iterator[dict[str, Any]]:
    """The panels of the board that show something."""
    for panel in json.loads(BOARD.read_text())["panels"]:
        if panel["type"] != "row":
            yield panel


def rule_expressions() -> list[Expression]:
    return [Expression(place=rule["alert"], text=rule["expr"]) for rule in alarms()]


def board_expressions() -> list[Expression]:
    """The expressions of the board, as Grafana sends them."""
    found = []
    for panel in panels():
        for target in panel["targets"]:
            text = target["expr"]
            for variable, value in _VARIABLES.items():
                text = text.replace(variable, value)
            place = f"{panel['title']} {target['refId']} ({panel['id']})"
            found.append(Expression(place=place, text=text))
    return found
