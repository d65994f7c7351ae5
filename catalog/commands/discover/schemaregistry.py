"""Asks a registry of the Confluent API which schemas the topics of a cluster have."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import quote

import aiohttp
import orjson

from catalog.commands.console import CommandError
from catalog.commands.discover.proposal import RegisteredSchema, Registry, TopicSample, could_be_of
from catalog.operations.schemacontracts import AVRO

_ACCEPTED = "application/vnd.schemaregistry.v1+json, application/json"
_LARGEST_BYTES = 32 * 1024 * 1024
_AT_ONCE = 8
_DEFAULT_CONTEXT = "."
_SECONDS = 30.0


async def read_registry(
    url: str, samples: Sequence[TopicSample], auth: aiohttp.BasicAuth | None
) -> Registry:
    """The subjects of topics by their names, and the versions of sampled schema ids.

    Raises:
        CommandError: the registry cannot be reached, refuses, or answers something else.
    """
    timeout = aiohttp.ClientTimeout(total=_SECONDS)
    headers = {"Accept": _ACCEPTED}
    async with aiohttp.ClientSession(auth=auth, timeout=timeout, headers=headers) as session:
        client = _RegistryClient(url.rstrip("/"), session)
        names = [name for name in await client.get("/subjects") if isinstance(name, str)]
        types = {kind.type for sample in samples for kind in sample.events}
        topics = {sample.topic for sample in samples}
        wanted = [name for name in names if name in types or could_be_of(name, topics)]
        latest = await _all(client.latest(name) for name in wanted)
        ids = [*dict.fromkeys(id for sample in samples for id in sample.schema_ids)]
        by_id = await _all(client.versions_of(id) for id in ids)
    return Registry(
        latest={each.subject: each for each in latest if each is not None},
        by_id=dict(zip(ids, by_id, strict=True)),
    )


class _RegistryClient:
    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self._url = url
        self._session = session
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def get(self, path: str, *, absent: Any = None) -> Any:
        """The JSON at a path; `absent` for 404, if given."""
        try:
            async with self._turns, self._session.get(self._url + path) as response:
                if response.status == 404 and absent is not None:
                    return absent
                content = await response.content.read(_LARGEST_BYTES)
                response.raise_for_status()
                return orjson.loads(content)
        except (aiohttp.ClientError, TimeoutError, orjson.JSONDecodeError) as error:
            raise CommandError(
                f"The registry at {self._url} cannot be read: {type(error).__name__}: {error}.",
                "Look at --registry, which needs the URL that serializers have as "
                "schema.registry.url.",
            ) from error

    async def latest(self, subject: str) -> RegisteredSchema | None:
        path = f"/subjects/{quote(subject, safe='')}/versions/latest"
        return self._schema(await self.get(path, absent={}))

    async def versions_of(self, id: int | str) -> list[RegisteredSchema]:
        """The versions with an id or GUID, whose subject any naming strategy may have made."""
        if isinstance(id, str):
            # A GUID has an id in each context; the subjects of the default one are named plainly.
            told = await self.get(f"/schemas/guids/{id}/ids", absent=[])
            ids = [
                each["id"]
                for each in told
                if isinstance(each, dict)
                and isinstance(each.get("id"), int)
                and each.get("context", _DEFAULT_CONTEXT) == _DEFAULT_CONTEXT
            ]
            found = await _all(self.versions_of(each) for each in ids)
            return [version for versions in found for version in versions]
        listed = await self.get(f"/schemas/ids/{id}/versions", absent=[])
        schema = await self.get(f"/schemas/ids/{id}", absent={})
        type = schema.get("schemaType", AVRO) if isinstance(schema, dict) else AVRO
        found = [
            self._schema({**each, "schemaType": type}) for each in listed if isinstance(each, dict)
        ]
        return [each for each in found if each is not None]

    def _schema(self, told: Any) -> RegisteredSchema | None:
        match told:
            case {"subject": str(subject), "version": int(version)}:
                path = f"/subjects/{quote(subject, safe='')}/versions/{version}/schema"
                type = told.get("schemaType", AVRO)
                return RegisteredSchema(
                    subject=subject, version=version, type=type, url=self._url + path
                )
        return None


async def _all(asked: Iterable[Any]) -> list[Any]:
    return await asyncio.gather(*asked)
