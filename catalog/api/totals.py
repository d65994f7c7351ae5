"""Remembers how many entities collections have: to count costs more than to read a page."""

from __future__ import annotations

from multidict import CIMultiDict

from catalog.api.cache import ANSWERS, Answer, Key
from catalog.api.view import View
from catalog.store.database import Connection
from catalog.store.find import count_all


async def count_remembered(view: View, connection: Connection, collection: str) -> int:
    """How many entities the collection that is asked for has at this moment.

    It is kept like an answer to GET of the collection, so the next write in it ends it; but
    it is never given without asking the database whether there was one.

    Args:
        connection: in no transaction.
    """
    answers = view.request.app[ANSWERS]
    key: Key = ("", collection, view.configuration.revision)
    known = await answers.get_confirmed(key, connection)
    if known is not None:
        return int(known.body)
    ticket = answers.ticket()
    count = await count_all(connection, collection)
    place, body = view.target.place, str(count).encode()
    answer = Answer(place=place, status=200, headers=CIMultiDict(), body=body)
    answers.put(key, answer, ticket)
    return count
