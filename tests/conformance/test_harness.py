"""The runner refuses wrong cases and notices wrong answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from xregistry_conformance.cases import parse_cases, read_cases, read_file, read_model
from xregistry_conformance.harness import Answer, check, encode, missing_needs
from xregistry_conformance.matching import CaseError

STEP = {"method": "GET", "path": "/"}


def _file(**members: Any) -> dict[str, Any]:
    return {"cases": [{"name": "n", "section": "s", "steps": [STEP], **members}]}


@pytest.mark.parametrize(
    "content",
    [
        {"cases": [{"name": "n", "steps": [STEP]}]},
        {"cases": [], "more": 1},
        _file(level="must"),
        _file(steps=[{"method": "GET"}]),
        _file(steps=[{**STEP, "json": 1}]),
        _file(steps=[{**STEP, "body": 1, "text": "x"}]),
        _file(steps=[{**STEP, "expect": {"code": 200}}]),
        _file(steps=[{**STEP, "expect": {"error": "no_such_error"}}]),
        _file(steps=[{**STEP, "expect": {"error": {"name": "not_found", "code": 1}}}]),
        _file(needs={"flag": ["inline"]}),
        _file(steps=[{"answers": [], "path": "/"}]),
        _file(steps=[{"received": {"status": 200}}]),
        {"cases": [*_file()["cases"], *_file()["cases"]]},
    ],
)
def test_a_file_that_the_format_does_not_define_is_refused(content: Any) -> None:
    with pytest.raises(CaseError):
        parse_cases("file", content)


@pytest.mark.parametrize("text", ["cases: []\ncases: []", "cases: [{1: 2}]"])
def test_a_file_with_doubled_keys_or_other_keys_than_strings_is_refused(
    text: str, tmp_path: Path
) -> None:
    (tmp_path / "file.yaml").write_text(text)
    with pytest.raises(CaseError):
        read_file(tmp_path / "file.yaml")


def test_yaml_has_the_types_of_json_only(tmp_path: Path) -> None:
    text = "cases: [{name: n, section: s, steps: [{method: PUT, path: /, body: %s}]}]"
    body = "[2024-01-01T00:00:00Z, yes, on, 1.5, 12, true, null, 1_0, 0x10, 1:30]"
    (tmp_path / "file.yaml").write_text(text % body)
    sent = read_file(tmp_path / "file.yaml")[0].steps[0]["body"]
    assert sent == ["2024-01-01T00:00:00Z", "yes", "on", 1.5, 12, True, None, "1_0", "0x10", "1:30"]


def test_defaults_of_a_file_are_those_of_its_cases() -> None:
    before = {"method": "PUT", "path": "/x"}
    content = _file(needs={"flags": ["doc"]}, model=None)
    content["defaults"] = {
        "level": "MAY",
        "needs": {"pagination": True},
        "model": "dirs",
        "before": [before],
    }
    case = parse_cases("file", content)[0]
    assert (case.level, case.model, case.steps) == ("MAY", None, (before, STEP))
    assert case.needs == {"pagination": True, "flags": ["doc"]}


def test_every_model_that_a_case_names_exists() -> None:
    assert all(isinstance(read_model(case.model), dict) for case in read_cases() if case.model)


def test_every_section_names_a_text() -> None:
    texts = ("core/http.md, ", "core/spec.md, ", "core/model.md, ", "core/resource.md, ")
    texts += ("core/events.md, ",)
    texts += ("cloudevents/subscriptions/spec.md, ", "cloudevents/http-webhook.md, ")
    texts += ("cloudevents/bindings/http-protocol-binding.md, ", "replication/protocol.md, ")
    texts += ("drafts/message-catalog, ", "drafts/discovery, ", "drafts/registry-0.4, ")
    texts += ("pagination/spec.md, ", "endpoint/spec.md, ", "message/spec.md, ", "schema/spec.md, ")
    assert [case.section for case in read_cases() if not case.section.startswith(texts)] == []


def _answer(status: int = 200, body: Any = None, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    content = b"" if body is None else orjson.dumps(body)
    return Answer(
        status=status, headers={"content-type": "application/json", **named}, body=content
    )


PROBLEM = {
    "type": "https://github.com/xregistry/spec/blob/main/core/spec.md#mismatched_epoch",
    "title": "It is not so.",
    "subject": "/dirs/d1",
    "args": {"bad_epoch": "1", "epoch": "2"},
}


@pytest.mark.parametrize(
    ("expect", "answer"),
    [
        ({}, _answer(204)),
        ({"status": [200, 204]}, _answer(204)),
        (
            {"headers": {"X-A": 1, "x-b": "$absent", "X-C": "$save:c:uint"}},
            _answer(x_a="1", x_c="2"),
        ),
        ({"headers": {"X-A": False, "X-B": "$bool"}}, _answer(x_a="false", x_b="true")),
        ({"body": {"a": 1}}, _answer(body={"a": 1})),
        ({"text": ""}, _answer()),
        ({"base64": "eyJhIjoxfQ=="}, _answer(body={"a": 1})),
        ({"error": "mismatched_epoch"}, _answer(400, PROBLEM)),
        ({"error": ["not_found", "mismatched_epoch"]}, _answer(400, PROBLEM)),
        (
            {"error": {"name": "mismatched_epoch", "subject": "/dirs/d1", "args": {"epoch": "2"}}},
            _answer(400, PROBLEM),
        ),
    ],
)
def test_an_answer_as_expected_has_no_differences(expect: Any, answer: Answer) -> None:
    assert check(expect, answer, {}) == []


@pytest.mark.parametrize(
    ("expect", "answer"),
    [
        ({}, _answer(303)),
        ({"status": 200}, _answer(201)),
        ({"headers": {"X-A": "1"}}, _answer(x_a="2")),
        ({"headers": {"X-A": "1"}}, _answer()),
        ({"headers": {"X-A": "$absent"}}, _answer(x_a="")),
        ({"headers": {"X-A": "$uint"}}, _answer(x_a="x")),
        ({"headers": {"X-A": "$bool"}}, _answer(x_a="True")),
        ({"body": {"a": 1}}, _answer(body={"a": 2})),
        ({"body": {}}, _answer()),
        ({"body": {}}, _answer(body={}, content_type="text/plain")),
        ({"text": ""}, _answer(body=1)),
        ({"base64": "eA=="}, _answer()),
        ({"error": "mismatched_epoch"}, _answer(409, PROBLEM)),
        ({"error": "mismatched_id"}, _answer(400, PROBLEM)),
        ({"error": ["not_found", "mismatched_epoch"]}, _answer(404, PROBLEM)),
        ({"error": "mismatched_epoch"}, _answer(400, {**PROBLEM, "title": ""})),
        ({"error": "mismatched_epoch"}, _answer(400, {**PROBLEM, "args": {"epoch": "2"}})),
        ({"error": "mismatched_epoch"}, _answer(400, {**PROBLEM, "subject": "dirs"})),
        ({"error": {"name": "mismatched_epoch", "subject": "/"}}, _answer(400, PROBLEM)),
        ({"error": {"name": "mismatched_epoch", "args": {"epoch": "1"}}}, _answer(400, PROBLEM)),
        ({"error": "mismatched_epoch"}, _answer(200, {})),
    ],
)
def test_an_answer_not_as_expected_is_noticed(expect: Any, answer: Answer) -> None:
    assert check(expect, answer, {}) != []


def test_the_error_of_an_unsupported_action_needs_the_header_allow() -> None:
    body = {**PROBLEM, "type": PROBLEM["type"].replace("mismatched_epoch", "action_not_supported")}
    body["args"] = {"action": "PUT"}
    expect = {"error": "action_not_supported"}
    assert check(expect, _answer(405, body, allow="GET"), {}) == []
    assert check(expect, _answer(405, body), {}) != []


def test_json_is_sent_as_json_unless_the_case_says_otherwise() -> None:
    kind = "application/json; charset=utf-8"
    assert encode({"body": {"a": "$one"}}, {"one": 1}) == ({"Content-Type": kind}, b'{"a":1}')
    assert encode({"body": {}, "headers": {"content-type": None}}, {}) == ({}, b"{}")
    assert encode({"text": "a${one}", "headers": {"A": "$one"}}, {"one": 1}) == ({"A": "1"}, b"a1")
    assert encode({"base64": "AA=="}, {}) == ({}, b"\0")
    assert encode({}, {}) == ({}, None)


CAPABILITIES = {
    "available": {"model": {"mutable": False}, "modelsource": {"mutable": True}},
    "flags": ["Inline"],
    "formats": ["avro*"],
    "compatibilities": {"Avro*": ["backward"]},
    "pagination": True,
    "shortself": False,
}


@pytest.mark.parametrize(
    ("needs", "is_there"),
    [
        ({"flags": ["inline"]}, True),
        ({"flags": ["inline", "doc"]}, False),
        ({"ignores": ["id"]}, False),
        ({"formats": ["Avro/1.12"]}, True),
        ({"formats": ["xsd"]}, False),
        ({"compatibilities": {"avro/1.12": ["backward"]}}, True),
        ({"compatibilities": {"avro/1.12": ["forward"]}}, False),
        ({"compatibilities": {"xsd": ["backward"]}}, False),
        ({"available": ["model"]}, True),
        ({"available": ["export"]}, False),
        ({"mutable": ["modelsource"]}, True),
        ({"mutable": ["model"]}, False),
        ({"mutable": ["capabilities"]}, False),
        ({"pagination": True}, True),
        ({"pagination": False}, False),
        ({"shortself": False}, True),
        ({"shortself": True}, False),
    ],
)
def test_a_need_is_met_by_the_capabilities_or_it_is_not(needs: Any, is_there: bool) -> None:
    assert (missing_needs(CAPABILITIES, needs) == "") == is_there
