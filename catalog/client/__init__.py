"""A typed client of the HTTP API of a node: for programs, commands, the demo and replication.

docs/client.md describes the client.
"""

from __future__ import annotations

from catalog.client.client import Client
from catalog.client.connection import Answer, JsonObject, Params
from catalog.client.credential import Credential
from catalog.client.entities import Document, is_replica
from catalog.client.errors import (
    BadAnswer,
    ClientError,
    CredentialUnusable,
    CursorExpired,
    Problem,
    Refused,
    Unreachable,
    Violation,
)
from catalog.client.replication import Changes, DigestRow
from catalog.client.retry import ONCE, Retry
from catalog.client.signaturecheck import KeyUnusable, SignatureInvalid, VerificationError, verify
from catalog.client.syncclient import SyncClient
from catalog.model.backoff import Backoff

__all__ = [
    "ONCE",
    "Answer",
    "Backoff",
    "BadAnswer",
    "Changes",
    "Client",
    "ClientError",
    "Credential",
    "CredentialUnusable",
    "CursorExpired",
    "DigestRow",
    "Document",
    "JsonObject",
    "KeyUnusable",
    "Params",
    "Problem",
    "Refused",
    "Retry",
    "SignatureInvalid",
    "SyncClient",
    "Unreachable",
    "VerificationError",
    "Violation",
    "is_replica",
    "verify",
]
