"""The operation about the figures of a link over time: lag, rate and errors."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from catalog.model.roles import Permission
from catalog.operations.operation import AnswerBody, Operation, StrictQuery, Time


class FiguresQuery(StrictQuery):
    """The distance of the points."""

    step: Literal["minute", "hour"] = Field(
        default="minute", description="A point a minute of the last day, or an hour of 30 days."
    )


class LinkFigure(AnswerBody):
    """The figures of a link in a minute or an hour.

    A minute without a figure is one in which no node ran.
    """

    at: Time = Field(description="The beginning of the minute or hour.")
    lag: float | None = Field(
        default=None, description="The greatest lag in seconds, once there is contact."
    )
    rate: float | None = Field(
        default=None, description="Copies a second since the previous figure."
    )
    errors: int | None = Field(default=None, description="Errors since the previous figure.")


class LinkFigures(AnswerBody):
    """The figures of a link, oldest first."""

    link: str
    step: Literal["minute", "hour"]
    figures: list[LinkFigure]


READ_LINK_FIGURES = Operation(
    "GET",
    "/replication/links/{id}/figures",
    Permission.REPLICATE,
    query=FiguresQuery,
    answers=LinkFigures,
)
