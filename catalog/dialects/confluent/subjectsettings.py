"""Handlers of the settings of subjects and contexts: compatibility, data contracts, and modes."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from catalog.dialects.confluent.candidates import Scope
from catalog.dialects.confluent.contexts import (
    DEFAULT_CONFIG,
    IMPORT,
    MODES,
    READWRITE,
    SchemaContext,
)
from catalog.dialects.confluent.errors import (
    config_not_found,
    confluent_json,
    invalid_level,
    invalid_mode,
    mode_not_found,
    not_permitted,
    subject_not_found,
)
from catalog.dialects.confluent.requests import (
    check_rules,
    is_set,
    node_of,
    read_contract,
    settings_name_in,
)
from catalog.dialects.confluent.subjectnames import DEFAULT_CONTEXT, SubjectName
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
        raise config_not_found(name)
    return confluent_json(config.shown())


async def put_config(request: web.Request) -> web.Response:
    """Change settings of a subject or a context; settings that the body does not name stay."""
    name, update = settings_name_in(request), await _read_update(request)
    put: list[Config] = []

    async def make(connection: Connection, interaction: Interaction) -> None:
        scope = await _scope(request, connection, name)
        _check_mutable(scope, name)
        held = scope.stored.context.config_of(name.name)
        put[:] = [update if held is None else held.updated(update)]
        if put[0].shown() != (held.shown() if held is not None else {}):
            _put(interaction, scope.stored.context, name.name, config=put[0].shown())

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
            raise invalid_level()
        named[_SHOWN_LEVEL] = level
    for rules in (body.defaultRuleSet, body.overrideRuleSet):
        check_rules(rules)
    return Config(**named)


async def delete_config(request: web.Request) -> web.Response:
    """Remove the settings of a subject or a context; the answer shows them."""
    name = settings_name_in(request)
    removed: list[Config] = []

    async def make(connection: Connection, interaction: Interaction) -> None:
        scope = await _scope(request, connection, name)
        _check_mutable(scope, name)
        held = scope.stored.context.config_of(name.name)
        if held is None and not _is_top(name):
            raise subject_not_found(name)
        removed[:] = [held or DEFAULT_CONFIG]
        _put(interaction, scope.stored.context, name.name, config=None)

    await _write(request, name, make)
    return confluent_json(removed[0].shown())


async def get_mode(request: web.Request) -> web.Response:
    """The mode of a subject, a context or the default context."""
    name, scope = await _read(request)
    mode = scope.stored.context.mode_of(name.name)
    if scope.stored.context.authority != scope.contexts.authority:
        # Only its authority registers schemas.
        mode = "READONLY"
    if scope.mode == "READONLY_OVERRIDE":
        mode = scope.mode
    if mode is None and is_set(request, "defaultToGlobal"):
        mode = scope.mode
    if mode is None and _is_top(name):
        mode = READWRITE
    if mode is None:
        raise mode_not_found(name)
    return confluent_json({"mode": mode})


async def put_mode(request: web.Request) -> web.Response:
    """Change the mode of a subject or a context."""
    name, body = settings_name_in(request), await read_contract(request, ModeUpdate)
    if body.mode is None:
        return await delete_mode(request)
    mode = body.mode.upper()
    if mode not in MODES:
        raise invalid_mode()

    async def make(connection: Connection, interaction: Interaction) -> None:
        scope = await _scope(request, connection, name)
        context = scope.stored.context
        is_new = mode == IMPORT and context.mode_of(name.name) != IMPORT
        if is_new and not is_set(request, "force"):
            await _check_empty(connection, scope, name)
        _put(interaction, context, name.name, mode=mode)

    await _write(request, name, make)
    return confluent_json({"mode": mode})


async def delete_mode(request: web.Request) -> web.Response:
    """Remove the mode of a subject or a context; the answer shows it."""
    name = settings_name_in(request)
    removed: list[str] = []

    async def make(connection: Connection, interaction: Interaction) -> None:
        scope = await _scope(request, connection, name)
        held = scope.stored.context.mode_of(name.name)
        if held is None and not _is_top(name):
            raise subject_not_found(name)
        removed[:] = [held or READWRITE]
        _put(interaction, scope.stored.context, name.name, mode=None)

    await _write(request, name, make)
    return confluent_json({"mode": removed[0]})


async def _check_empty(connection: Connection, scope: Scope, name: SubjectName) -> None:
    """Refuse the mode IMPORT where schemas are already: their ids could clash with imported ones.

    Raises:
        ConfluentError: 42205.
    """
    live = scope.stored.live
    if not name.name:
        rows = await schemaids.list_subjects(connection, [scope.stored.context.xid])
        has_live = any(not row.is_deleted for row in rows)
    else:
        has_live = bool(live)
    if has_live:
        raise not_permitted("Cannot import since found existing subjects")


def _is_top(name: SubjectName) -> bool:
    """Whether a name stands for the default context, which always has settings."""
    return name == SubjectName(DEFAULT_CONTEXT, "")


def _check_mutable(scope: Scope, name: SubjectName) -> None:
    """Refuse to change how schemas are compared where none may be registered."""
    if scope.is_read_only:
        raise not_permitted(f"Subject {name} is in read-only mode")


async def _scope(request: web.Request, connection: Connection, name: SubjectName) -> Scope:
    scope = await Scope.read(request, connection, name, by_alias=False)
    check_own(scope.contexts, scope.stored.context, name)
    return scope


async def _read(request: web.Request) -> tuple[SubjectName, Scope]:
    name = settings_name_in(request)
    async with node_of(request).database.acquire() as connection:
        return name, await Scope.read(request, connection, name, by_alias=False)


async def _write(request: web.Request, name: SubjectName, make: Any) -> None:
    async with node_of(request).database.acquire() as connection:
        scope = await Scope.read(request, connection, name, by_alias=False)
    check_own(scope.contexts, scope.stored.context, name)
    await apply(request, scope.stored.context.xid, None, make)


def _put(interaction: Interaction, context: SchemaContext, name: str, **changed: Any) -> None:
    """Change settings of a context, or of a subject in it; a setting of `None` is removed."""
    if not name:
        put_group(interaction, context, **changed)
        return
    subjects = dict(context.kept.get("subjects") or {})
    own = {**(subjects.get(name) or {}), **changed}
    subjects[name] = {key: value for key, value in own.items() if value is not None}
    if not subjects[name]:
        del subjects[name]
    put_group(interaction, context, subjects=subjects or None)
