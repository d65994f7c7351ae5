"""Tells whether a source lost data that a link may have brought from it. Pure."""

from __future__ import annotations

import uuid

from catalog.client import ClientError, Refused
from catalog.store.links import Link
from replication.feedpages import LogLost


def why_lost(
    link: Link, *, instance: uuid.UUID | None = None, error: ClientError | None = None
) -> str:
    """The reason why a source may lack what a link has brought from it; "" if there is none.

    A link keeps the reason as its `loss` until it has compared or copied everything again.

    Args:
        link: as it was before this contact.
        instance: the one that answers.
        error: the answer of the source to the cursor of the link. It says whether its log ends
            before the cursor, has another change there, or went back to a time before it.
    """
    if link.loss is not None:
        return link.loss
    if instance is not None and link.instance not in (None, instance):
        return f"it is another instance, {instance}, than before, {link.instance}"
    if isinstance(error, Refused) and error.problem.name == LogLost.name:
        return error.problem.title.rstrip(".")
    return ""
