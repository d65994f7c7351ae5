"""Handlers of the settings of subjects and contexts: compatibility, data contracts, and modes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from aiohttp import web

from catalog.dialects.confluent import errors
from catalog.dialects.confluent.candidates import Scope
from catalog.dialects.confluent.contexts import (
    DEFAULT_CONFIG,
    DEFAULT_CONTEXT,
    IMPORT,
    MODES,
    READWRITE,
    SchemaContext,
    SubjectName,
)
from catalog.dialects.confluent.errors import confluent_json
from catalog.dialects.confluent.requests import (
    check_rules,
    is_set,
    node_of,
    read_contract,
    settings_name_in,
)
from catalog.dialects.confluent.subjectwrites import apply, check_own, put_group
from catalog.model.interaction import Interaction
from catalog.operations.schemacontracts import (
    COMPATIBILITY_LEVELS,
    Config,
    ConfigUpdate,
    ModeUpdate,
)
from catalog.store import schemaids
from catalog.store.database import Connection

_Setting = TypeVar("_Setting", Config, str)
_LEVEL, _SHOWN_LEVEL = "compatibility", "compatibilityLevel"


async def get_config(request: web.Request) -> web.Response:
    """The settings of a subject, a context or the default context."""
    name, scope = await _read(request)
    config = scope.stored.context.config_of(name.name)
    if config is None and is_set(request, "defaultToGlobal"):
        config = scope.config
    if config is None and _is_top(name):
        config = DEFAULT_CONFIG
    if config is None:
        raise errors.config_not_found(name)
    return confluent_json(config.shown())


async def put_config(request: web.Request) -> web.Response:
    """Change settings of a subject or a context; settings that the body does not name stay."""
    name, update = settings_name_in(request), await _read_update(request)
    put: list[Config] = []

    async def make(connection: Connection, scope: Scope, interaction: Interaction) -> None:
        _check_mutable(scope, name)
        held = scope.stored.context.config_of(name.name)
        put[:] = [update if held is None else held.updated(update)]
        if put[0].shown() != (held.shown() if held is not None else {}):
            _put(interaction, scope.stored.context, name.name, "config", put[0].shown())

    await _write(request, name, make)
    shown = put[0].shown()
    if _SHOWN_LEVEL in shown:
        shown = {_LEVEL: shown.pop(_SHOWN_LEVEL), **shown}
    return confluent_json(shown)


async def _read_update(request: web.Request) -> Config:
    """Read an update of settings.

    Raises:
        ConfluentError: 42203 for an unknown level; 42210.
    """
    body = await read_contract(request, ConfigUpdate)
    given = body.compatibility if body.compatibility is not None else body.compatibilityLevel
    named = {name: getattr(body, name) for name in body.model_fields_set - {_LEVEL}}
    if given is not None:
        level = given.upper() if isinstance(given, str) else ""
        if level not in COMPATIBILITY_LEVELS:
            raise errors.invalid_level()
        named[_SHOWN_LEVEL] = level
    for rules in (body.defaultRuleSet, body.overrideRuleSet):
        check_rules(rules)
    return Config(**named)


async def delete_config(request: web.Request) -> web.Response:
    """Remove the settings of a subject or a context; the answer shows them."""
    removed = await _remove(request, "config", SchemaContext.config_of, DEFAULT_CONFIG)
    return confluent_json(removed.shown())


async def get_mode(request: web.Request) -> web.Response:
    """The mode of a subject, a context or the default context."""
    name, scope = await _read(request)
    mode = scope.stored.context.mode_of(name.name)
    if scope.stored.context.authority != scope.contexts.authority:
        # Only its authority registers schemas.
        mode = "READONLY"
    if scope.mode == "READONLY_OVERRIDE" or (mode is None and is_set(request, "defaultToGlobal")):
        mode = scope.mode
    if mode is None and _is_top(name):
        mode = READWRITE
    if mode is None:
        raise errors.mode_not_found(name)
    return confluent_json({"mode": mode})


async def put_mode(request: web.Request) -> web.Response:
    """Change the mode of a subject or a context."""
    name, body = settings_name_in(request), await read_contract(request, ModeUpdate)
    if body.mode is None:
        return await delete_mode(request)
    mode = body.mode.upper()
    if mode not in MODES:
        raise errors.invalid_mode()

    async def make(connection: Connection, scope: Scope, interaction: Interaction) -> None:
        context = scope.stored.context
        is_new = mode == IMPORT and context.mode_of(name.name) != IMPORT
        if is_new and not is_set(request, "force"):
            await _check_empty(connection, scope, name)
        _put(interaction, context, name.name, "mode", mode)

    await _write(request, name, make)
    return confluent_json({"mode": mode})


async def delete_mode(request: web.Request) -> web.Response:
    """Remove the mode of a subject or a context; the answer shows it."""
    removed = await _remove(request, "mode", SchemaContext.mode_of, READWRITE)
    return confluent_json({"mode": removed})


async def _remove(
    request: web.Request,
    setting: str,
    own: Callable[[SchemaContext, str], _Setting | None],
    default: _Setting,
) -> _Setting:
    """Remove a setting of a subject or a context; returns what it was."""
    name = settings_name_in(request)
    removed: list[_Setting] = []

    async def make(connection: Connection, scope: Scope, interaction: Interaction) -> None:
        if setting == "config":
            _check_mutable(scope, name)
        held = own(scope.stored.context, name.name)
        if held is None and not _is_top(name):
            raise errors.subject_not_found(name)
        removed[:] = [held or default]
        _put(interaction, scope.stored.context, name.name, setting, None)

    await _write(request, name, make)
    return removed[0]


async def _check_empty(connection: Connection, scope: Scope, name: SubjectName) -> None:
    """Refuse the mode IMPORT where schemas are already: their ids could clash with imported ones.

    Raises:
        ConfluentError: 42205.
    """
    has_live = bool(scope.stored.live)
    if not name.name:
        rows = await schemaids.list_subjects(connection, [scope.stored.context.xid])
        has_live = any(not row.is_deleted for row in rows)
    if has_live:
        raise errors.not_permitted("Cannot import since found existing subjects")


def _is_top(name: SubjectName) -> bool:
    """Whether a name stands for the default context, which always has settings."""
    return name == SubjectName(DEFAULT_CONTEXT, "")


def _check_mutable(scope: Scope, name: SubjectName) -> None:
    """Refuse to change how schemas are compared where none may be registered."""
    if scope.is_read_only:
        raise errors.not_permitted(f"Subject {name} is in read-only mode")


async def _read(request: web.Request) -> tuple[SubjectName, Scope]:
    name = settings_name_in(request)
    async with node_of(request).database.acquire() as connection:
        return name, await Scope.read(request, connection, name, by_alias=False)


async def _write(
    request: web.Request,
    name: SubjectName,
    make: Callable[[Connection, Scope, Interaction], Awaitable[None]],
) -> None:
    """Write settings; `make` puts the changes into the interaction, under the locks of the group.

    Raises:
        ConfluentError: 42205 for the settings of another authority.
    """

    async def read_and_make(connection: Connection, interaction: Interaction) -> None:
        scope = await Scope.read(request, connection, name, by_alias=False)
        check_own(scope.contexts, scope.stored.context, name)
        await make(connection, scope, interaction)

    _, scope = await _read(request)
    check_own(scope.contexts, scope.stored.context, name)
    await apply(request, scope.stored.context.xid, None, read_and_make)


def _put(
    interaction: Interaction, context: SchemaContext, name: str, setting: str, value: Any
) -> None:
    """Change a setting of a context, or of a subject in it; `None` removes the setting."""
    if not name:
        put_group(interaction, context, **{setting: value})
        return
    subjects = dict(context.kept.get("subjects") or {})
    own = {**(subjects.get(name) or {}), setting: value}
    subjects[name] = {key: value for key, value in own.items() if value is not None}
    if not subjects[name]:
        del subjects[name]
    put_group(interaction, context, subjects=subjects or None)
