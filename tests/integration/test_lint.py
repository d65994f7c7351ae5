"""`concord lint`: documents are held to the rules of a catalog without any node."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from typer.testing import CliRunner, Result

from catalog.cli import app
from tests.integration.conftest import Node
from tests.integration.federation import execute

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "catalog-as-code"
SCHEMAS = "definitions/schemas.xreg.yaml"
BOOKINGS = "definitions/bookings.xreg.yaml"
SAILINGS = "definitions/sailings.xreg.yaml"
BOOKING = "/schemagroups/com.example.harbour/schemas/Booking"
SAILING = "/schemagroups/com.example.harbour/schemas/Sailing"

Edit = Callable[[Any], None]


class Repository:
    """A working copy of the example, in which one commit has everything."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(EXAMPLE, folder)
        self.git("init", "--quiet", "--initial-branch=main")
        self.commit()

    def git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", "-c", "user.name=n", "-c", "user.email=n@example.com", *arguments],
            cwd=self.folder,
            capture_output=True,
            check=True,
            text=True,
        )
        return done.stdout

    def commit(self) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message=x")

    def edit(self, name: str, edit: Edit) -> None:
        path = self.folder / name
        document = yaml.safe_load(path.read_text())
        edit(document)
        path.write_text(yaml.safe_dump(document, sort_keys=False))


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    made = Repository(tmp_path / "harbour")
    monkeypatch.chdir(made.folder)
    return made


def lint(*arguments: str, given: str | None = None) -> Result:
    return CliRunner().invoke(app, ["lint", *arguments], input=given)


def findings(*arguments: str, given: str | None = None) -> list[dict[str, Any]]:
    """What is found; the exit code says whether there are errors."""
    result = lint("--json", *arguments, given=given)
    assert result.exit_code in (0, 1), result.output
    answer = orjson.loads(result.stdout)
    assert (result.exit_code == 1) == (answer["errors"] > 0)
    found: list[dict[str, Any]] = answer["findings"]
    return found


def rules(*arguments: str, given: str | None = None) -> list[tuple[str, str]]:
    return [(each["severity"], each["rule"]) for each in findings(*arguments, given=given)]


def at(document: Any, *steps: str) -> Any:
    for step in steps:
        document = document[step]
    return document


def schema(document: Any, name: str, version: str = "2") -> Any:
    versions = at(document, "schemagroups", "com.example.harbour", "schemas", name, "versions")
    return versions[version]


def message(document: Any, group: str, name: str) -> Any:
    return at(
        document, "messagegroups", f"com.example.harbour.{group}", "messages", f"com.example.{name}"
    )


def endpoint(document: Any, name: str) -> Any:
    return at(document, "endpoints", f"com.example.harbour.{name}")


def add_version(name: str, change: Edit) -> Edit:
    """A version 3 like version 2, save for what changes."""

    def edit(document: Any) -> None:
        versions = at(document, "schemagroups", "com.example.harbour", "schemas", name, "versions")
        versions["3"] = yaml.safe_load(yaml.safe_dump(versions["2"])) | {"ancestorid": "2"}
        change(versions["3"]["schema"])

    return edit


def _is_a_draft(document: Any) -> None:
    schema(document, "Booking")["schema"]["type"] = "objekt"


def _lacks_a_schema(document: Any) -> None:
    message(document, "bookings", "harbour.booking.confirmed")["dataschemauri"] += "s"


def _has_two_schemas(document: Any) -> None:
    message(document, "bookings", "harbour.booking.confirmed")["dataschema"] = {}


def _is_its_own_base(document: Any) -> None:
    base = message(document, "bookings", "harbour.booking.confirmed")
    base["basemessage"] = (
        "/messagegroups/com.example.harbour.bookings/messages/com.example.harbour.booking.cancelled"
    )


def _wants_too_many_acks(document: Any) -> None:
    endpoint(document, "sailings.producer")["protocoloptions"]["acks"] = 5


def _has_no_such_usage(document: Any) -> None:
    endpoint(document, "sailings.producer")["usage"] = ["writer"]


def _has_another_root(document: Any) -> None:
    schema(document, "Sailing")["ancestorid"] = "7"


def _has_ids_that_differ_in_case(document: Any) -> None:
    groups = document["messagegroups"]
    groups["com.example.Harbour.bookings"] = {"description": "The node takes one of the two."}


