"""Runs the generator of code, `xrcg` of the xRegistry project, as a program of its own."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from catalog.commands.console import CommandError

TRIED = "0.11.0"
_LONGEST_SECONDS = 600
_LONGEST_REASON = 500
_VERSION = re.compile(r"\d+\.\d+\.\d+")
# The program ends with 0 after some of its errors.
_FAULT = re.compile(r"^\d{4}-\S+ \S+ - \S+ - (?:ERROR|CRITICAL) - (.*)$", re.MULTILINE)


class GeneratorFailed(CommandError):
    """The generator is not installed, or does not generate."""


def generator_version(program: str) -> str:
    """The name and version of the generator, as `xrcg 0.11.0`.

    Raises:
        GeneratorFailed
    """
    told = _run(program, ["--version"])
    found = _VERSION.search(told)
    if found is None:
        raise GeneratorFailed(f"{program} does not tell its version.", _INSTALL)
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

    Raises:
        GeneratorFailed
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
            raise GeneratorFailed(f"{program} generated no code: {reason}", _STYLES)
        try:
            shutil.copytree(made, output, dirs_exist_ok=True)
        except OSError as error:
            raise GeneratorFailed(f"{output} cannot be written: {error}.") from error
    return sorted(files)


_INSTALL = (
    "Install it in an environment of its own (python3 -m venv codegen && codegen/bin/pip install "
    f"xrcg=={TRIED}), and name it with --generator codegen/bin/xrcg."
)


_STYLES = "xrcg list shows its languages and styles, concord lint what is wrong with definitions."


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
        raise GeneratorFailed(f"{program} cannot be run: {error.strerror}.", _INSTALL) from error
    except subprocess.TimeoutExpired as error:
        raise GeneratorFailed(f"{program} took longer than {_LONGEST_SECONDS} seconds.") from error
    told = done.stdout.decode(errors="replace")
    if done.returncode:
        fault = _FAULT.search(told)
        reason = fault[1] if fault else told.strip().rpartition("\n")[2]
        message = f"{program} ended with {done.returncode}: {reason[:_LONGEST_REASON]}"
        raise GeneratorFailed(message, _STYLES)
    return told
