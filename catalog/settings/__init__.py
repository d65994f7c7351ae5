"""The settings of a node, and the files with keys and settings in its data directory."""

from __future__ import annotations

from catalog.settings.settings import Settings

__all__ = ["Settings"]