BROKEN: list[tuple[str, Edit, set[tuple[str, str]]]] = [
    (SCHEMAS, _is_a_draft, {("error", "format_violation")}),
    (SCHEMAS, _has_another_root, {("error", "unknown_id")}),
    (BOOKINGS, _lacks_a_schema, {("warning", "reference_dangling")}),
    (BOOKINGS, _has_two_schemas, {("warning", "dataschema_exclusive")}),
    (BOOKINGS, _is_its_own_base, {("warning", "basemessage_circular")}),
    (BOOKINGS, _has_ids_that_differ_in_case, {("error", "bad_request")}),
    (SAILINGS, _wants_too_many_acks, {("warning", "acks_range")}),
    (SAILINGS, _has_no_such_usage, {("error", "invalid_attribute")}),
    (
        SCHEMAS,
        add_version("Booking", lambda new: new["required"].append("vehicle")),
        {("error", "compatibility_violation")},
    ),
    (
        SCHEMAS,
        add_version("Sailing", lambda new: new["fields"].append({"name": "x", "type": "int"})),
        {("error", "compatibility_violation")},
    ),
]


def test_the_example_is_clean(repository: Repository) -> None:
    for arguments in (
        ["definitions"],
        ["."],
        ["definitions/*.yaml"],
        [SCHEMAS, BOOKINGS, SAILINGS],
    ):
        result = lint("--strict", *arguments)
        assert (result.exit_code, result.stdout) == (0, ""), result.output
    assert findings("definitions", "--against", "HEAD") == []


@pytest.mark.parametrize(("name", "edit", "found"), BROKEN)
def test_what_is_broken_in_the_example_is_found(
    repository: Repository, name: str, edit: Edit, found: set[tuple[str, str]]
) -> None:
    repository.edit(name, edit)
    told = findings("definitions")
    assert {(each["severity"], each["rule"]) for each in told} == found
    assert all(each["file"] == name and each["line"] > 1 for each in told)


def _changes_a_published_version(document: Any) -> None:
    schema(document, "Booking")["schema"]["properties"]["vehicle"] = {"type": "string"}


def _describes_a_published_version(document: Any) -> None:
    schema(document, "Booking")["schema"]["description"] = "It was missing."


def _drops_a_published_version(document: Any) -> None:
    versions = at(document, "schemagroups", "com.example.harbour", "schemas", "Sailing", "versions")
    del versions["1"]
    versions["2"]["ancestorid"] = "2"


AGAINST: list[tuple[Edit, set[tuple[str, str, str]]]] = [
    (
        add_version("Booking", lambda new: new["required"].append("vehicle")),
        {("error", "compatibility_violation", BOOKING)},
    ),
    (add_version("Booking", lambda new: new["properties"].update(note={})), set()),
    (_changes_a_published_version, {("error", "version_changed", f"{BOOKING}/versions/2")}),
    (_describes_a_published_version, {("warning", "version_changed", f"{BOOKING}/versions/2")}),
    (_drops_a_published_version, {("warning", "version_removed", f"{SAILING}/versions/1")}),
]


@pytest.mark.parametrize(("edit", "found"), AGAINST)
def test_what_breaks_readers_of_the_last_commit_is_found(
    repository: Repository, edit: Edit, found: set[tuple[str, str, str]]
) -> None:
    repository.edit(SCHEMAS, edit)
    told = findings("definitions", "--against", "HEAD")
    assert {(each["severity"], each["rule"], each["subject"]) for each in told} == found


def test_true_is_another_value_than_1_for_readers(repository: Repository) -> None:
    def requires(value: object) -> Edit:
        def edit(document: Any) -> None:
            schema(document, "Booking")["schema"]["properties"]["vehicle"] = {"const": value}

        return edit

    repository.edit(SCHEMAS, requires(1))
    repository.commit()
    repository.edit(SCHEMAS, requires(True))
    [found] = findings("definitions", "--against", "HEAD")
    assert found["rule"] == "version_changed"


