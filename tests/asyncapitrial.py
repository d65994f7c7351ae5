"""Tries AsyncAPI documents of a directory at a node, and counts what became of them.

    python -m tests.asyncapitrial DIRECTORY --url http://127.0.0.1:8080

Each document is imported, exported, and imported again. The official parser reads the document and
the export. `docs/asyncapi.md` has the counts of the documents that it names.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from catalog.client import Client
from catalog.commands.documentfile import DocumentFile, read_document, write_asyncapi
from catalog.commands.import_.importing import import_document
from catalog.commands.referencedparts import export_asyncapi
from catalog.documents.asyncapi.fromentities import EDITIONS
from catalog.documents.serialization import SourceFileError
from tests.brokers.asyncapiparser import parse_errors

_SUFFIXES = (".json", ".yaml", ".yml")
Counts = dict[str, "Counter[str]"]


async def try_documents(client: Client, files: list[Path], work: Path) -> Counts:
    """The counts of the results, of the losses, and of the broken rules.

    Args:
        client: the client of a node, which gets the documents.
        files: the documents.
        work: an empty directory for the exports.
    """
    results, losses, rules = Counter[str](), Counter[str](), Counter[str]()
    errors = dict(zip(files, await parse_errors(_made(work / "given"), files), strict=True))
    exports: dict[Path, list[Path]] = {}
    for file in files:
        results["documents"] += 1
        try:
            document = read_document(file)
        except SourceFileError as error:
            results[f"not read: {error.message.partition(': ')[2]}"] += 1
            continue
        losses.update({loss.reason.partition(",")[0]: 1 for loss in document.losses})
        result = await import_document(client, document)
        rules.update({violation.name: 1 for violation in result.violations})
        results["imported whole" if result.is_imported else "imported with --keep-going"] += 1
        if not result.is_imported:
            await import_document(client, document, keep_going=True)
        if not errors[file]:
            results["accepted by the parser"] += 1
        exports[file] = await _export(client, document, work / str(len(exports)))
        again = await import_document(client, read_document(exports[file][0]), keep_going=True)
        results["unchanged by export and import"] += again.is_imported and not again.written
        if again.written:
            print(f"changed by export and import: {file}")
        await _delete(client, document)
    written = [path for paths in exports.values() for path in paths]
    found = dict(zip(written, await parse_errors(_made(work / "made"), written), strict=True))
    for file, paths in exports.items():
        for edition, path in zip(EDITIONS, paths, strict=True):
            if not errors[file] and not found[path]:
                results[f"and so its export in {edition}"] += 1
            elif not errors[file]:
                print(f"not accepted in {edition}: {file}: {found[path][0]}")
    return {"results": results, "losses": losses, "rules": rules}


async def _export(client: Client, document: DocumentFile, stem: Path) -> list[Path]:
    """Write the groups of a document to a file in each edition; return the files."""
    [group] = document.groups["schemagroups"]
    written = []
    for edition in EDITIONS:
        exported = await export_asyncapi(
            client, [f"/schemagroups/{group}"], own=False, edition=edition
        )
        path = stem.with_suffix(f".{edition}.asyncapi.json")
        path.write_bytes(write_asyncapi(exported, "asyncapi.json"))
        written.append(path)
    return written


async def _delete(client: Client, document: DocumentFile) -> None:
    """Delete the groups of a document: other documents may have the same title."""
    for plural, groups in document.groups.items():
        for id in groups:
            await client.delete(f"/{plural}/{id}")


def _made(directory: Path) -> Path:
    directory.mkdir()
    return directory


def _documents(directory: Path) -> Iterator[Path]:
    for path in sorted(directory.rglob("*")):
        if path.suffix in _SUFFIXES and path.is_file():
            yield path


async def _main(directory: Path, url: str) -> None:
    with tempfile.TemporaryDirectory() as work:
        async with Client.open(url) as client:
            counts = await try_documents(client, [*_documents(directory)], Path(work))
    for title, counted in counts.items():
        print(f"{title}:")
        for name, count in counted.most_common():
            print(f"  {count:4} {name}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--url", default="http://127.0.0.1:8080")
    given = parser.parse_args()
    asyncio.run(_main(given.directory, given.url))
