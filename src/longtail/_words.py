"""Numbers in sentences."""

from __future__ import annotations


def counted(count: int, thing: str) -> str:
    """Write a number of things: "1 row", "2,000 rows"; `thing` is the singular."""
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"
