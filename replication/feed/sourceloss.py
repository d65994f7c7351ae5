"""Tells whether a source lost data that a link may have brought from it. Pure."""

from __future__ import annotations

import uuid

from catalog.client import ClientError, Refused
from catalog.store.links import Link
from replication.feed.feedpages import LogLost


def why_lost(link: Link, instance: uuid.UUID) -> str:
    """The reason why a source may lack what a link has brought from it; "" if there is none.

    A link keeps the reason as its `loss` until it has compared or copied everything again.

    Args:
        link: as it was before this contact.
        instance: the one that answers.
    """
    if link.loss is not None:
        return link.loss
    if link.instance not in (None, instance):
        return f"it is another instance, {instance}, than before, {link.instance}"
    return ""


def loss_told(error: ClientError) -> str:
    """The loss that a source tells when it is asked to go on from a cursor; "" if it tells none.

    Its log ends before the cursor, has another change there, or went back to a time before it.
    """
    if isinstance(error, Refused) and error.problem.name == LogLost.name:
        return error.problem.title.rstrip(".")
    return ""
