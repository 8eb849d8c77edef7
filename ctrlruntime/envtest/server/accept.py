"""The Accept header: which media types a client takes, the ones it likes best first."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clause:
    """One media type with its parameters (`q` left out)."""

    media: str
    parameters: dict[str, str]

    def covers(self, media: str) -> bool:
        """Whether it names `media`, outright or by a wildcard."""
        family = media.partition("/")[0]
        return self.media in {media, "*/*", f"{family}/*"}


def clauses(accept: str) -> list[Clause]:
    """Best first; an absent header accepts everything."""
    if not accept.strip():
        return [Clause("*/*", {})]
    found: list[tuple[float, Clause]] = []
    for part in accept.split(","):
        media, *rest = (piece.strip() for piece in part.split(";"))
        parameters = dict(_pair(piece) for piece in rest if piece)
        quality = _quality(parameters.pop("q", "1"))
        if media and quality > 0:
            found.append((quality, Clause(media.lower(), parameters)))
    found.sort(key=lambda item: -item[0])
    return [clause for _, clause in found]


def _pair(text: str) -> tuple[str, str]:
    key, _, value = text.partition("=")
    return key.strip(), value.strip().strip('"')


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
