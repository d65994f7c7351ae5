"""Several documents are one desired state, unless they contradict each other."""

from __future__ import annotations

from typing import Any

from catalog.commands.apply.requests import DesiredState

MODEL = {
    "groups": {
        "messagegroups": {"resources": {"messages": {}}},
        "schemagroups": {"resources": {"schemas": {}}},
    }
}


def together(*documents: dict[str, Any]) -> DesiredState:
    desired = DesiredState(model=MODEL)
    for number, groups in enumerate(documents):
        desired.add(f"{number}.json", groups)
    return desired


def messages(**group: Any) -> dict[str, Any]:
    return {"messagegroups": {"g": group}}


def test_a_group_may_be_in_several_documents() -> None:
    desired = together(
        messages(name="Weather", messages={"a": {"name": "A"}}),
        messages(messages={"b": {}}),
        messages(name="Weather", labels={"x": "y"}),
    )
    group = {"name": "Weather", "labels": {"x": "y"}, "messages": {"a": {"name": "A"}, "b": {}}}
    assert desired.groups == messages(**group)
    assert desired.contradictions == []


def test_a_resource_may_have_its_versions_in_several_documents() -> None:
    desired = together(
        messages(messages={"a": {"meta": {"compatibility": "none"}, "versions": {"1": {}}}}),
        messages(messages={"a": {"versions": {"2": {"name": "second"}}}}),
    )
    assert desired.groups["messagegroups"]["g"]["messages"]["a"] == {
        "meta": {"compatibility": "none"},
        "versions": {"1": {}, "2": {"name": "second"}},
    }


def test_a_contradiction_names_the_entity_the_attribute_and_both_files() -> None:
    desired = together(
        messages(name="one", messages={"a": {"versions": {"1": {"flag": True}}}}),
        messages(messages={"a": {"versions": {"1": {"flag": 1}}}}),
        messages(name="other"),
    )
    found = [(each.xid, each.attribute, each.files) for each in desired.contradictions]
    assert found == [
        ("/messagegroups/g/messages/a/versions/1", "flag", ("0.json", "1.json")),
        ("/messagegroups/g", "name", ("0.json", "2.json")),
    ]


def test_what_a_catalog_makes_up_for_its_place_contradicts_nothing() -> None:
    def shown(place: str, count: int) -> dict[str, Any]:
        urls = {"self": f"{place}/g", "messagesurl": f"{place}/g/messages"}
        return messages(**urls, messagescount=count, name="g")

    desired = together(shown("http://a", 1), shown("http://b", 2))
    assert (desired.groups, desired.contradictions) == (messages(name="g"), [])


def test_the_xids_are_those_that_documents_have_with_the_versions_that_they_list() -> None:
    desired = together(
        messages(messages={"a": {"versionid": "3", "versions": {"1": {}}}, "b": {"versionid": "1"}})
    )
    place = "/messagegroups/g"
    assert [*desired.xids()] == [
        place,
        f"{place}/messages/a",
        f"{place}/messages/a/versions/1",
        f"{place}/messages/a/versions/3",
        f"{place}/messages/b",
    ]
