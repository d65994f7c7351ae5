"""Schemas that are inferred from payloads: every sample fits, and hostile samples are bounded."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.commands.discover.payloads import PayloadSample

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(-1, 1) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=6,
)
OBJECTS = st.dictionaries(st.sampled_from(["a", "b", "c", "$ref", "type"]), VALUES)


def sample_of(*payloads: bytes) -> PayloadSample:
    sample = PayloadSample()
    for payload in payloads:
        sample.note(payload)
    return sample


@given(values=st.lists(OBJECTS, min_size=1, max_size=5))
def test_every_sample_fits_the_inferred_schema(values: list[Any]) -> None:
    schema = sample_of(*map(orjson.dumps, values)).schema()
    assert schema is not None
    validator = jsonschema_rs.validator_for(schema)
    assert all(validator.is_valid(value) for value in values)


def test_the_evidence_counts_samples_and_fields_and_tells_no_value() -> None:
    payloads = [{"id": n, "items": [{"sku": "secret"}] * 3} for n in range(3)]
    payloads[0]["note"] = "secret"
    sample = sample_of(*map(orjson.dumps, payloads), b"no JSON", b"[1]")
    assert sample.evidence() == (
        "a schema is inferred from 3 of 5 payloads, which have id 3, items 3, items[].sku 3, note 1"
    )
    schema = sample.schema()
    assert schema is not None
    assert schema["required"] == ["id", "items"]
    assert "secret" not in orjson.dumps(schema).decode()
    assert schema["description"] == "Inferred from 3 sampled records."


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"1",
        b"\xff",
        b'{"a": ' * 200 + b"1" + b"}" * 200,
        orjson.dumps({"a": "x" * 2**17}),
        orjson.dumps({"a": [0] * 5000}),
    ],
)
def test_payloads_beyond_the_bounds_are_not_read(payload: bytes) -> None:
    sample = sample_of(payload)
    assert sample.schema() is None
    assert sample.evidence() == ("no schema is inferred: none of 1 payloads is a small JSON object")


def test_names_that_are_data_give_no_schema() -> None:
    sample = sample_of(*(orjson.dumps({f"customer-{n}": {"x": 1}}) for n in range(1000)))
    assert sample.schema() is None
    assert "more than 300 names" in sample.evidence()
