"""The lines of a JSON text at which values stand."""

from __future__ import annotations

from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from catalog.messages.message import pointer
from catalog.messages.textlines import find_lines

_NAMES = st.text(max_size=4)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=3),
    max_leaves=8,
)


def test_a_value_is_at_the_line_of_its_name_and_a_missing_one_at_that_of_its_parent() -> None:
    text = '{"a": [1,\n {"b/c":\n\n 2}],\n "d": "}\\"\\n"\n}'
    wanted = {"": 1, "/a": 1, "/a/0": 1, "/a/1": 2, "/a/1/b~1c": 2, "/a/1/none/x": 2, "/d": 5}
    assert find_lines(text, wanted) == wanted


@given(_VALUES)
def test_the_value_of_a_pointer_stands_at_its_line(value: Any) -> None:
    """A text with a line for each token has each value where its pointer says."""
    lines: list[str] = []
    expected: dict[str, int] = {}

    def write(value: Any, *at: str | int, named: bool = False) -> None:
        if not named:
            expected[pointer(*at)] = len(lines) + 1
        if isinstance(value, dict):
            lines.append("{")
            for number, (name, inner) in enumerate(value.items()):
                lines.append(("," if number else "") + orjson.dumps(name).decode() + ":")
                expected[pointer(*at, name)] = len(lines)
                write(inner, *at, name, named=True)
            lines.append("}")
        elif isinstance(value, list):
            lines.append("[")
            for number, inner in enumerate(value):
                if number:
                    lines.append(",")
                write(inner, *at, number)
            lines.append("]")
        else:
            lines.append(orjson.dumps(value).decode())

    write(value)
    assert find_lines("\n".join(lines), expected) == expected
