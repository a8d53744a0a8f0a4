"""Names and fields as the bytes that the library takes.

Nothing here raises, whatever the program passes.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Optional

#: The longest value of a field, in characters. Longer ones are cut.
LONGEST_VALUE = 1000


def encoded(text: Any) -> bytes:
    """The bytes of a name. The library ends a name at its first zero."""
    try:
        name: bytes = text.encode()
        return name
    except Exception:
        return _shown(text).encode("utf-8", "replace")


def fields_text(fields: Dict[str, Any]) -> Optional[bytes]:
    """The fields as one text, such as `path=a.txt, size=3`; `None` without fields."""
    if not fields:
        return None
    shown = [f"{name}={_shown(value)}" for name, value in fields.items()]
    return ", ".join(shown).encode("utf-8", "replace")


def _shown(value: Any) -> str:
    """The value as a text. Values that have none are named."""
    try:
        return str(value)[:LONGEST_VALUE]
    except Exception:
        return f"<{type(value).__name__}>"
