"""Laws of templates: what they expand to matches, and equal placeholders have equal texts."""

from __future__ import annotations

import contextlib
import itertools
import time
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from catalog.messages.conformance import check_metadata
from catalog.messages.definition import combine
from catalog.messages.message import read_json_message
from catalog.messages.values import Demand, Exhausted, Gap, Part, Search, Template, fits

names = st.sampled_from(["a", "b", "c_1"])
literals = st.text(st.sampled_from("/-xy{é"), min_size=1, max_size=3)
parts = st.lists(st.one_of(literals, names.map(Gap)), min_size=1, max_size=6)
values = st.fixed_dictionaries(
    {name: st.text(st.sampled_from("xy/-"), min_size=1, max_size=4) for name in ("a", "b", "c_1")}
)


def written(template: list[Part]) -> str:
    return "".join(part if isinstance(part, str) else f"{{{part.name}}}" for part in template)


def expanded(template: list[Part], texts: dict[str, str]) -> str:
    return "".join(part if isinstance(part, str) else texts[part.name] for part in template)


def demand(template: list[Part], text: str) -> Demand:
    return Demand(Template.parse(written(template)).parts, text)


@given(st.lists(parts, min_size=1, max_size=3), values)
def test_what_templates_expand_to_matches_them_all(
    templates: list[list[Part]], texts: dict[str, str]
) -> None:
    demands = [demand(template, expanded(template, texts)) for template in templates]
    assert all(fits(one.parts, one.text) for one in demands)
    assert Search(10_000_000).succeeds(demands)


@given(parts, st.text(st.sampled_from("xy/-"), max_size=6))
def test_a_text_matches_if_and_only_if_the_gaps_can_be_filled(
    template: list[Part], text: str
) -> None:
    parsed = Template.parse(written(template))
    assert fits(parsed.parts, text) == _can_be_filled(list(parsed.parts), text)


def _can_be_filled(template: list[Part], text: str) -> bool:
    if not template:
        return not text
    first, rest = template[0], template[1:]
    if isinstance(first, str):
        return text.startswith(first) and _can_be_filled(rest, text[len(first) :])
    return any(_can_be_filled(rest, text[end:]) for end in range(first.least, len(text) + 1))


@given(st.lists(st.tuples(parts, st.text(st.sampled_from("xy"), max_size=5)), max_size=2))
def test_the_search_finds_texts_if_and_only_if_there_are_some(
    demands: list[tuple[list[Part], str]],
) -> None:
    asked = [demand(template, text) for template, text in demands]
    pieces = {text[i:j] for _, text in demands for i in range(6) for j in range(i + 1, 6)} - {""}
    found = {part.name for one in asked for part in one.parts if isinstance(part, Gap)}
    solutions = (
        dict(zip(sorted(found), chosen, strict=True))
        for chosen in itertools.product(sorted(pieces), repeat=len(found))
    )
    exists = any(
        all(expanded(list(one.parts), texts) == one.text for one in asked) for texts in solutions
    )
    assert Search(10_000_000).succeeds(asked) == exists


@given(parts, values, st.sampled_from(["prefix", "suffix"]))
def test_a_text_with_another_constant_does_not_match(
    template: list[Part], texts: dict[str, str], where: str
) -> None:
    text = expanded(template, texts)
    constant = ["<", *template] if where == "prefix" else [*template, "<"]
    assert fits(Template.parse(written(constant)).parts, expanded(constant, texts))
    assert not fits(Template.parse(written(constant)).parts, text)


