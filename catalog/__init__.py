"""A catalog of endpoints, messages and schemas: its model, store, rules and published APIs."""

from __future__ import annotations

from pathlib import Path

DISTRIBUTION = "concord-catalog"
"""The name of the package on PyPI."""


def install_command(extra: str) -> str:
    """The command that installs an extra, of the checkout that runs or else of the release."""
    if Path(__file__).parents[1].joinpath("pyproject.toml").is_file():
        return f".venv/bin/pip install -e '.[{extra}]'"
    return f"pip install '{DISTRIBUTION}[{extra}]'"
