"""CEL expressions of `readyWhen`: parsed at admission, evaluated with a counted cost. Imported on use.

The language is CEL on JSON values without bytes, unsigned numbers, times, patterns, optional syntax and
messages; what is left out is refused when the expression is compiled.
"""

from internal.tenancy.cel.errors import CelError
from internal.tenancy.cel.evaluator import MOST_COST, evaluate
from internal.tenancy.cel.parser import LONGEST_EXPRESSION, compile_expression

__all__ = ["LONGEST_EXPRESSION", "MOST_COST", "CelError", "compile_expression", "evaluate"]
