"""What a fresh node begins with: its model and its registry entity."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from pathlib import Path

from catalog.model.configuration import model_of
from catalog.model.entity import Entity
from catalog.model.errors import XRegistryError
from catalog.model.modelsource import default_model
from catalog.model.schema import Model
from catalog.sourcefile import SourceFileError, read_object_file
from catalog.store import entities as store
from catalog.store.database import Database
from catalog.store.entities import Touched, Write


class InitialModelUnusable(Exception):
    """The setting `initial_model` names nothing that a node could begin with."""


def initial_model(setting: str) -> Model:
    """The model that a fresh node begins with.

    Args:
        setting: `default`, `none` (no types at all), or a JSON or YAML file with a
            modelsource document.

    Raises:
        InitialModelUnusable: the file cannot be read, or is no valid model.
    """
    if setting == "default":
        return default_model()
    try:
        return model_of({} if setting == "none" else read_object_file(Path(setting)), None)
    except SourceFileError as error:
        raise InitialModelUnusable(f"{error.message} {error.hint}".strip()) from error
    except XRegistryError as error:
        raise InitialModelUnusable(f"{setting}: {error.title}") from error


async def ensure_registry(database: Database, registry_id: str) -> None:
    """Create the registry entity if this database has none yet.

    Args:
        registry_id: the `registryid` of a fresh node; one that exists keeps its own.
    """
    now = datetime.now(UTC)
    async with database.transaction() as connection:
        locked = await store.lock_and_load(connection, Touched(registry_exclusive=True))
        if "/" in locked.entities:
            return
        registry = Entity.sealed(
            xid="/",
            kind="registry",
            authority=database.node.authority,
            origin="/",
            epoch=1,
            attributes={"registryid": registry_id},
            createdat=now,
            modifiedat=now,
        )
        await store.write(
            connection, Write(interaction=uuid.uuid4().hex, at=now, entities=[registry])
        )
