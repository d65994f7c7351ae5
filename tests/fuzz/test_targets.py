"""The targets of fuzzing hold for their seeds and for mutations of them."""

from __future__ import annotations

import random

import pytest

from tests.fuzz.targets import TARGETS, seeds

_MUTATIONS = 100


@pytest.mark.parametrize("name", TARGETS)
def test_a_parser_raises_its_documented_errors_only(name: str) -> None:
    randomness = random.Random(name)
    for seed in seeds()[name]:
        TARGETS[name](seed)
    for _ in range(_MUTATIONS):
        TARGETS[name](_mutated(randomness.choice(seeds()[name]), randomness))


def _mutated(text: bytes, randomness: random.Random) -> bytes:
    """A text of which some bytes are replaced, left out or repeated."""
    changed = bytearray(text)
    for _ in range(randomness.randint(1, 4)):
        at = randomness.randrange(len(changed) + 1)
        end = at + randomness.choice((0, 1, 1, 2, 8))
        changed[at:end] = randomness.choice(
            (b"", randomness.randbytes(1), b"\0", b'"', b"{", b"\xff", bytes(changed[at:end]) * 2)
        )
    return bytes(changed)
