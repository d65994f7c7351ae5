"""What clients may set the capabilities to."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.model.capabilities import (
    DEFAULTS,
    OFFERED,
    Capabilities,
    describe,
    matches,
    offered_with,
    overlap,
    stored_capabilities,
    update_capabilities,
)
from catalog.model.errors import (
    CapabilityError,
    CapabilityMissingValue,
    CapabilityUnknown,
    CapabilityValue,
    CapabilityWildcard,
    XRegistryError,
)

FORMATS = ("avro", "avro/1.*", "jsonschema/draft-07", "xsd")
RULES = {"avro": ("backward", "forward"), "avro/1.*": ("backward",)}
ALL = offered_with(FORMATS, RULES)
AVAILABLE = {"capabilities": {"mutable": True}, "entities": {"mutable": True}, "model": {}}


def put(**given: Any) -> Capabilities:
    return update_capabilities(given, current=ALL, offered=ALL, patch=False)


def patch(**given: Any) -> Capabilities:
    return update_capabilities(given, current=ALL, offered=ALL, patch=True)


def test_what_a_replacement_does_not_mention_is_off() -> None:
    """core/spec.md: each capability's default value, if not specified."""
    assert put() == DEFAULTS
    assert put(flags=["inline"]).flags == ("inline",)
    assert put(flags=["inline"]).formats == ()
    assert put().specversions == ("1.0-rc4",)
    assert put().versionmodes == ("manual",)


def test_a_patch_replaces_what_it_mentions_whole_and_nothing_else() -> None:
    patched = patch(flags=["sort"], pagination=None)
    assert (patched.flags, patched.pagination) == (("sort",), False)
    assert (patched.ignores, patched.formats) == (ALL.ignores, ALL.formats)


@pytest.mark.parametrize("name", ["flags", "formats", "ignores", "specversions", "versionmodes"])
def test_a_wildcard_is_all_that_is_offered(name: str) -> None:
    assert getattr(put(**{name: ["*"]}), name) == getattr(ALL, name)
    with pytest.raises(CapabilityWildcard):
        put(**{name: ["*", *getattr(ALL, name)[:1]]})


def test_values_are_compared_whatever_their_case_and_count_once() -> None:
    assert put(flags=["SORT", "Inline", "sort"]).flags == ("inline", "sort")
    assert put(specversions=["1.0-RC4"]).specversions == ("1.0-rc4",)
    assert put(formats=["XSD"]).formats == ("xsd",)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"nonsense": True}, CapabilityUnknown),
        ({"mutable": ["entities"]}, CapabilityUnknown),
        ({"flags": ["nonsense"]}, CapabilityValue),
        ({"flags": "inline"}, CapabilityValue),
        ({"flags": [1]}, CapabilityValue),
        ({"ignores": ["nonsense"]}, CapabilityValue),
        ({"pagination": "true"}, CapabilityValue),
        ({"shortself": "true"}, CapabilityValue),
        ({"specversions": []}, CapabilityMissingValue),
        ({"specversions": ["2.0"]}, CapabilityValue),
        ({"versionmodes": ["semver"]}, CapabilityMissingValue),
        ({"formats": ["cobol"]}, CapabilityError),
        ({"formats": ["xsd"], "compatibilities": {"avro": ["backward"]}}, CapabilityError),
        ({"formats": ["xsd"], "compatibilities": {"xsd": ["backward"]}}, CapabilityError),
        ({"formats": ["avro"], "compatibilities": {"avro": ["full"]}}, CapabilityError),
        ({"compatibilities": []}, CapabilityValue),
        ({"available": []}, CapabilityValue),
        ({"available": {}}, CapabilityMissingValue),
        ({"available": {**AVAILABLE, "nonsense": {}}}, CapabilityValue),
        ({"available": {**AVAILABLE, "model": {"mutable": True}}}, CapabilityValue),
        ({"available": {**AVAILABLE, "model": {"mutable": 1}}}, CapabilityValue),
        ({"available": {**AVAILABLE, "model": True}}, CapabilityValue),
        ({"available": {**AVAILABLE, "capabilities": {"mutable": False}}}, CapabilityError),
    ],
)
def test_what_is_not_offered_is_refused(given: dict[str, Any], error: type[XRegistryError]) -> None:
    with pytest.raises(error) as refusal:
        put(**given)
    assert refusal.value.subject == "/capabilities"


