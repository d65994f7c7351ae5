"""Arguments of commands name document files, directories, patterns or the standard input."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from catalog.commands import documentfile
from catalog.commands.console import CommandError
from catalog.commands.documentfile import document_paths, read_document
from catalog.documents.serialization import STDIN, SourceFileError, read_object_file

FILES = ("a.xreg.json", "b/c.CEREG.yaml", "b/d.cereg", "b/notes.json", ".git/e.xreg.json")


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in FILES:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("{}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("tree")
@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["."], ["a.xreg.json", "b/c.CEREG.yaml", "b/d.cereg"]),
        (["b", "a.xreg.json"], ["b/c.CEREG.yaml", "b/d.cereg", "a.xreg.json"]),
        (["b/notes.json"], ["b/notes.json"]),
        (["**/*.cereg", "b"], ["b/d.cereg", "b/c.CEREG.yaml"]),
        (["b/*"], ["b/c.CEREG.yaml", "b/d.cereg"]),
        (["a.xreg.json", "./a.xreg.json"], ["a.xreg.json"]),
        (["-"], ["-"]),
        (["missing.xreg.json"], ["missing.xreg.json"]),
    ],
)
def test_arguments_name_each_document_once_in_their_order(
    arguments: list[str], found: list[str]
) -> None:
    assert [str(path) for path in document_paths(arguments)] == found


@pytest.mark.usefixtures("tree")
@pytest.mark.parametrize("argument", ["*.toml", "b/*.json"])
def test_a_pattern_that_finds_no_document_is_an_error(argument: str) -> None:
    with pytest.raises(CommandError, match="names no document"):
        document_paths([argument])


def test_a_directory_without_documents_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="names no document"):
        document_paths([str(tmp_path)])


@pytest.mark.usefixtures("tree")
def test_more_documents_than_allowed_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documentfile, "_MOST_FILES", 2)
    with pytest.raises(CommandError, match="names more than 2 documents"):
        document_paths(["."])


def test_who_gives_a_url_is_told_how_to_fetch_it() -> None:
    with pytest.raises(CommandError, match="is a URL") as refused:
        document_paths(["https://example.com/a?b&c"])
    assert "curl -fsSL 'https://example.com/a?b&c' | concord" in refused.value.hint


@pytest.mark.parametrize("coding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize(("name", "text"), [("a.json", '{"a": "é"}'), ("a.yaml", "a: é")])
def test_a_file_is_read_in_the_codings_that_editors_write(
    tmp_path: Path, name: str, text: str, coding: str
) -> None:
    path = tmp_path / name
    path.write_bytes(text.encode(coding))
    assert read_object_file(path) == {"a": "é"}
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(SourceFileError, match="neither UTF-8 nor UTF-16"):
        read_object_file(path)


@pytest.mark.parametrize(
    ("text", "format"),
    [
        ('{"openapi": "3.1.0", "paths": {"/": {}}}', "OpenAPI/3.1.0"),
        ('{"swagger": "2.0", "paths": {"/": {}}}', "OpenAPI/2.0"),
        ('{"$schema": "http://json-schema.org/draft-07/schema#", "$defs": {}}', "JsonSchema"),
        ('{"type": "object", "properties": {"a": {}}}', "JsonSchema"),
        ('{"type": "record", "name": "R", "fields": []}', "Avro"),
    ],
)
def test_a_document_of_another_kind_is_told_by_its_kind(
    tmp_path: Path, text: str, format: str
) -> None:
    path = tmp_path / "a b.json"
    path.write_text(text)
    with pytest.raises(SourceFileError, match=f"one of {format}") as refused:
        read_document(path)
    assert f"curl -T '{path}' -H 'xRegistry-format: {format}'" in refused.value.hint


@pytest.mark.parametrize("text", ['{"a": 1}', "a: 1"])
def test_the_standard_input_is_json_or_yaml(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert read_object_file(STDIN) == {"a": 1}


def test_a_standard_input_over_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("catalog.documents.serialization.LARGEST_BYTES", 4)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a: 1 ")))
    with pytest.raises(SourceFileError, match="standard input is larger"):
        read_object_file(STDIN)
