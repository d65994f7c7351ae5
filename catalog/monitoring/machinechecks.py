"""Checks of a node's machine and settings: directory, key, certificates and access."""

from __future__ import annotations

import asyncio
import shutil
import stat
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

from cryptography import x509

from catalog.config.keyfile import KeyFile, KeysUnusable
from catalog.config.settings import Settings, is_loopback
from catalog.monitoring.diagnosis import Check, CheckedNode, Diagnosis, Level

EXPIRY_WARNED = timedelta(days=21)
_FREE_WARNED, _FREE_ERROR = 0.1, 0.03
_FREE_BYTES = 1024**3
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IRWXO


def expiry(subject: str, end: datetime, advice: str) -> Diagnosis:
    """Whether a certificate is about to expire."""
    left = end - datetime.now(UTC)
    if left > EXPIRY_WARNED:
        return Diagnosis(subject=subject, level="ok", text=f"valid until {end:%Y-%m-%d}")
    level: Level = "warning" if left > timedelta(0) else "error"
    verb = "expires" if left > timedelta(0) else "has expired"
    return Diagnosis(
        subject=subject, level=level, text=f"it {verb} on {end:%Y-%m-%d %H:%M} UTC", advice=advice
    )


async def check_directory(checked: CheckedNode) -> Sequence[Diagnosis]:
    """The data directory: room on the disk, and permissions."""
    directory = checked.settings.data_dir.expanduser()
    if not directory.exists():
        if checked.settings.database_url is not None:
            return []
        text = f"{directory} does not exist yet"
        return [Diagnosis(subject="directory", level="ok", text=text)]
    found = [*_room(directory), *_permissions(directory)]
    text = f"{directory} has room, and is closed to others"
    return found or [Diagnosis(subject="directory", level="ok", text=text)]


def _room(directory: Path) -> Iterator[Diagnosis]:
    usage = shutil.disk_usage(directory)
    share = usage.free / max(usage.total, 1)
    if share < _FREE_WARNED and usage.free < 10 * _FREE_BYTES:
        level: Level = "error" if share < _FREE_ERROR or usage.free < _FREE_BYTES else "warning"
        yield Diagnosis(
            subject="directory",
            level=level,
            text=f"{usage.free / _FREE_BYTES:.1f} GiB are free on the disk of {directory}",
            advice="Make room: PostgreSQL stops when its disk is full.",
        )


def _permissions(directory: Path) -> Iterator[Diagnosis]:
    mode = stat.S_IMODE(directory.stat().st_mode)
    if mode & _WRITABLE_BY_OTHERS:
        yield Diagnosis(
            subject="directory",
            level="error",
            text=f"others may enter {directory} (mode {mode:o})",
            advice=f"chmod 700 {directory}",
        )


async def check_key(checked: CheckedNode) -> Sequence[Diagnosis]:
    """The key that encrypts secrets."""
    settings = checked.settings
    if settings.encryption_keys:
        return [Diagnosis(subject="key", level="ok", text="CONCORD_ENCRYPTION_KEY is set")]
    file = KeyFile.of(settings)
    if not file.path.exists():
        text = f"there is no {file.path} yet; the node makes it when it starts"
        return [Diagnosis(subject="key", level="ok", text=text)]
    try:
        file.read()
    except KeysUnusable as error:
        advice = "Run this as the node's user; secrets cannot be used without their key."
        return [Diagnosis(subject="key", level="error", text=str(error), advice=advice)]
    if settings.database_url is not None:
        text = f"it is in {file.path}, on this machine only"
        advice = "If processes on other machines share the database, set CONCORD_ENCRYPTION_KEY."
        return [Diagnosis(subject="key", level="warning", text=text, advice=advice)]
    return [Diagnosis(subject="key", level="ok", text=f"it is in {file.path}")]


async def check_certificates(checked: CheckedNode) -> Sequence[Diagnosis]:
    """The ends of the node's own certificates."""
    settings = checked.settings
    advice = "Renew it, and restart the processes of the node."
    found: list[Diagnosis] = []
    for name, path in settings.certificates.items():
        try:
            ends = await asyncio.to_thread(certificate_ends, path)
        except (OSError, ValueError) as error:
            text = f"{path} cannot be read: {error}"
            hint = "It is a PEM file that the node's user may read."
            found.append(Diagnosis(subject=name, level="error", text=text, advice=hint))
        else:
            found.append(expiry(name, min(ends), advice))
    return found


def certificate_ends(path: Path) -> list[datetime]:
    """The ends of the certificates in a PEM file.

    Raises:
        OSError, ValueError: the file cannot be read, or has no certificates.
    """
    return [one.not_valid_after_utc for one in x509.load_pem_x509_certificates(path.read_bytes())]


async def check_settings(checked: CheckedNode) -> Sequence[Diagnosis]:
    """Settings that permit more than an operator may want, or mislead remote catalogs."""
    found = [*_unsafe(checked.settings)]
    return found or [Diagnosis(subject="settings", level="ok", text="none is unsafe")]


def _unsafe(settings: Settings) -> Iterator[Diagnosis]:
    def warn(text: str, advice: str, level: Level = "warning") -> Diagnosis:
        return Diagnosis(subject="settings", level=level, text=text, advice=advice)

    public = None if settings.public_url is None else urlsplit(settings.public_url)
    is_local = is_loopback(settings.host) and (public is None or is_loopback(public.hostname or ""))
    if settings.is_open and not is_local:
        yield warn(
            "everybody who reaches the node may do everything",
            "Set CONCORD_OPEN=false, and make tokens: docs/securing.md.",
            "error",
        )
    if public is None:
        yield warn(
            "there is no public URL: other catalogs may not reach what this one gives them",
            "Set CONCORD_PUBLIC_URL before others follow it.",
        )
    elif public.scheme == "http" and not is_local:
        yield warn(
            "the public URL is without TLS: tokens can be read on the way",
            "Serve https: CONCORD_TLS_CERT and CONCORD_TLS_KEY, or a proxy.",
        )
    if settings.allow_private_addresses and not is_local:
        yield warn(
            "those who may add subscriptions and links can reach private addresses",
            "Name the networks in CONCORD_ALLOWED_ADDRESSES instead of "
            "CONCORD_ALLOW_PRIVATE_ADDRESSES.",
        )
    if "*" in settings.cors_origins:
        yield warn("pages of every origin may use the API", "Name them in CONCORD_CORS_ORIGINS.")


MACHINE_CHECKS: Sequence[Check] = (check_directory, check_key, check_certificates, check_settings)
