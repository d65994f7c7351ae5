"""The operations about a node itself: its settings, its checks, and the counts of its entities."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from catalog.model.roles import Permission
from catalog.operations.operation import AnswerBody, Flag, Operation, Query

SettingSource = Literal["default", "environment", "command"]


class SettingInForce(AnswerBody):
    """A setting of the process that answers."""

    name: str = Field(description="The environment variable.")
    value: Any = Field(default=None, description="Stars in place of a secret.")
    default: Any = None
    source: SettingSource
    description: str


class SettingsInForce(AnswerBody):
    """The settings of a node; the limits come last."""

    settings: list[SettingInForce]


class CheckResult(AnswerBody):
    """A finding about the node, with advice for a repair."""

    subject: str
    level: Literal["ok", "warning", "error"]
    text: str
    advice: str = ""


class ExaminationQuery(Query):
    """The extent of an examination."""

    outside: Flag = Field(
        default=False, description="Connect to the public URL, peers and sinks, too."
    )


class Examination(AnswerBody):
    """The findings of all checks of a node."""

    checks: list[CheckResult]


class EntityCount(AnswerBody):
    """The number of groups and resources with a value."""

    value: str
    count: int


class EntityCounts(AnswerBody):
    """How many groups and resources the caller sees, by three attributes, the most first."""

    basis: Literal["all", "sample", "first"] = Field(
        description="What was counted: everything; a sample, from which the numbers are estimated, "
        "so that a rare value may be missing; or the first 40,000 that the caller sees."
    )
    count: int
    type: list[EntityCount]
    authority: list[EntityCount]
    format: list[EntityCount]


READ_SETTINGS = Operation(
    "GET", "/-/settings", Permission.ADMINISTER, answers=SettingsInForce, is_kept=False
)
EXAMINE_NODE = Operation(
    "GET",
    "/-/doctor",
    Permission.ADMINISTER,
    query=ExaminationQuery,
    answers=Examination,
    refuses=(429,),
    is_kept=False,
    description="The checks of `concord doctor`, in twenty seconds at most, one examination at a "
    "time in each process.",
)
COUNT_ENTITIES = Operation(
    "GET",
    "/-/counts",
    Permission.READ,
    answers=EntityCounts,
    is_kept=False,
    description="In a catalog of more than some 40,000 groups and resources, callers who see "
    "everything get an estimate from a sample of 16 MiB.",
)
