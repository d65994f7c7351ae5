"""The page of settings says of each setting what the settings say."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic.fields import FieldInfo

from catalog.settings import Settings
from catalog.settings.limits import Limits

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"
PREFIX = "| `CONCORD_"


def test_the_page_has_exactly_the_rows_that_the_settings_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    fields = {n: f for n, f in Settings.model_fields.items() if n not in Limits.model_fields}
    expected = [_row(name, field) for name, field in (fields | Limits.model_fields).items()]
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith(PREFIX)]
    assert rows == expected, "The page's rows should be:\n" + "\n".join(expected)


def _row(name: str, field: FieldInfo) -> str:
    description = " ".join((field.description or "").split())
    return f"{PREFIX}{name.upper()}` | {_default(field)} | {description} |"


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True, validated_data={})
    if value in (None, ()):
        return "unset"
    if isinstance(value, Path):
        value = Path("~") / value.relative_to(Path.home())
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"
