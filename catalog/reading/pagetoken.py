"""Page tokens: the start of the next page, opaque to clients."""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from decimal import Decimal, InvalidOperation

import orjson

from catalog.model.errors import BadRequest
from catalog.model.filter import Sort
from catalog.model.timestamps import parse_time
from catalog.model.xid import is_valid_id
from catalog.store.find import SortKey

_LONGEST = 4096
_LONGEST_TEXT = 256
_LARGEST_EXPONENT = 400


def write_token(key: SortKey) -> str:
    content = orjson.dumps([key.rank, str(key.number), key.text, key.id])
    return urlsafe_b64encode(content).decode().rstrip("=")


def read_token(token: str, sort: Sort | None) -> SortKey:
    """Parse a token that `write_token` wrote for a page in the same order.

    Raises:
        BadRequest: it is another text.
    """
    try:
        key = _key_of(token)
        if sort is not None and sort.key == "modifiedat" and key.text:
            parse_time(f"{key.text}Z")
    except (ValueError, InvalidOperation, binascii.Error) as error:
        raise BadRequest("/", error_detail='"after" is not from a page of this order') from error
    return key


def _key_of(token: str) -> SortKey:
    if len(token) > _LONGEST or not token.isascii():
        raise ValueError("it is too long")
    match orjson.loads(urlsafe_b64decode(token + "=" * (-len(token) % 4))):
        case [int(rank), str(number), str(text), str(id)] if rank in (0, 1, 2):
            key = SortKey(rank=rank, number=Decimal(number), text=text, id=id)
        case _:
            raise ValueError("it is not a place in an order")
    is_sound = (
        key.number.is_finite()
        and abs(key.number.adjusted()) <= _LARGEST_EXPONENT
        and len(text) <= _LONGEST_TEXT
        and "\x00" not in text
        and is_valid_id(id)
    )
    if not is_sound:
        raise ValueError("it is beyond what there can be")
    return key