def test_a_new_version_is_held_against_one_that_only_the_last_commit_has(
    repository: Repository,
) -> None:
    def replace(document: Any) -> None:
        add_version("Sailing", lambda new: new["fields"][-1].pop("default"))(document)
        schemas = at(document, "schemagroups", "com.example.harbour", "schemas")
        del schemas["Sailing"]["versions"]["1"]

    repository.edit(SCHEMAS, replace)
    told = findings("definitions", "--against", "HEAD")
    assert {each["rule"] for each in told} == {"compatibility_violation", "version_removed"}
    [refused] = [each for each in told if each["severity"] == "error"]
    assert "3 (backward, with 1)" in refused["message"]
    assert ("error", "unknown_id") in rules("definitions"), "its ancestor is in no document"


def test_what_moved_to_another_file_is_the_same(repository: Repository) -> None:
    path = repository.folder / SCHEMAS
    path.rename(path.with_name("moved.xreg.yaml"))
    assert findings("definitions", "--against", "HEAD") == []
    assert findings("definitions/moved.xreg.yaml", "--against", "HEAD") == []


def test_a_reference_to_what_a_commit_takes_away_is_found(repository: Repository) -> None:
    repository.edit(
        SCHEMAS,
        lambda document: at(document, "schemagroups", "com.example.harbour", "schemas").pop(
            "Sailing"
        ),
    )
    assert rules("definitions", "--against", "HEAD") == [("warning", "reference_dangling")]


def test_a_repository_without_commits_has_nothing_to_break(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(EXAMPLE / "definitions", tmp_path / "definitions")
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    monkeypatch.chdir(tmp_path)
    assert findings("definitions", "--against", "HEAD") == []


def test_other_folders_and_revisions_may_be_named(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.edit(SCHEMAS, _changes_a_published_version)
    repository.commit()
    folder = repository.folder
    monkeypatch.chdir(folder.parent)
    assert findings(str(folder), "--against", "HEAD") == []
    assert rules(f"{folder.name}/definitions", "--against", "HEAD~1") == [
        ("error", "version_changed")
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["definitions", "--against", "nowhere"], "knows no revision nowhere"),
        (["definitions", "--against", "--all"], "knows no revision --all"),
        (["definitions", "--against", "http://127.0.0.1:1"], "cannot be reached"),
        (["definitions", "--model", "none.json"], "model cannot be used"),
        (["none.xreg.json"], "none.xreg.json does not exist"),
        (["--", "*.none"], "names no document"),
    ],
)
def test_what_cannot_be_done_is_told_in_a_sentence(
    repository: Repository, arguments: list[str], said: str
) -> None:
    result = lint(*arguments)
    assert result.exit_code == 2
    assert said in result.stderr


def test_a_file_that_holds_no_document_is_an_error_beside_the_others(
    repository: Repository,
) -> None:
    (repository.folder / "definitions" / "a.xreg.json").write_text("{")
    repository.edit(SAILINGS, _wants_too_many_acks)
    assert rules("definitions") == [("error", "no_document"), ("warning", "acks_range")]


def test_every_rule_that_a_document_breaks_is_told_at_once(repository: Repository) -> None:
    repository.edit(SCHEMAS, _is_a_draft)
    repository.edit(
        SCHEMAS,
        add_version("Sailing", lambda new: new["fields"].append({"name": "x", "type": "int"})),
    )
    repository.edit(SAILINGS, _has_no_such_usage)
    repository.edit(BOOKINGS, _has_two_schemas)
    assert sorted(rules("definitions")) == [
        ("error", "compatibility_violation"),
        ("error", "format_violation"),
        ("error", "invalid_attribute"),
        ("warning", "dataschema_exclusive"),
    ]


def test_warnings_fail_only_where_that_is_asked_for(repository: Repository) -> None:
    repository.edit(SAILINGS, _wants_too_many_acks)
    assert lint("definitions").exit_code == 0
    strict = lint("definitions", "--strict")
    assert strict.exit_code == 1
    assert f"{SAILINGS}:" in strict.stdout
    assert ": error acks_range /endpoints/com.example.harbour.sailings.producer: " in strict.stdout
    assert "1 error." in strict.stderr


