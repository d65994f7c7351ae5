"""Tells whether a source lost data that a link may have brought before. Pure."""

from __future__ import annotations

import uuid

from catalog.client import ClientError, Refused
from catalog.store.links import Link
from replication.feed.feedpages import LogLost


def why_lost(link: Link, instance: uuid.UUID) -> str:
    """The reason why a source may lack entities that a link has brought; "" without a reason.

    A link keeps the reason as `loss` until the link has compared or copied the whole catalog again.

    Args:
        link: the link before the contact.
        instance: the instance that answers.
    """
    if link.loss is not None:
        return link.loss
    if link.instance not in (None, instance):
        return f"it is another instance, {instance}, than before, {link.instance}"
    return ""


def loss_told(error: ClientError) -> str:
    """The loss that a source reports when asked to continue from a cursor; "" without a loss.

    The log ends before the cursor, has a different change at the cursor, or went back in time.
    """
    if isinstance(error, Refused) and error.problem.name == LogLost.name:
        return error.problem.title.rstrip(".")
    return ""
