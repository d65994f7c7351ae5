"""Headers of W3C Trace Context are read strictly, and passed on as they came."""

from __future__ import annotations

import pytest

from catalog.model.tracecontext import TraceContext

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"


def test_a_context_is_passed_on_as_it_came() -> None:
    context = TraceContext.parse(PARENT, "a=1,b=2")
    assert context is not None
    assert context.headers() == {"traceparent": PARENT, "tracestate": "a=1,b=2"}
    unsampled = TraceContext.parse(f"00-{TRACE}-{SPAN}-00")
    assert unsampled is not None
    assert unsampled.headers() == {"traceparent": f"00-{TRACE}-{SPAN}-00"}


def test_a_later_version_is_read_as_the_one_that_is_known() -> None:
    context = TraceContext.parse(f"cc-{TRACE}-{SPAN}-03-what-the-future-will-be-like")
    assert context is not None
    assert context.parent == PARENT


@pytest.mark.parametrize(
    "parent",
    [
        "",
        None,
        7,
        PARENT.upper(),
        PARENT + "-more",
        PARENT + "\n",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[1:]}-{SPAN}-01",
        f"01-{TRACE}-{SPAN}-01-" + "x" * 300,
    ],
)
def test_what_is_no_context_is_none(parent: object) -> None:
    assert TraceContext.parse(parent) is None


@pytest.mark.parametrize("state", ["x" * 513, "a=1\r\nX: y", "ä=1", ",".join("a=1" * 33), None, 5])
def test_a_state_that_cannot_be_passed_on_is_left_out(state: object) -> None:
    context = TraceContext.parse(PARENT, state)
    assert context is not None
    assert context.headers() == {"traceparent": PARENT}
