"""Which format values are recognised, and what is offered for them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from catalog.formats.families import COMPATIBILITIES, FORMATS, is_supported, matches, rules_for

RULES = {
    "backward",
    "backward_transitive",
    "forward",
    "forward_transitive",
    "full",
    "full_transitive",
}


@pytest.mark.parametrize(
    "value",
    [
        "JsonSchema/draft-07",
        "JSONSchema/Draft-04",
        "jsonschema/draft/2020-12",
        "Avro",
        "Avro/1.11.0",
        "AVRO/1.9",
        "Protobuf/3",
        "Protobuf/2.0",
    ],
)
def test_a_format_is_recognised_in_any_case_and_all_its_rules_are_offered(value: str) -> None:
    assert is_supported(value)
    assert set(rules_for(value)) == RULES


@pytest.mark.parametrize("value", ["XSD/1.0", "xsd/1.1", "JsonStructure/draft-04"])
def test_a_format_without_a_comparison_has_no_rules(value: str) -> None:
    assert is_supported(value)
    assert rules_for(value) == ()


@pytest.mark.parametrize(
    "value", ["", "*", "avr*", "Avro/2.0", "xAvro", "Avro/1", "JsonSchema/draft-08", "avro\n"]
)
def test_other_values_are_not_recognised(value: str) -> None:
    assert not is_supported(value)
    assert rules_for(value) == ()


def test_a_star_stands_for_any_characters_and_nothing_else_does() -> None:
    assert matches("a*c", "aBxc")
    assert matches("a*c", "ac")
    assert matches("*", "")
    assert not matches("a.c", "abc")
    assert not matches("a*c", "acd")


def test_rules_are_offered_for_formats_that_are_offered_in_lower_case() -> None:
    assert set(COMPATIBILITIES) <= set(FORMATS)
    assert [name.lower() for name in FORMATS] == [*FORMATS]


def test_the_server_loads_none_of_the_libraries() -> None:
    libraries = {"avro", "google", "grpc_tools", "json_structure", "jsonschema_rs", "xmlschema"}
    script = f"import sys, catalog.formats; print(sorted({libraries} & sys.modules.keys()))"
    command = [sys.executable, "-c", script]
    assert subprocess.check_output(command, text=True).strip() == "[]"
