"""Routes: operations with handlers, and the bodies and queries that handlers are given."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar, get_origin

from aiohttp import hdrs, web
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from catalog.http.body import read_body, read_json
from catalog.http.problems import problem_of
from catalog.http.responses import JSON_TYPE
from catalog.http.stream import Deadline
from catalog.model import errors
from catalog.model.roles import Permission
from catalog.operations.operation import Operation
from catalog.settings import Settings

Handler = Callable[..., Awaitable[web.StreamResponse | BaseModel | None]]
Model = TypeVar("Model", bound=BaseModel)

_LONGEST_NAME = 128


ROUTES: web.AppKey[Sequence[Route]] = web.AppKey("routes", Sequence)


@dataclass(frozen=True)
class Route:
    """An operation and its handler.

    The handler is given the request, then the body and the query as models of the operation. The
    handler returns a response, or a model of the answer, or `None` (204). `answer_error` answers
    an error of any step in the form of the API. `applies` tells the requests that the route answers
    from requests for the routes of entities; by default, the route answers every request.
    """

    operation: Operation[Any, Any]
    handler: Handler
    answer_error: Callable[[web.Request, Exception], web.Response] = problem_of
    applies: Callable[[web.Request], bool] | None = None

    @property
    def name(self) -> str:
        """The name of the handler, which identifies the operation in OpenAPI."""
        return self.handler.__name__

    @cached_property
    def summary(self) -> str:
        """The first line of the handler's docstring."""
        return (self.handler.__doc__ or "").strip().partition("\n")[0]

    async def answer(self, request: web.Request, settings: Settings) -> web.StreamResponse:
        """Handle an admitted request within the time limit of the operation."""
        if not self.operation.is_bounded:
            return await self._call(request)
        async with Deadline(request, settings):
            return await self._call(request)

    async def _call(self, request: web.Request) -> web.StreamResponse:
        operation = self.operation
        given: list[BaseModel] = []
        if operation.takes is not None:
            is_missing = operation.is_optional and not await read_body(request)
            most = operation.most_values
            data = {} if is_missing else await read_json(request, most_values=most)
            given.append(checked(operation.takes, data, request.path))
        if operation.query is not None:
            given.append(read_query(request, operation.query))
        answer = await self.handler(request, *given)
        if isinstance(answer, web.StreamResponse):
            return answer
        if answer is None:
            return web.Response(status=204)
        return model_response(answer, status=operation.status)


def reads(path: str, handler: Handler, **more: Any) -> Route:
    """The route of a GET of entities, which are plain data without a model."""
    return Route(Operation(method="GET", path=path, needs=Permission.READ, **more), handler)


def writes(method: str, path: str, handler: Handler, **more: Any) -> Route:
    """The route of a write of entities."""
    return Route(Operation(method=method, path=path, needs=Permission.WRITE, **more), handler)


def model_response(
    answer: BaseModel, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> web.Response:
    """A response with a model as JSON, without members that have no value."""
    body = answer.model_dump_json(exclude_none=True, by_alias=True).encode()
    return web.Response(
        body=body, status=status, headers={hdrs.CONTENT_TYPE: JSON_TYPE, **(headers or {})}
    )


def checked(model: type[Model], data: Any, subject: str, *within: str) -> Model:
    """Check a body, or a part of a body.

    Args:
        within: the names of the members around the part, from the outermost.

    Raises:
        XRegistryError: the first fault, which carries every fault.
    """
    try:
        return model.model_validate(data, by_alias=True, by_name=False)
    except ValidationError as error:
        # The error of pydantic repeats values, which may be secrets.
        details = error.errors(include_input=False, include_url=False, include_context=False)
        faults = [_violation(subject, detail, within) for detail in details]
        raise errors.with_violations(faults) from None


def _violation(
    subject: str, detail: ErrorDetails, within: tuple[str, ...]
) -> errors.XRegistryError:
    name = ".".join(str(step) for step in (*within, *detail["loc"]))[:_LONGEST_NAME] or "body"
    match detail["type"]:
        case "missing":
            return errors.RequiredAttributeMissing(subject, list=name)
        case "extra_forbidden":
            return errors.UnknownAttribute(subject, name=name)
        case _:
            fault = detail["msg"].removeprefix("Value error, ").rstrip(".")
            return errors.InvalidAttribute(subject, name=name, error_detail=fault)


def read_query(request: web.Request, model: type[Model]) -> Model:
    """Check the parameters of a query; of a repeated parameter, the first value counts.

    A parameter that is a list in the model has every value.

    Raises:
        BadRequest: the parameters do not follow the model.
    """
    given: dict[str, Any] = {}
    for name in request.query:
        field = model.model_fields.get(name)
        is_list = field is not None and get_origin(field.annotation) in (list, tuple)
        given[name] = request.query.getall(name) if is_list else request.query[name]
    try:
        return model.model_validate(given)
    except ValidationError as error:
        detail = error.errors(include_input=False, include_url=False, include_context=False)[0]
        name = str(detail["loc"][0])[:_LONGEST_NAME] if detail["loc"] else ""
        fault = detail["msg"].removeprefix("Value error, ").rstrip(".")
        raise errors.BadRequest(request.path, error_detail=f'"{name}": {fault}') from None
