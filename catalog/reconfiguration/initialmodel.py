"""The initial model and registry entity of a fresh node."""

from __future__ import annotations

import asyncio
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from catalog.documents.serialization import SourceFileError, read_object_file
from catalog.model.configuration import Configuration, model_of
from catalog.model.entity import Entity
from catalog.model.errors import ModelError, XRegistryError
from catalog.model.includes import resolve_includes
from catalog.model.modelsource import default_model
from catalog.store.database import Database
from catalog.store.locks import Touched, lock_and_load
from catalog.store.writes import Write, write


class InitialModelUnusable(Exception):
    """The model of the setting `initial_model` is not usable."""


async def initial_model(setting: str) -> Configuration:
    """The configuration of a fresh node, with the model of the setting.

    Args:
        setting: `default`, `none` (a model without types), or a JSON or YAML file with a
            modelsource document, which may include further files.

    Raises:
        InitialModelUnusable: a file cannot be read, or has no valid model.
    """
    if setting == "default":
        return Configuration(model=default_model())
    try:
        source, base = ({}, "") if setting == "none" else _read(setting)
        whole = await resolve_includes(source, _read_included, base=base)
        resolved = None if whole == source else whole
        return Configuration(model=model_of(source, resolved), resolved=resolved)
    except SourceFileError as error:
        raise InitialModelUnusable(f"{error.message} {error.hint}".strip()) from error
    except XRegistryError as error:
        raise InitialModelUnusable(f"{setting}: {error.title}") from error


def _read(setting: str) -> tuple[dict[str, Any], str]:
    path = Path(setting).resolve()
    return read_object_file(path), path.as_uri()


async def _read_included(url: str) -> dict[str, Any]:
    """Read an included file; every local file is allowed, since the operator trusts the model."""
    parts = urlsplit(url)
    if parts.scheme != "file":
        raise ModelError("/model", error_detail=f'"{url}" is no file; include a copy of it')
    return await asyncio.to_thread(read_object_file, Path(unquote(parts.path)))


async def ensure_registry(database: Database, registry_id: str) -> None:
    """Create the registry entity unless the database has a registry entity.

    Args:
        registry_id: the `registryid` of a fresh node. An existing registry keeps its id.
    """
    now = datetime.now(UTC)
    async with database.transaction() as connection:
        # The exclusive lock keeps concurrent processes of a fresh node from creating it twice.
        locked = await lock_and_load(connection, Touched(registry_exclusive=True))
        if "/" in locked.entities:
            return
        registry = Entity(
            xid="/",
            kind="registry",
            authority=database.node.authority,
            origin="/",
            epoch=1,
            attributes={"registryid": registry_id},
            createdat=now,
            modifiedat=now,
        ).sealed()
        await write(
            connection,
            Write(
                interaction=uuid.uuid4().hex,
                at=now,
                author=database.caller.author,
                entities=[registry],
            ),
        )
