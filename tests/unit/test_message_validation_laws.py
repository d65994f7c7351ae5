"""Laws of templates: what they expand to matches, and equal placeholders have equal texts."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from catalog.messages.conformance import check_metadata
from catalog.messages.definition import combine
from catalog.messages.message import read_json_message
from catalog.messages.values import Gap, Part, Template

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


@given(parts, values)
def test_what_a_template_expands_to_matches_it_with_these_texts(
    template: list[Part], texts: dict[str, str]
) -> None:
    parsed, text = Template.parse(written(template)), expanded(template, texts)
    assert parsed.fits(text)
    assert parsed.texts(text).items() <= texts.items()
    assert parsed.bound(texts).fits(text)


@given(parts, st.text(st.sampled_from("xy/-"), max_size=6))
def test_a_text_matches_if_and_only_if_the_gaps_can_be_filled(
    template: list[Part], text: str
) -> None:
    parsed = Template.parse(written(template))
    assert parsed.fits(text) == _can_be_filled(list(parsed.parts), text)


def _can_be_filled(template: list[Part], text: str) -> bool:
    if not template:
        return not text
    first, rest = template[0], template[1:]
    if isinstance(first, str):
        return text.startswith(first) and _can_be_filled(rest, text[len(first) :])
    return any(_can_be_filled(rest, text[end:]) for end in range(first.least, len(text) + 1))


@given(parts, st.text(st.sampled_from("xy/-"), max_size=6))
def test_a_placeholder_has_a_text_if_and_only_if_no_other_place_is_possible(
    template: list[Part], text: str
) -> None:
    parsed = Template.parse(written(template))
    names = [part.name for part in parsed.parts if isinstance(part, Gap)]
    places = [{*spans} for spans in zip(*_fillings(parsed.parts, text, 0), strict=True)]
    certain = {
        name: text[slice(*next(iter(spans)))]
        for name, spans in zip(names, places, strict=False)
        if len(spans) == 1
    }
    assert parsed.texts(text) == certain


def _fillings(
    template: Sequence[Part], text: str, at: int
) -> Iterator[tuple[tuple[int, int], ...]]:
    """The places of the gaps in each way to match the rest of a text."""
    if not template:
        yield from [()] if at == len(text) else []
    elif isinstance(first := template[0], str):
        if text.startswith(first, at):
            yield from _fillings(template[1:], text, at + len(first))
    else:
        for end in range(at + first.least, len(text) + 1):
            yield from (((at, end), *rest) for rest in _fillings(template[1:], text, end))


@given(parts, values, st.sampled_from(["prefix", "suffix"]))
def test_a_text_with_another_constant_does_not_match(
    template: list[Part], texts: dict[str, str], where: str
) -> None:
    text = expanded(template, texts)
    constant = ["<", *template] if where == "prefix" else [*template, "<"]
    parsed = Template.parse(written(constant))
    assert parsed.fits(expanded(constant, texts))
    assert not parsed.fits(text)


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
    wanted = {"required": True, "type": "string", "value": template}
    metadata = {"subject": wanted, "a": wanted}
    definition = combine([{"envelope": "CloudEvents/1.0", "envelopemetadata": metadata}], {})
    event = {"specversion": "1.0", "id": "1", "type": "t", "source": "s"}
    event |= {"subject": text, "a": text + "a"}
    check_metadata(read_json_message(event, ""), definition)
    assert time.process_time() - began < 2


def test_placeholders_are_compared_as_far_as_their_texts_are_certain() -> None:
    def rules(**texts: str) -> list[str]:
        metadata = {
            "subject": {"value": "{a}-{b}", "type": "uritemplate"},
            "source": {"value": "/{a}/{c}", "type": "uritemplate"},
            "c": {"value": "{c}", "type": "uritemplate"},
        }
        definition = combine([{"envelope": "CloudEvents/1.0", "envelopemetadata": metadata}], {})
        event = {"specversion": "1.0", "id": "1", "type": "t", **texts}
        return [v.rule for v in check_metadata(read_json_message(event, ""), definition).violations]

    assert rules(subject="x-y-z", source="/x/k", c="k") == []
    assert rules(subject="x-y-z", source="/x-y/k", c="k") == []
    assert rules(subject="x-y-z", source="/y/k", c="k") == ["placeholder"]
    # Either placeholder may have the second slash, until the text of one is known.
    assert rules(subject="x-y", source="/x/k/l", c="k/l") == []
    assert rules(subject="x-y", source="/x/k/l", c="l") == ["placeholder"]
