"""A handler of `logging` that records messages as markers.

A module of its own, because a program that does not log need not import `logging`.
"""

from __future__ import annotations

import logging

from . import _state
from ._text import encoded


class LogHandler(logging.Handler):
    """Records each message as an instant. Its name is the level, its text the logger and message.

        logging.getLogger().addHandler(profiler.LogHandler())
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Records the message, if this process records now."""
        api = _state.api
        if api is None or not api.is_recording():
            return
        try:
            text = self.format(record) if self.formatter else record.getMessage()
            api.marker_text(encoded(record.levelname), encoded(f"{record.name}: {text}"))
        except Exception:
            pass  # the message cannot be formatted; the program's own handlers report it