def test_attributes_that_the_model_lacks_are_warned_of_with_the_name_that_may_be_meant() -> None:
    misspelt = {"envelop": "CloudEvents/1.0", "older": {"kept": 1}}
    group = {"descripton": "x", "mine": 1, "messages": {"m": misspelt, "n": misspelt}}
    will = {"protocol": "MQTT/5.0", "protocoloptions": {"topic_name": "t"}}
    groups = {"messagegroups": {"g": group, "right": {"messages": {"m": will}}}}
    text = orjson.dumps(groups).decode()
    found = {each["pointer"]: each["message"] for each in findings("-", given=text)}
    assert found.keys() == {
        "/messagegroups/g/descripton",
        "/messagegroups/g/mine",
        "/messagegroups/g/messages/m/envelop",
    }
    assert '"description" may be meant' in found["/messagegroups/g/descripton"]
    assert "Define it in the model" in found["/messagegroups/g/mine"]
    assert '"envelope" may be meant. (2 times)' in found["/messagegroups/g/messages/m/envelop"]
    assert set(rules("-", "--strict", given=text)) == {("error", "unknown_attribute")}


def test_a_pull_request_is_annotated(repository: Repository) -> None:
    repository.edit(SAILINGS, _wants_too_many_acks)
    [line] = lint("definitions", "--format", "github").stdout.splitlines()
    assert line.startswith(f"::warning file={SAILINGS},line=")
    assert "title=acks_range /endpoints/com.example.harbour.sailings.producer::5 is none of" in line


def test_findings_are_kept_for_code_scanning_and_for_a_comment(repository: Repository) -> None:
    repository.edit(SAILINGS, _wants_too_many_acks)
    files = [repository.folder / name for name in ("lint.sarif", "comment.md", "lint.json")]
    result = lint("definitions", *(word for file in files for word in ("--report", str(file))))
    sarif, comment, told = (file.read_text() for file in files)
    [run] = orjson.loads(sarif)["runs"]
    [found] = run["results"]
    assert (found["ruleId"], found["level"]) == ("acks_range", "warning")
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["acks_range"]
    [place] = found["locations"]
    place = place["physicalLocation"]
    assert place["artifactLocation"]["uri"] == SAILINGS
    lines = (repository.folder / SAILINGS).read_text().splitlines()
    assert "acks" in lines[place["region"]["startLine"] - 1]
    assert comment.startswith("<!-- concord lint -->\n**concord lint**: 1 warning\n")
    assert comment.count("\n| warning |") == 1
    assert orjson.loads(told)["warnings"] == 1
    assert "acks_range" in result.stdout


def test_texts_of_documents_are_no_mark_up_in_a_comment(tmp_path: Path) -> None:
    name = "a|b`c<img src=x>@everyone [x](http://evil.example)"
    text = orjson.dumps({"schemagroups": {"g": {"schemas": {name: {}}}}}).decode()
    comment = tmp_path / "comment.md"
    assert lint("-", "--report", str(comment), given=text).exit_code == 1
    [row] = [line for line in comment.read_text().splitlines() if line.startswith("| error")]
    assert row.replace("\\|", "").count("|") == 4
    assert not {*"<>@`["} & {*row}


def test_a_report_of_an_unknown_kind_is_refused_before_the_work(tmp_path: Path) -> None:
    result = lint("-", "--report", str(tmp_path / "report.xml"), given="{}")
    assert result.exit_code == 2
    assert ".sarif or .md or .json" in " ".join(result.stderr.split())


def test_two_documents_that_say_different_things_of_one_entity_are_told(
    repository: Repository,
) -> None:
    group = {"com.example.harbour": {"name": "Port", "schemas": {}}}
    text = orjson.dumps({"schemagroups": group}).decode()
    [finding] = findings("definitions", "-", given=text)
    assert (finding["rule"], finding["subject"]) == (
        "declared_twice",
        "/schemagroups/com.example.harbour",
    )
    assert SCHEMAS in finding["message"]


def test_what_leads_out_of_the_documents_is_a_note_and_no_fault() -> None:
    document = {
        "messagegroups": {"g": {"messages": {"m": {"basemessage": "/messagegroups/h/messages/m"}}}}
    }
    [finding] = findings("-", "--strict", given=orjson.dumps(document).decode())
    assert (finding["severity"], finding["rule"]) == ("note", "reference_elsewhere")


def test_an_origin_that_no_catalog_keeps_and_a_schema_that_is_none_are_told() -> None:
    broken = {"dataschemaformat": "JsonSchema/draft-07", "dataschema": {"type": "no"}}
    message = {"origin": "https://far.example/m", **broken}
    replica = {**message, "dataschema": {}, "meta": {"readonly": True}}
    document = {"messagegroups": {"g": {"messages": {"m": message, "r": replica}}}}
    found = findings("-", given=orjson.dumps(document).decode())
    below = "/messagegroups/g/messages/m"
    assert {(each["rule"], each["pointer"]) for each in found} == {
        ("provenance_ignored", f"{below}/origin"),
        ("dataschema_invalid", f"{below}/dataschema"),
    }


