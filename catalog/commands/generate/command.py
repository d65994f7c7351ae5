"""The command `generate`, which runs `xrcg` of the xRegistry project, a program of its own."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catalog.commands.console import (
    DEFAULT_URL,
    NO,
    CommandError,
    Url,
    cell,
    err,
    on_node,
    run,
    show_error,
)

if TYPE_CHECKING:
    from catalog.commands.generate.pins import Definition, Pins

app = typer.Typer()
TRIED = "0.11.0"
_LONGEST_SECONDS = 600
_LONGEST_REASON = 500
_VERSION = re.compile(r"\d+\.\d+\.\d+")
# The program ends with 0 after some of its errors.
_FAULT = re.compile(r"^\d{4}-\S+ \S+ - \S+ - (?:ERROR|CRITICAL) - (.*)$", re.MULTILINE)
_INSTALL = (
    "Install it in an environment of its own (python3 -m venv codegen && codegen/bin/pip install "
    f"xrcg=={TRIED}), and name it with --generator codegen/bin/xrcg."
)
_STYLES = "xrcg list shows its languages and styles, concord lint what is wrong with definitions."


@app.command()
def generate(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH", help="Message groups or endpoints, as /messagegroups/weather."
        ),
    ],
    language: Annotated[
        str,
        typer.Option(
            "--language", help="py, ts, java, cs, go or another of xrcg's.", metavar="LANGUAGE"
        ),
    ],
    style: Annotated[
        str,
        typer.Option("--style", help="kafkaproducer or another of xrcg's styles.", metavar="STYLE"),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The directory for the code.", metavar="DIR")
    ],
    name: Annotated[
        str | None,
        typer.Option(
            "--projectname",
            help="The name of the project; by default the directory's.",
            metavar="NAME",
        ),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option("--from", help="An export, in place of the node.", metavar="FILE"),
    ] = None,
    lock: Annotated[Path, typer.Option(help="The file that pins versions.", metavar="FILE")] = Path(
        "concord.lock"
    ),
    update: Annotated[
        bool, typer.Option("--update", help="Move the pins to what the catalog has now.")
    ] = False,
    allow_deprecated: Annotated[
        bool, typer.Option("--allow-deprecated", help="Generate from deprecated definitions, too.")
    ] = False,
    generator: Annotated[str, typer.Option(help="The program xrcg.", metavar="PROGRAM")] = "xrcg",
    url: Url = DEFAULT_URL,
) -> None:
    """Generate producers and consumers from definitions whose versions are pinned.

    xrcg of the xRegistry project generates the code, from the messages of the paths and all that
    the messages refer to. The first run writes a lock file with the version and the digest of each
    definition, and with the version of xrcg; keep it in the repository. Each further run generates
    from the same versions, whatever was published since. It fails if one is deprecated, gone or
    changed, if a definition is new, or if xrcg has another version; --update moves the pins.

    Example: concord generate /messagegroups/weather --language py --style kafkaproducer -o
    ./weather

    Example: concord generate /messagegroups/weather --language py --style kafkaconsumer -o
    ./weather --from catalog.xreg.json

    Exit codes: 0 generated; 1 the definitions are not what was pinned, or are deprecated; 2 the
    command could not do its work.
    """
    from catalog.commands.documentfile import write_document
    from catalog.commands.generate import pins as pinning
    from catalog.commands.generate.pins import LockedRun, LockFile

    async def prepared() -> tuple[LockFile, str]:
        return LockFile.read(lock), generator_version(generator)

    locked, version = run(prepared)
    document = _read(paths, source, url)
    definitions = pinning.definitions_in(document)
    former = None if update else locked.run_of(paths)
    pins, faults = pinning.current_pins(definitions, paths), list[str]()
    if former is not None:
        pins = dict(former.pins)
        faults += pinning.violations(pins, definitions, paths)
        if former.generator != version:
            faults.append(f"{lock} was written with {former.generator}, and this is {version}.")
    hint = "See what changed, then run again with --update."
    if not faults and not allow_deprecated:
        faults = [*pinning.deprecations(pins, definitions)]
        hint = "Move to an alternative, or run again with --allow-deprecated."
    if faults:
        for fault in faults:
            err.print(f"[red]{cell(fault)}[/]")
        show_error("Nothing was generated.", hint)
        raise typer.Exit(NO)
    pinned = pinning.pinned_document(document, pins)
    arguments = ["--language", language, "--style", style]
    arguments += ["--projectname", name or output.resolve().name]
    arguments += _selection(paths)

    async def written() -> list[Path]:
        text = write_document(pinned, "xreg.json", "rc3")
        files = generate_code(generator, text, arguments, output)
        if former is None:
            locked.write(paths, LockedRun(version, pins))
        return files

    files = run(written)
    _tell(files, output, pins, definitions)
    if former is None:
        err.print(f"{cell(str(lock))} pins {len(pins):,} definitions.")


def _read(paths: Sequence[str], source: Path | None, url: str) -> dict[str, Any]:
    """The groups of the paths with all that they refer to, from a node or from an export."""
    from catalog.commands.referencedparts import export_with_references

    if source is None:
        return on_node(url, lambda client: export_with_references(client, paths))

    async def from_file() -> dict[str, Any]:
        from catalog.commands.documentfile import read_document
        from catalog.commands.referencedparts import select

        groups = read_document(source, migrate=True).groups
        missing = [path for path in paths if not path.strip("/") or not select(groups, [path])]
        if missing:
            raise CommandError(f"{source} has no {', '.join(missing)}.")
        return select(groups, paths)

    return run(from_file)


def _selection(paths: Sequence[str]) -> list[str]:
    """The option of xrcg for a single group; else everything in the document is generated."""
    names = paths[0].strip("/").split("/")
    options = {"messagegroups": "--messagegroup", "endpoints": "--endpoint"}
    if len(paths) > 1 or len(names) != 2 or names[0] not in options:
        return []
    return [options[names[0]], names[1]]


def _tell(
    files: Sequence[Path], output: Path, pins: Pins, definitions: dict[str, Definition]
) -> None:
    from catalog.commands.generate.pins import newer

    err.print(f"Wrote {len(files):,} files to {cell(str(output))}.")
    for xid, version in newer(pins, definitions).items():
        pinned = pins[xid].version
        err.print(f"{cell(xid)}: version {cell(version)} is newer than the pinned {cell(pinned)}.")


def generator_version(program: str) -> str:
    """The name and version of the generator, as `xrcg 0.11.0`."""
    told = _run(program, ["--version"])
    found = _VERSION.search(told)
    if found is None:
        raise CommandError(f"{program} does not tell its version.", _INSTALL)
    return f"xrcg {found[0]}"


def generate_code(
    program: str, definitions: bytes, arguments: Sequence[str], output: Path
) -> list[Path]:
    """Generate code, and put it into a directory once all of it is there.

    Args:
        definitions: a document of the edition rc3.
        arguments: further arguments of the program.
        output: the directory, whose other files stay.

    Returns:
        the files, relative to the directory.

    """
    with TemporaryDirectory(prefix="concord-generate-") as folder:
        source, made = Path(folder, "definitions.xreg.json"), Path(folder, "output")
        source.write_bytes(definitions)
        told = _run(
            program,
            ["generate", *arguments, "--definitions", str(source), "--output", str(made)],
        )
        files = [each.relative_to(made) for each in made.rglob("*") if each.is_file()]
        fault = _FAULT.search(told)
        if fault or not files:
            reason = fault[1][:_LONGEST_REASON] if fault else "it wrote no file"
            raise CommandError(f"{program} generated no code: {reason}", _STYLES)
        try:
            shutil.copytree(made, output, dirs_exist_ok=True)
        except OSError as error:
            raise CommandError(f"{output} cannot be written: {error}.") from error
    return sorted(files)


def _run(program: str, arguments: Sequence[str]) -> str:
    """The output and the errors of the program."""
    try:
        done = subprocess.run(
            [program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_LONGEST_SECONDS,
        )
    except OSError as error:
        raise CommandError(f"{program} cannot be run: {error.strerror}.", _INSTALL) from error
    except subprocess.TimeoutExpired as error:
        raise CommandError(f"{program} took longer than {_LONGEST_SECONDS} seconds.") from error
    told = done.stdout.decode(errors="replace")
    if done.returncode:
        fault = _FAULT.search(told)
        reason = fault[1] if fault else told.strip().rpartition("\n")[2]
        message = f"{program} ended with {done.returncode}: {reason[:_LONGEST_REASON]}"
        raise CommandError(message, _STYLES)
    return told
