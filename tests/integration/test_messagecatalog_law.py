"""What is written through the Message Catalog API or natively is seen through both."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.integration.conftest import Node, shared_node
from tests.unit.test_messagecatalog import ASSIGNED, described, extras, formats, objects

pytestmark = pytest.mark.asyncio(loop_scope="module")
QUIET = settings(
    max_examples=15,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    deadline=None,
)
SHARED = (
    *("envelope", "envelopemetadata", "protocol", "protocoloptions", "datacontenttype"),
    *("dataschema", "dataschemaformat", "dataschemauri", "description", "documentation", "tags"),
)
numbers = itertools.count()

node = shared_node()


def as_written(shown: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in shown.items() if name not in ASSIGNED}


@QUIET
@given(definition=formats, texts=objects({}, described), extra=extras)
async def test_a_definition_comes_back_and_natives_see_it(
    node: Node, definition: tuple[str, Any], texts: dict[str, Any], extra: dict[str, Any]
) -> None:
    (format, content), group = definition, f"g{next(numbers)}"
    body = {**extra, **texts, "id": "m", "format": format, "definition": content}
    await node.put(f"/messagecatalog/{group}", {"format": format})
    answer = await node.send("POST", f"/messagecatalog/{group}/messagedefinitions", body)
    assert (answer.status, as_written(answer.json)) == (201, body), answer.body
    shown = await node.get(f"/messagecatalog/{group}/messagedefinitions/m")
    assert as_written(shown) == body

    native = await node.get(f"/messagegroups/{group}/messages/m")
    twin = {name: native[name] for name in (*SHARED, "messagecatalog") if name in native}
    await node.put(f"/messagegroups/{group}/messages/twin", twin)
    through = await node.get(f"/messagecatalog/{group}/messagedefinitions/twin")
    if format != "CloudEvents":
        assert as_written(through) == {**body, "id": "twin"}
    else:
        assert through["definition"]["attributes"].keys() >= native["envelopemetadata"].keys()