def test_another_model_may_be_named(tmp_path: Path) -> None:
    model = tmp_path / "model.json"
    kinds = {"singular": "team", "attributes": {"lead": {"type": "string", "required": True}}}
    model.write_bytes(orjson.dumps({"groups": {"teams": kinds}}))
    text = orjson.dumps({"teams": {"a": {"lead": "Ada"}, "b": {}}}).decode()
    [finding] = findings("-", "--model", str(model), given=text)
    assert (finding["rule"], finding["subject"]) == ("required_attribute_missing", "/teams/b")
    assert {each["rule"] for each in findings("-", given=text)} == {"groups_only"}


def test_older_editions_are_told_unless_they_are_to_be_migrated() -> None:
    document = ROOT / "tests" / "documents" / "spec" / "contoso-crm.cereg.json"
    assert ("warning", "older_edition") in rules(str(document))
    assert not [
        each for each in findings(str(document), "--migrate") if each["severity"] == "error"
    ]


async def test_documents_are_held_against_a_running_catalog(
    node: Node, repository: Repository
) -> None:
    for name in (SCHEMAS, BOOKINGS, SAILINGS):
        document = yaml.safe_load((repository.folder / name).read_text())
        groups = {plural: value for plural, value in document.items() if plural != "specversion"}
        assert (await node.send("POST", "/", groups)).status == 200
    assert await against(node) == []
    repository.edit(SCHEMAS, add_version("Booking", lambda new: new["required"].append("vehicle")))
    assert await against(node) == [("error", "compatibility_violation")]
    refused = yaml.safe_load((repository.folder / SCHEMAS).read_text())["schemagroups"]
    answer = await node.send("POST", "/", {"schemagroups": refused})
    assert (answer.status, answer.error) == (400, "compatibility_violation"), "as was foretold"


async def test_references_into_a_running_catalog_are_followed(
    node: Node, repository: Repository
) -> None:
    await node.put("/messagegroups/others/messages/base", {"name": "base"})
    document = {
        "messagegroups": {
            "g": {
                "messages": {
                    "a": {"basemessage": "/messagegroups/others/messages/base"},
                    "b": {"basemessage": f"{node.url}/messagegroups/others/messages/none"},
                    "c": {"basemessage": "/messagegroups/nowhere/messages/none"},
                }
            }
        }
    }
    (repository.folder / "definitions" / "a.xreg.json").write_bytes(orjson.dumps(document))
    told = await against(node, "definitions/a.xreg.json")
    assert told == [("warning", "reference_dangling")] * 2


async def test_replicas_are_left_alone_where_the_document_says_that_they_are(
    node: Node, tmp_path: Path
) -> None:
    await node.put("/messagegroups/g/messages/m")
    await execute(
        node, "UPDATE entities SET authority = 'https://elsewhere.example' WHERE kind <> 'registry'"
    )
    export = tmp_path / "export.xreg.json"
    exported = await node.get("/export")
    export.write_bytes(orjson.dumps(exported))
    assert await against(node, str(export)) == []
    del exported["messagegroups"]["g"]["messages"]["m"]["meta"]["readonly"]
    export.write_bytes(orjson.dumps(exported))
    assert {rule for _, rule in await against(node, str(export))} == {"readonly"}


async def test_the_model_of_a_running_catalog_holds(node: Node, repository: Repository) -> None:
    source = {"groups": {"schemagroups": {"singular": "schemagroup"}}}
    assert (await node.send("PUT", "/modelsource", source)).status == 200
    faults = {"unknown_attribute", "groups_only"}
    assert {rule for _, rule in await against(node)} == faults
    (repository.folder / "catalog.xreg.json").write_bytes(orjson.dumps(await node.get("/export")))
    told = await asyncio.to_thread(rules, "definitions", "--against", "catalog.xreg.json")
    assert {rule for _, rule in told} == faults


async def against(node: Node, *paths: str) -> list[tuple[str, str]]:
    """What a command finds that runs beside the node."""
    arguments = [*(paths or ("definitions",)), "--against", node.url]
    return await asyncio.to_thread(rules, *arguments)


