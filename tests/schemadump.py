"""Writes `catalog/store/schema.sql`: the schema after all migrations (`make schema`)."""

from __future__ import annotations

import asyncio
import re
import tempfile
from pathlib import Path

import asyncpg

from catalog import store
from catalog.store.embeddedpostgres import start_embedded
from catalog.store.postgresaccount import executables
from catalog.store.schemamigration import migrate

FILE = Path(store.__file__).with_name("schema.sql")
_TITLE = "-- The schema after all migrations. Generated with `make schema`; do not edit.\n"
# Session settings, and the comments before each statement, which repeat its first line.
_NOISE = re.compile(r"^(SET .*|SELECT pg_catalog\.set_config.*|\\(un)?restrict .*|--.*)\n", re.M)
# The tables of case folding are lines of a thousand characters.
_LONG_LITERAL = re.compile(r"'([^'\n]{40})[^'\n]{60,}'")


async def dump_schema() -> str:
    """Migrate an empty database on a separate server, and return the schema as SQL."""
    with tempfile.TemporaryDirectory() as directory:
        server = await start_embedded(Path(directory))
        try:
            connection = await asyncpg.connect(server.dsn)
            await migrate(connection)
            await connection.close()
            options = ("--schema-only", "--no-owner", "--no-privileges", server.dsn)
            process = await asyncio.create_subprocess_exec(
                executables() / "pg_dump", *options, stdout=asyncio.subprocess.PIPE
            )
            output, _ = await process.communicate()
            if process.returncode:
                raise RuntimeError(f"pg_dump ended with status {process.returncode}")
            return _readable(output.decode())
        finally:
            await server.stop()


def _readable(dump: str) -> str:
    """Remove lines that are the same in every dump, or differ between releases of pg_dump."""
    text = _NOISE.sub("", dump).replace("public.", "").replace('pg_catalog."C"', '"C"')
    text = _LONG_LITERAL.sub(r"'\1 ...'", text).replace("\x01", r"\x01")
    return _TITLE + "\n" + re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


if __name__ == "__main__":
    FILE.write_text(asyncio.run(dump_schema()))
