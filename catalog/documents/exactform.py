"""What an entity of an older edition says of its form in the newest, where its own cannot."""

from __future__ import annotations

from catalog.documents.rewrites import EXACT, DocumentPart, RewriteRule

_RULE = RewriteRule("what the older edition cannot express is what its extension says")


def restore_exact(entity: DocumentPart) -> None:
    """Give an entity the attributes that a document was written to preserve."""
    exact = entity.members.get(EXACT)
    if not isinstance(exact, dict):
        return
    entity.drop(EXACT, _RULE)
    for name, value in exact.items():
        if value is None:
            entity.drop(name, _RULE)
        elif name != EXACT:
            entity.set(name, value, _RULE)
    entity.trail.forget_left_out(f"{entity.pointer}/")
