"""How large a claim is to be. Pure."""

from decimal import ROUND_CEILING, Decimal
from typing import Final

from ctrlruntime.api.scalars import Quantity

PADDING: Final = Decimal("1.02")
"""What a request to grow is multiplied by: file systems keep some of a volume for themselves."""
SUFFIXES: Final = tuple(
    (f"{letter}{binary}", Decimal(1024 if binary else 1000) ** power)
    for binary in ("i", "")
    for power, letter in enumerate("KMGTPE" if binary else "kMGTPE", 1)
)


def requested_size(
    template: str,
    scaled: str | None = None,
    capacity: str | None = None,
    source: str | None = None,
    *,
    requested: str | None = None,
    max_size: str | None = None,
) -> str:
    """Return the size to request, as a quantity. ValueError for what is no quantity.

    A new claim that is filled from a source has the size of the `source`, any other new one that of the
    `template`. An existing one has `requested` already, and `capacity` if it is bound: it gets the
    largest of these, of the template and of `scaled`, a request to grow, to which 2 % are added and which
    then is cut to `max_size`. It never shrinks.
    """
    if requested is None and capacity is None:
        return in_short(_bytes(source or template))
    sizes = [_bytes(size) for size in (template, requested, capacity) if size is not None]
    if scaled is not None:
        padded = _bytes(scaled) * PADDING
        sizes.append(padded if max_size is None else min(padded, _bytes(max_size)))
    return in_short(max(sizes))


def in_short(size: Decimal) -> str:
    """Return the shortest quantity of that many bytes, rounded up: one text for each size."""
    whole = size.to_integral_value(ROUND_CEILING)
    texts = [str(whole)]
    texts += [
        f"{whole / unit:f}{suffix}" for suffix, unit in SUFFIXES if whole and not whole % unit
    ]
    return min(texts, key=len)


def _bytes(size: str) -> Decimal:
    return Quantity(size).value
