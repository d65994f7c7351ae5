"""CloudEvents SQL 1.0: parses expressions over the attributes of an event and evaluates them.

The package imports no other package of the distribution, and no library except lark.
"""

from __future__ import annotations

from catalog.cesql.expression import Expression, parse
from catalog.cesql.operators import EvaluationError, ParseError

__all__ = ["EvaluationError", "Expression", "ParseError", "parse"]
