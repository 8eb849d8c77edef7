"""How many runs there may be: limits of a type, and one at a time for an instance."""

from .checker import Claim, ConcurrencyChecker, Denied, Granted, Verdict
from .ledger import Ledger

__all__ = ["Claim", "ConcurrencyChecker", "Denied", "Granted", "Ledger", "Verdict"]
