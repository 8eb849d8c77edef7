"""How many runs there may be: limits of a type, and one at a time for an instance."""

from .checker import Claim, ConcurrencyChecker, Denial, Granted, Verdict
from .limiter import ConcurrencyLimiter

__all__ = ["Claim", "ConcurrencyChecker", "ConcurrencyLimiter", "Denial", "Granted", "Verdict"]
