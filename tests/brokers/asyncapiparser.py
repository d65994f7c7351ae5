"""The parser of the AsyncAPI initiative: the package `@asyncapi/parser` of npm."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path

from tests.brokers.npmpackage import Package

PACKAGE = Package("@asyncapi/parser", "3.6.6")
_SECONDS = 300


async def parse_errors(directory: Path, files: Iterable[Path]) -> list[list[str]]:
    """The errors that the parser finds in each file.

    Args:
        directory: a directory for the script of the parser.
        files: AsyncAPI documents in JSON or YAML.
    """
    script = Path(__file__).with_suffix(".mjs")
    named = [str(file.resolve()) for file in files]
    program, arguments, place = await PACKAGE.script_in(directory, script, *named)
    process = await asyncio.create_subprocess_exec(
        program, *arguments, cwd=place, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await asyncio.wait_for(process.communicate(), _SECONDS)
    assert process.returncode == 0, output
    errors: list[list[str]] = json.loads(output)
    return errors
