"""The tree of changes that `apply` and `diff` print."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from catalog.commands.apply.report import change_tree, summary

M = "/messagegroups/g/messages"
CHANGES: list[dict[str, Any]] = [
    {"xid": f"{M}/a", "action": "created"},
    {"xid": f"{M}/a/versions/1", "action": "created"},
    {"xid": f"{M}/a/versions/2", "action": "created"},
    {
        "xid": f"{M}/b/versions/1",
        "action": "updated",
        "changed": ["description", "envelopemetadata", "schema"],
        "values": [
            {"path": ["description"], "old": "[old]", "new": "new"},
            {"path": ["envelopemetadata", "subject"], "new": 1},
        ],
    },
    {"xid": "/schemagroups/s", "action": "deleted"},
]


def plain(markup: str) -> list[str]:
    return Text.from_markup(markup).plain.splitlines()


def test_each_entity_has_a_line_with_what_changes_in_it() -> None:
    assert plain(change_tree(CHANGES)) == [
        "messagegroups/g/messages",
        "├── + a  versions 1, 2",
        '└── ~ b/versions/1  description: "[old]" → "new"  '
        "envelopemetadata.subject: nothing → 1  schema",
        "- schemagroups/s",
    ]


def test_the_summary_counts_the_lines() -> None:
    assert summary(CHANGES, is_dry_run=False) == "1 created, 1 changed, 1 deleted."
    assert summary(CHANGES[:3], is_dry_run=True) == "Would be: 1 created."
    assert summary([], is_dry_run=True) == "Nothing to do."


def test_a_long_tree_ends_with_how_much_is_missing() -> None:
    changes = [{"xid": f"{M}/m{number:03}", "action": "created"} for number in range(300)]
    lines = plain(change_tree(changes))
    assert lines[-1] == "… and 100 more; --verbose lists them."
    assert len(lines) == 1 + 200 + 1
    assert len(plain(change_tree(changes, most=None))) == 301
