"""A client that refuses what the standard does not name reads what a node tells of itself."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter

from tests.integration.conftest import Node


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Availability(Strict):
    mutable: bool


class Capabilities(Strict):
    """The capabilities of core/spec.md, "Registry Capabilities"."""

    available: dict[str, Availability]
    compatibilities: dict[str, list[str]]
    flags: list[str]
    formats: list[str]
    ignores: list[str]
    pagination: bool
    shortself: bool
    specversions: list[str]
    versionmodes: list[str]


class Offered(Strict):
    """The same names in core/spec.md, "Offered Capabilities"; each value describes itself."""

    available: dict[str, Any]
    compatibilities: dict[str, Any]
    flags: dict[str, Any]
    formats: dict[str, Any]
    ignores: dict[str, Any]
    pagination: dict[str, Any]
    shortself: dict[str, Any]
    specversions: dict[str, Any]
    versionmodes: dict[str, Any]


async def test_a_strict_reader_takes_the_capabilities(node: Node) -> None:
    shown = await node.get("/capabilities")

    Capabilities.model_validate(shown)
    Offered.model_validate(await node.get("/capabilitiesoffered"))
    for path in ("/?inline=capabilities", "/export"):
        assert (await node.get(path))["capabilities"] == shown
    assert await node.put("/capabilities", shown) == shown


async def test_a_strict_reader_takes_the_registry_and_its_model(node: Node) -> None:
    """The requests that the reference's client sends before each of its commands."""
    model = await node.get("/model")
    plurals = {*model["groups"]}
    root = TypeAdapter(dict[str, Any]).validate_python(await node.get("/"))
    known = {*model["attributes"]} | {
        f"{plural}{ending}" for plural in plurals for ending in ("url", "count")
    }

    assert {*root} <= known
    for group in model["groups"].values():
        assert group["plural"] in plurals
        assert all(each["singular"] for each in group["resources"].values())
