"""Tools for agents by the Model Context Protocol: on a terminal, and at a node."""

from __future__ import annotations


def lacks_library(error: ModuleNotFoundError) -> bool:
    """Whether an import failed because the library of the protocol, an extra, is not installed."""
    return (error.name or "").partition(".")[0] in ("mcp", "mcp_types")