def test_the_hook_does_what_pre_commit_would_run(repository: Repository) -> None:
    [hook] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    configured = yaml.safe_load((repository.folder / ".pre-commit-config.yaml").read_text())
    [used] = configured["repos"][0]["hooks"]
    assert used["id"] == hook["id"] == "concord-lint"
    assert hook["pass_filenames"] is False, "documents refer to each other, so they are one set"
    for name in ("a.xreg.json", "b/a.XREG.yml", "c.cereg", "c.cereg.yaml"):
        assert re.search(hook["files"], name), name
    assert not re.search(hook["files"], "a.json")
    program, command = hook["entry"].split()
    assert program == "concord"
    run = [sys.executable, "-m", "catalog.cli", command, *used.get("args", hook["args"])]
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    for edit, code in ((None, 0), (_is_a_draft, 1)):
        if edit is not None:
            repository.edit(SCHEMAS, edit)
        done = subprocess.run(run, cwd=repository.folder, env=environment, capture_output=True)
        assert done.returncode == code, done.stderr


def changes(*arguments: str) -> list[dict[str, Any]]:
    result = lint("definitions", "--json", *arguments)
    assert result.exit_code in (0, 1), result.output
    found: list[dict[str, Any]] = orjson.loads(result.stdout)["changes"]
    return found


def _requires_the_vehicle(new: Any) -> None:
    new["required"].append("vehicle")
    new["properties"]["remark"] = {"type": "string"}


CONFIRMED = (
    "/messagegroups/com.example.harbour.bookings/messages/com.example.harbour.booking.confirmed"
)
WEBHOOK = "/endpoints/com.example.harbour.bookings.webhook"


def test_a_change_names_the_fields_that_break_readers_and_who_uses_the_schema(
    repository: Repository,
) -> None:
    assert changes("--against", "HEAD") == []
    repository.edit(SCHEMAS, add_version("Booking", _requires_the_vehicle))
    [change] = changes("--against", "HEAD")
    assert change["subject"] == f"{BOOKING}/versions/3"
    assert (change["kind"], change["former"]) == ("added", f"{BOOKING}/versions/2")
    assert (change["rule"], change["compatible"]) == ("backward_transitive", False)
    assert {each["path"]: each["breaking"] for each in change["fields"]} == {
        "vehicle": True,
        "remark": False,
    }
    assert {"catalog": "HEAD", "xid": CONFIRMED} in change["users"]
    assert {"catalog": "HEAD", "xid": WEBHOOK} in change["users"], "through the message"
    assert str(change["line"]) in lint("definitions", "--against", "HEAD").stdout


def test_changes_of_messages_and_removals_are_told(repository: Repository) -> None:
    def edit(document: Any) -> None:
        group = at(document, "messagegroups", "com.example.harbour.bookings")
        group["messages"]["com.example.harbour.booking.confirmed"]["description"] = "Paid"
        del group["messages"]["com.example.harbour.booking.cancelled"]

    repository.edit(BOOKINGS, edit)
    removed, changed = changes("--against", "HEAD")
    assert (removed["kind"], changed["kind"]) == ("removed", "changed")
    assert removed["subject"].endswith("booking.cancelled")
    assert [(field["path"], field["new"]) for field in changed["fields"]] == [
        ("description", "Paid")
    ]
    assert WEBHOOK in {user["xid"] for user in removed["users"]}


def test_a_rule_that_is_lowered_with_the_change_is_the_rule_in_force(
    repository: Repository,
) -> None:
    def edit(document: Any) -> None:
        add_version("Booking", _requires_the_vehicle)(document)
        schemas = at(document, "schemagroups", "com.example.harbour", "schemas")
        del schemas["Booking"]["meta"]["compatibility"]

    repository.edit(SCHEMAS, edit)
    assert findings("definitions", "--against", "HEAD") == []
    meta, version = changes("--against", "HEAD")
    assert meta["fields"] == [{"path": "meta.compatibility", "old": "backward_transitive"}]
    assert (version["rule"], version["compatible"]) == ("backward_transitive", False)


def test_a_comment_has_the_rows_that_fit_and_the_number_of_the_others(tmp_path: Path) -> None:
    schemas = {f"{'`' * 150}{n}": {} for n in range(500)}
    text = orjson.dumps({"schemagroups": {"g": {"schemas": schemas}}}).decode()
    comment = tmp_path / "comment.md"
    assert lint("-", "--report", str(comment), given=text).exit_code == 1
    assert len(comment.read_text()) < 65_536
    assert re.search(r"^and \d+ more$", comment.read_text(), re.MULTILINE)


