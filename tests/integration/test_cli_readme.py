"""README says what is true of the settings."""

from __future__ import annotations

import re
from pathlib import Path

from pydantic_core import PydanticUndefined

from catalog.config import Settings

README = Path(__file__).parents[2] / "README.md"


def test_the_table_of_settings_is_what_the_settings_say() -> None:
    rows = re.findall(r"^\| `CONCORD_(\w+)` \| `(.*?)` \| (.*) \|$", README.read_text(), re.M)
    assert rows == [
        (name.upper(), _shown(name, field.default), field.description)
        for name, field in Settings.model_fields.items()
    ]


def _shown(name: str, default: object) -> str:
    if default is PydanticUndefined:
        return {"data_dir": "~/.local/share/concord"}[name]
    if isinstance(default, float) and default.is_integer():
        return str(int(default))
    return "unset" if default is None else str(default)
