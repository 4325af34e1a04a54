"""One request, or many, as one HTML file that needs nothing else: no network, no server, no other file.

The page holds the data as JSON, columns instead of objects (about 100 bytes a span), and draws it with the few
hundred lines of JavaScript in `assets/`. Texts of a trace are never part of the markup: see `page`.
"""

from __future__ import annotations

from linly_profiling.html.page import document, save_html

__all__ = ["document", "save_html"]