async def test_changes_are_found_against_an_export_and_users_in_every_catalog_that_is_named(
    node: Node, repository: Repository
) -> None:
    for name in (SCHEMAS, BOOKINGS, SAILINGS):
        document = yaml.safe_load((repository.folder / name).read_text())
        groups = {plural: value for plural, value in document.items() if plural != "specversion"}
        assert (await node.send("POST", "/", groups)).status == 200
    (repository.folder / "catalog.xreg.json").write_bytes(orjson.dumps(await node.get("/export")))
    # A region has a user that this repository knows nothing of.
    other = "/messagegroups/region/messages/copied"
    await node.put(other, {"basemessage": CONFIRMED})
    repository.edit(SCHEMAS, add_version("Booking", _requires_the_vehicle))
    regions = [node.url, node.url.replace("127.0.0.1", "localhost")]
    named = [word for url in regions for word in ("--against", url)]
    [offline] = await asyncio.to_thread(changes, "--against", "catalog.xreg.json")
    [online] = await asyncio.to_thread(changes, *named)
    [both] = await asyncio.to_thread(changes, "--against", "HEAD", *named)
    assert offline["fields"] == online["fields"] == both["fields"]
    assert offline["reason"] == online["reason"] == both["reason"]
    users = {(user["catalog"], user["xid"]) for user in both["users"]}
    assert {("HEAD", WEBHOOK), (regions[0], other), (regions[1], other)} <= users
    assert {user["catalog"] for user in offline["users"]} == {"catalog.xreg.json"}
    assert {user["catalog"] for user in online["users"]} == {*regions}
    result = await asyncio.to_thread(lint, "definitions", *named, "--against", "HEAD")
    assert result.exit_code == 2
    assert "Only the first --against" in " ".join(result.stderr.split())


async def test_the_steps_of_the_two_pipelines_run(
    node: Node, repository: Repository, tmp_path: Path
) -> None:
    github = yaml.safe_load((EXAMPLE / ".github" / "workflows" / "catalog.yaml").read_text())
    gitlab = yaml.safe_load((EXAMPLE / ".gitlab-ci.yml").read_text())
    program = tmp_path / "bin" / "concord"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m catalog.cli "$@"\n')
    program.chmod(0o755)
    environment = {
        "PATH": f"{program.parent}:/usr/bin:/bin",
        "PYTHONPATH": str(ROOT),
        "CONCORD_URL": node.url,
        "GITHUB_BASE_REF": "main",
        "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
    }
    clone = tmp_path / "clone"
    repository.git("clone", "--quiet", str(repository.folder), str(clone))

    async def steps_of(lines: list[str]) -> list[int]:
        return [
            (
                await asyncio.to_thread(
                    subprocess.run, ["bash", "-e", "-c", line], cwd=clone, env=environment
                )
            ).returncode
            for line in lines
            if line.startswith(("concord", "git fetch"))
        ]

    def github_job(name: str) -> list[str]:
        return [str(step.get("run", "")) for step in github["jobs"][name]["steps"]]

    assert await steps_of(github_job("apply")) == [0]
    assert await steps_of(gitlab["apply"]["script"]) == [0]
    assert (await node.get(WEBHOOK))["usage"]
    assert await steps_of(github_job("lint")) == [0, 0]
    assert await steps_of(gitlab["lint"]["script"]) == [0, 0, 0]
    document = yaml.safe_load((clone / SCHEMAS).read_text())
    add_version("Booking", _requires_the_vehicle)(document)
    (clone / SCHEMAS).write_text(yaml.safe_dump(document))
    for lines in (github_job("lint"), gitlab["lint"]["script"]):
        assert (await steps_of(lines))[-2:] == [1, 1], "it would be refused"
        comment = (clone / "comment.md").read_text()
        assert "breaking&#58; vehicle was" in comment
        assert node.url.removeprefix("http://").partition(":")[0] in comment
        [run] = orjson.loads((clone / "lint.sarif").read_bytes())["runs"]
        assert {"change", "compatibility_violation"} <= {each["ruleId"] for each in run["results"]}