def test_everything_that_is_wrong_is_told() -> None:
    with pytest.raises(XRegistryError) as refusal:
        put(nonsense=1, flags=["nonsense"], pagination=1)
    assert len(refusal.value.violations) == 3


def test_compatibilities_are_kept_by_format() -> None:
    able = put(formats=["avro", "avro/1.*"], compatibilities={"Avro*": ["*"]})
    assert able.compatibilities == {"avro*": ("backward",)}
    assert able.rules_for("avro/1.11") == ("backward",)
    assert able.rules_for("xsd") == ()
    assert able.validates("Avro/1.12")
    assert not able.validates("xsd")


@pytest.mark.parametrize(
    ("key", "rules"),
    [
        ("avro", {"backward", "forward"}),
        ("avro/1.9", {"backward"}),
        ("AVRO/*", {"backward"}),
        ("avro*", {"backward"}),
        ("avro/2.0", set()),
        ("x*", set()),
        ("*", set()),
    ],
)
def test_a_key_has_the_rules_of_all_the_formats_that_it_stands_for(
    key: str, rules: set[str]
) -> None:
    """core/spec.md, "compatibilities Capability": each combination has to be offered."""
    for rule in ("backward", "forward"):
        expected = nullcontext() if rule in rules else pytest.raises(CapabilityError)
        with expected:
            put(formats=["*"], compatibilities={key: [rule]})


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "flags": st.lists(st.sampled_from(ALL.flags)),
            "ignores": st.lists(st.sampled_from(ALL.ignores)),
            "formats": st.lists(st.sampled_from(ALL.formats)),
            "pagination": st.booleans(),
            "versionmodes": st.lists(st.sampled_from(ALL.versionmodes)).map(
                lambda modes: [*modes, "manual"]
            ),
        },
    )
)
def test_what_is_shown_can_be_sent_back(given: dict[str, Any]) -> None:
    able = put(**given)
    assert put(**able.as_json()) == able
    assert stored_capabilities(able.as_json(), ALL) == able


def test_what_a_server_offers_no_more_is_lost_from_what_was_stored() -> None:
    able = put(**ALL.as_json())
    assert able == ALL
    fewer = stored_capabilities(able.as_json(), OFFERED)
    assert fewer == OFFERED


def test_every_capability_is_described_with_its_values() -> None:
    """core/spec.md, "Offered Capabilities"."""
    described = describe(ALL)
    assert {*described} == {*ALL.as_json()}
    assert described["flags"] == {
        "type": "array",
        "item": {"type": "string"},
        "enum": list(ALL.flags),
    }
    assert described["pagination"] == {"type": "boolean", "enum": [False, True]}
    assert described["shortself"] == {"type": "boolean", "enum": [False, True]}
    assert described["compatibilities"]["attributes"]["avro"]["enum"] == ["backward", "forward"]
    kinds = described["available"]["attributes"]
    mutable = {name: kind["attributes"]["mutable"]["enum"] for name, kind in kinds.items()}
    assert mutable == {
        "capabilities": [True],
        "capabilitiesoffered": [False],
        "entities": [False, True],
        "export": [False],
        "model": [False],
        "modelsource": [False, True],
    }


@given(st.lists(st.text("ab", max_size=3), min_size=1, max_size=4), st.text("ab", max_size=4))
def test_a_pattern_fits_whatever_its_stars_are_replaced_with(parts: list[str], fill: str) -> None:
    assert matches("*".join(parts), fill.join(parts).upper())


@pytest.mark.parametrize(
    ("pattern", "text"), [("a*b", "ab c"), ("ab*ba", "aba"), ("a", "ab"), ("*a", "b"), ("", "a")]
)
def test_a_pattern_fits_nothing_else(pattern: str, text: str) -> None:
    assert not matches(pattern, text)


@given(st.text("ab*", max_size=4), st.text("ab*", max_size=4))
def test_patterns_overlap_if_a_text_fits_both(one: str, other: str) -> None:
    texts = ("".join(letters) for size in range(8) for letters in product("ab", repeat=size))
    assert overlap(one, other) == any(matches(one, text) and matches(other, text) for text in texts)
