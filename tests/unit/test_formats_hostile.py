"""Documents that were made to do harm are answered like any other."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

from catalog.formats.checker import MAX_BYTES, Checker
from catalog.formats.worker import confine
from tests.documentchecks import compare, validate

XS = '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">'
LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
BILLION_LAUGHS = f'<!DOCTYPE s [<!ENTITY l0 "ha">{LAUGHS}]>{XS}&l9;</xs:schema>'
NESTED_XML = f"{XS}{'<xs:annotation>' * 50_000}{'</xs:annotation>' * 50_000}</xs:schema>"
NESTED_MESSAGES = 'syntax = "proto3";' + "message A {" * 9999 + "}" * 9999

REFUSED = [
    ("XSD/1.0", BILLION_LAUGHS, "forbidden"),
    ("XSD/1.0", f'<!DOCTYPE s SYSTEM "file:///etc/passwd">{XS}</xs:schema>', "forbidden"),
    ("XSD/1.1", NESTED_XML, "XML"),
    ("Avro/1.12", '{"type":"array","items":' * 400 + '"int"' + "}" * 400, "nested too deeply"),
    ("Avro/1.12", "[" * 100_000, "JSON"),
    ("JsonSchema/draft-07", '{"not":' * 100_000 + "{}" + "}" * 100_000, "JSON"),
    ("JsonStructure/draft-04", "[" * 900 + "]" * 900, "object"),
    ("Protobuf/3", NESTED_MESSAGES, "recursion limit"),
    ("Protobuf/3", " " * (MAX_BYTES + 1), "bytes"),
]

# Matching takes longer than the world is old.
PATTERN = "(a+)+$"
VICTIM = "a" * 60 + "!"
CATASTROPHE = [json.dumps({"const": VICTIM}).encode(), json.dumps({"pattern": PATTERN}).encode()]


_of_others: set[psutil.Process] = set()


@pytest.fixture(autouse=True)
def _know_others() -> None:
    """A node that serves other tests of this run has processes of its own."""
    _of_others.clear()
    _of_others.update(psutil.Process().children())


def workers() -> list[psutil.Process]:
    """The processes that check for this test."""
    mine = set(psutil.Process().children()) - _of_others
    return [child for child in mine if "catalog.formats.worker" in child.cmdline()]


def files(folder: Path) -> list[Path]:
    return [*folder.iterdir()]


@pytest.mark.parametrize(
    ("format", "document", "reason"), REFUSED, ids=[f"{case[0]}-{case[2]}" for case in REFUSED]
)
async def test_a_hostile_document_is_refused_and_the_next_one_is_checked(
    format: str, document: str, reason: str
) -> None:
    async with Checker(processes=1) as checker:
        assert reason in await validate(checker, format, document.encode())
        assert await validate(checker, "Avro", b'"int"') == ""


async def test_a_catastrophic_expression_in_a_json_schema_ends_its_check_only() -> None:
    async with Checker(processes=1, seconds=2) as checker:
        answer = await compare(checker, "JsonSchema/draft-07", *CATASTROPHE, "backward")
        assert answer == "the check took longer than 2 seconds (CONCORD_CHECK_SECONDS)"
        assert await validate(checker, "Avro", b'"int"') == ""


async def test_a_catastrophic_expression_in_an_xml_schema_ends_its_check_only() -> None:
    types = (
        '<xs:simpleType name="t"><xs:restriction base="xs:string"><xs:pattern value="(a+)+"/>'
        '</xs:restriction></xs:simpleType><xs:simpleType name="u"><xs:restriction base="t">'
        f'<xs:enumeration value="{VICTIM}"/></xs:restriction></xs:simpleType>'
    )
    async with Checker(processes=1, seconds=2) as checker:
        answer = await validate(checker, "XSD/1.0", f"{XS}{types}</xs:schema>".encode())
        assert answer == "the check took longer than 2 seconds (CONCORD_CHECK_SECONDS)"
        assert await validate(checker, "Avro", b'"int"') == ""


async def test_a_schema_that_is_nested_too_deeply_is_not_compared() -> None:
    older, newer = ('{"not":' * 900 + inner + "}" * 900 for inner in ("{}", "true"))
    async with Checker(processes=1) as checker:
        answer = await compare(
            checker, "JsonSchema/draft-07", older.encode(), newer.encode(), "backward"
        )
        assert "nested too deeply" in answer


async def test_a_large_document_is_checked() -> None:
    properties = {f"p{n}": {"type": "string", "description": "x" * 60} for n in range(30_000)}
    document = json.dumps({"properties": properties}).encode()
    assert MAX_BYTES * 3 // 4 < len(document) < MAX_BYTES
    async with Checker(processes=1) as checker:
        assert await validate(checker, "JsonSchema/draft-07", document) == ""


async def test_an_answer_that_came_too_late_is_not_remembered() -> None:
    async with Checker(processes=1, seconds=1) as checker:
        assert await validate(checker, "Avro", b'"int"') == ""
        (worker,) = workers()
        worker.send_signal(signal.SIGSTOP)
        assert "longer than 1 seconds" in await validate(checker, "Avro", b'"long"')
        assert await validate(checker, "Avro", b'"long"') == ""


async def test_what_was_answered_is_answered_again_without_a_check() -> None:
    async with Checker(processes=1) as checker:
        reason = await validate(checker, "Avro/1.12", b'"strin"')
        (worker,) = workers()
        worker.send_signal(signal.SIGSTOP)
        assert reason
        assert await validate(checker, "AVRO/1.12", b'"strin"') == reason


async def test_a_check_that_ends_its_process_is_answered_and_the_next_one_is_made() -> None:
    async with Checker(processes=1) as checker:
        comparison = compare(checker, "JsonSchema/draft-07", *CATASTROPHE, "backward")
        asked = asyncio.create_task(comparison)
        async with asyncio.timeout(5):
            while not workers():
                await asyncio.sleep(0.01)  # between two looks
        workers()[0].kill()
        assert await asked == "the check came to an unexpected end"
        assert await validate(checker, "Avro", b'"long"') == ""


async def test_a_process_that_died_while_it_was_idle_is_replaced() -> None:
    async with Checker(processes=1) as checker:
        assert await validate(checker, "Avro", b'"int"') == ""
        (worker,) = workers()
        worker.kill()
        assert await validate(checker, "Avro", b'"long"') == ""


async def test_a_cancelled_check_leaves_neither_its_process_nor_its_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    async with Checker(processes=1) as checker:
        assert await validate(checker, "Avro", b'"int"') == ""
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await compare(checker, "JsonSchema/draft-07", *CATASTROPHE, "backward")
        assert workers() == []
        assert files(tmp_path) == []
        assert await validate(checker, "Avro", b'"long"') == ""
    assert workers() == []
    assert files(tmp_path) == []


async def test_checks_run_side_by_side_in_as_many_processes_as_are_allowed() -> None:
    async with Checker(processes=2) as checker:
        documents = [json.dumps({"const": number}).encode() for number in range(20)]
        answers = [validate(checker, "JsonSchema", document) for document in documents]
        assert {*await asyncio.gather(*answers)} == {""}
        assert len(workers()) == 2


@pytest.mark.parametrize(
    ("deed", "event"),
    [
        ("import socket; socket.socket()", "socket.__new__"),
        ("import urllib.request as r; r.urlopen('http://b.example')", "urllib.Request"),
        ("import subprocess; subprocess.run('true')", "subprocess.Popen"),
        ("import os; os.fork()", "os.fork"),
    ],
)
async def test_a_checking_process_has_no_network_and_starts_no_program(
    deed: str, event: str
) -> None:
    answer = await confined(deed)
    assert f"PermissionError: a check may not do this: {event}" in answer


async def test_a_checking_process_has_so_much_memory_and_no_more() -> None:
    assert "MemoryError" in await confined(f"bytes({2**31})")


async def confined(deed: str) -> str:
    """What a process says of itself that confines itself to 1 GiB and then does this."""
    script = f"from {confine.__module__} import confine; confine(2**30); {deed}"
    command = [sys.executable, "-c", script]
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    _, errors = await process.communicate()
    return errors.decode()
