"""Calls operations by declaration: bodies and answers are the models of the operation."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, cast
from urllib.parse import quote

from pydantic import BaseModel, ValidationError

from catalog.client.connection import Answer, Connection, Params
from catalog.client.errors import BadAnswer
from catalog.operations.operation import Answered, Operation, Taken


class OperationCalls(Connection):
    """A connection that calls operations."""

    async def call(
        self,
        /,
        operation: Operation[Taken, Answered],
        body: Taken | Mapping[str, Any] | None = None,
        *,
        query: BaseModel | None = None,
        headers: Mapping[str, str] | None = None,
        **at: str,
    ) -> Answered:
        """Call an operation of the API, and return the answer as the model of the operation.

        Args:
            body: an instance of the model that the operation takes, or JSON that the node is to
                check.
            query: an instance of the model of the query.
            headers: the headers that the operation needs.
            at: the values of the placeholders in the path.
        """
        path, params = target_of(operation, query, at)
        answer = await self.request(
            operation.method,
            path,
            params=params,
            body=_dumped(body),
            headers=headers,
            is_repeatable=operation.is_repeatable or None,
        )
        return self._read(operation, path, answer)

    async def call_pages(
        self,
        /,
        operation: Operation[Taken, Answered],
        *,
        query: BaseModel | None = None,
        **at: str,
    ) -> AsyncIterator[Answered]:
        """The pages of an operation that answers in pages; see `call`."""
        path, params = target_of(operation, query, at)
        async for answer in self.answers(path, params):
            yield self._read(operation, path, answer)

    def _read(self, operation: Operation[Taken, Answered], path: str, answer: Answer) -> Answered:
        # mypy does not tie a model to the type variable after a check for None.
        model = cast("type[BaseModel] | None", operation.answers)
        try:
            found = None if model is None else model.model_validate_json(answer.body)
            return cast("Answered", found)
        except ValidationError as error:
            fault = f"an answer that does not fit its model: {error.errors()[0]['msg']}"
            raise BadAnswer(self.at(path), fault) from error


def target_of(
    operation: Operation[Any, Any], query: BaseModel | None, at: Mapping[str, str]
) -> tuple[str, Params]:
    """The path and the query of a call of an operation."""
    path = operation.template.format_map({name: quote(id, safe="") for name, id in at.items()})
    if query is None:
        return path, ()
    given = query.model_dump(mode="json", exclude_defaults=True, by_alias=True)
    params = []
    for name, value in given.items():
        # A flag is a query parameter without a value.
        texts = value if isinstance(value, list) else ["" if value is True else value]
        params += [(name, str(text)) for text in texts]
    return path, params


# Members that are not set are left out, since a null would delete or replace a value.
def _dumped(body: BaseModel | Mapping[str, Any] | None) -> Any:
    if isinstance(body, BaseModel):
        return body.model_dump(mode="json", exclude_unset=True, by_alias=True)
    return body
