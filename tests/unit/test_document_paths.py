"""Arguments of commands name document files, directories, patterns or the standard input."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from catalog.commands import documentpaths
from catalog.commands.documentpaths import DocumentPathError, document_paths
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
    with pytest.raises(DocumentPathError, match="names no document"):
        document_paths([argument])


def test_a_directory_without_documents_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DocumentPathError, match="names no document"):
        document_paths([str(tmp_path)])


@pytest.mark.usefixtures("tree")
def test_more_documents_than_allowed_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documentpaths, "_MOST_FILES", 2)
    with pytest.raises(DocumentPathError, match="names more than 2 documents"):
        document_paths(["."])


@pytest.mark.parametrize("text", ['{"a": 1}', "a: 1"])
def test_the_standard_input_is_json_or_yaml(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert read_object_file(STDIN) == {"a": 1}


def test_a_standard_input_over_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("catalog.documents.serialization.LARGEST_BYTES", 4)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a: 1 ")))
    with pytest.raises(SourceFileError, match="standard input is larger"):
        read_object_file(STDIN)