@given(values, st.text(st.sampled_from("xy"), min_size=1, max_size=4))
@example({"a": "x", "b": "y", "c_1": "z"}, "y")
def test_a_message_of_a_definition_conforms_until_a_placeholder_differs(
    texts: dict[str, str], other: str
) -> None:
    definition = combine(
        [
            {
                "envelope": "CloudEvents/1.0",
                "envelopemetadata": {
                    "type": {"value": "t"},
                    "source": {"value": "urn:{a}:{b}", "type": "uritemplate"},
                    "subject": {"value": "{a}", "type": "uritemplate"},
                },
                "protocol": "KAFKA",
                "protocoloptions": {"key": "{b}"},
            }
        ],
        {},
    )
    a, b = texts["a"], texts["b"]
    assume(":" not in a + b)

    def message(**change: Any) -> Any:
        attributes = {"specversion": "1.0", "id": "1", "type": "t"}
        attributes |= {"source": f"urn:{a}:{b}", "subject": a} | change
        return {"key": b, "headers": {f"ce_{n}": value for n, value in attributes.items()}}

    def rules(value: Any) -> list[str]:
        found = check_metadata(read_json_message(value, "KAFKA"), definition)
        return [violation.rule for violation in found.violations]

    assert rules(message()) == []
    assert rules(message(type="u")) == ["value"]
    assert rules(message(subject=other)) == ([] if other == a else ["placeholder"])
    assert rules(message() | {"key": other}) == ([] if other == b else ["placeholder"])


@given(st.text(st.sampled_from("{}+#/,*:a1. %é"), max_size=30))
def test_any_text_is_a_template(text: str) -> None:
    template = Template.parse(text)
    assert template.is_constant == all(isinstance(part, str) for part in template.parts)
    if template.is_constant:
        assert template.fits(text)


EXPRESSIONS: list[tuple[str, str, bool]] = [
    ("{a}", "", False),
    ("{+a}", "x/y", True),
    ("/x{?q,r*}", "/x", True),
    ("/x{?q,r*}", "/x?q=1&r=2", True),
    ("{/a:3}", "/abc", True),
    ("{a b}", "{a b}", True),
    ("{}", "{}", True),
    ("{a", "{a", True),
    ("{a}{b}", "x", False),
    ("{a}{b}", "xy", True),
]


@pytest.mark.parametrize(("template", "text", "matches"), EXPRESSIONS)
def test_an_expression_stands_for_any_text(template: str, text: str, matches: bool) -> None:
    assert Template.parse(template).fits(text) is matches


BOMBS = [
    ("{a}" * 5000 + "b", "a" * 1_000_000),
    ("{a}ab" * 5000 + "b", "aab" * 300_000),
    ("{a}{b}{c}{a}{c}{b}{d}" * 3, "a" * 60 + "b" + "a" * 60),
    ("{a}{b}{a}" * 20 + "c", "ab" * 2000),
    ("{a}a{b}a{a}" * 200, "a" * 1_000_000),
    ("{a}{b}{c}{d}{e}{f}{g}{h}" * 2, "a" * 50 + "b" + "a" * 49),
    ("".join(f"{{v{n}}}/{{v{n}}}/" for n in range(2000)), "x/" * 4000),
    ("{" * 1_000_000, "a"),
    ("{a," * 300_000, "a"),
    ("{a" + ",a" * 300_000 + "}", "a"),
]


@pytest.mark.parametrize(("template", "text"), BOMBS, ids=range(len(BOMBS)))
def test_no_template_and_no_text_takes_long(template: str, text: str) -> None:
    began = time.process_time()
    parsed = Template.parse(template)
    with contextlib.suppress(Exhausted):
        Search().succeeds([Demand(parsed.parts, text), Demand(parsed.parts, text + "a")])
    assert time.process_time() - began < 2


def test_what_could_not_be_told_apart_in_bounded_time_does_not_conform() -> None:
    hard = "{a}{b}{c}{d}{e}{f}{g}{h}" * 2
    metadata = {"subject": {"value": hard, "type": "uritemplate"}}
    definition = combine([{"envelope": "CloudEvents/1.0", "envelopemetadata": metadata}], {})
    event = {"specversion": "1.0", "id": "1", "type": "t", "source": "s"}
    event["subject"] = "a" * 50 + "b" + "a" * 49
    (violation,) = check_metadata(read_json_message(event, ""), definition).violations
    assert (violation.pointer, violation.rule) == ("/subject", "placeholder")
    assert "bounded time" in violation.detail
