"""The settings of a node, and the files of its data directory that are made of them."""

from __future__ import annotations

from catalog.config.settings import Settings

__all__ = ["Settings"]
