"""The trace of the current task, in the form of the headers of W3C Trace Context."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass

TRACEPARENT, TRACESTATE = "traceparent", "tracestate"
# Version ff and ids of zeros are invalid (Trace Context 3.2.2). Later versions may append fields
# (3.2.4).
_PARENT = re.compile(
    r"(?!ff)(?P<version>[0-9a-f]{2})-(?P<trace>(?!0{32})[0-9a-f]{32})"
    r"-(?P<span>(?!0{16})[0-9a-f]{16})-(?P<flags>[0-9a-f]{2})(?P<more>-.{0,200})?"
)
_STATE = re.compile(r"[\x20-\x7e]{1,512}")
_MOST_MEMBERS = 32
_SAMPLED = 1


@dataclass(frozen=True, slots=True)
class TraceContext:
    """A span of a trace, the parent of further spans; `state` is the data that vendors pass on."""

    trace: str
    span: str
    flags: int = _SAMPLED
    state: str = ""

    @classmethod
    def parse(cls, parent: object, state: object = "") -> TraceContext | None:
        """The context in two headers; `None` if the first header is invalid.

        A `state` that is malformed, or too long to be passed on, is left out.
        """
        found = _PARENT.fullmatch(parent) if isinstance(parent, str) else None
        if found is None or (found["version"] == "00" and found["more"]):
            return None
        is_state = isinstance(state, str) and _STATE.fullmatch(state)
        kept = state.strip() if isinstance(state, str) and is_state else ""
        if kept.count(",") >= _MOST_MEMBERS:
            kept = ""
        return cls(found["trace"], found["span"], int(found["flags"], 16) & _SAMPLED, kept)

    @property
    def parent(self) -> str:
        """The header `traceparent`."""
        return f"00-{self.trace}-{self.span}-{self.flags:02x}"

    def headers(self) -> Mapping[str, str]:
        """Both headers; events have attributes of the same names."""
        told = {TRACEPARENT: self.parent}
        return told | {TRACESTATE: self.state} if self.state else told


current_trace: ContextVar[TraceContext | None] = ContextVar("current_trace", default=None)
"""The trace that requests and changes of the current task continue."""


def trace_headers() -> Mapping[str, str]:
    """The headers that carry the trace in a request of the current task."""
    context = current_trace.get()
    return {} if context is None else context.headers()
