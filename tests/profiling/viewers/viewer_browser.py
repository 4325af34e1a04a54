"""Viewers that need a browser, in a process of its own: a browser's client keeps an event loop running.

python viewer_browser.py speedscope FOLDER TRACE…       prints what speedscope made of each file, as JSON
python viewer_browser.py perfetto FOLDER TRACE PNG      takes a picture of a file in Perfetto's web page
"""

from __future__ import annotations

import base64
import functools
import http.server
import json
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, FloatRect, Page

WIDTH, HEIGHT = 1500, 1500


def chromium_executable() -> str | None:
    """A browser of the system: the one that Playwright would download is not needed."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((path for name in names if (path := shutil.which(name))), None)


@contextmanager
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Chromium refuses to run as root with its sandbox, as in containers.
        sandbox = not hasattr(os, "geteuid") or os.geteuid() != 0
        chromium = playwright.chromium.launch(executable_path=chromium_executable(), chromium_sandbox=sandbox)
        try:
            yield chromium
        finally:
            chromium.close()


def speedscope(folder: Path, traces: list[Path]) -> list[dict[str, Any]]:
    """What speedscope's own export says of each trace, opened as a user would open it."""
    page_url = (folder.resolve() / "index.html").as_uri()
    with browser() as chromium:
        return [_exported(chromium.new_page(), page_url, trace) for trace in traces]


def _exported(page: Page, url: str, trace: Path) -> dict[str, Any]:
    page.goto(url)
    page.set_input_files("input[type=file]", trace)
    page.wait_for_selector("canvas")
    with page.expect_download() as download:
        page.keyboard.press("Control+s")
    document: dict[str, Any] = json.loads(download.value.path().read_text("utf-8"))
    page.close()
    return document


def perfetto(folder: Path, trace: Path, image: Path) -> None:
    """A picture of a trace as Perfetto shows it when it is opened, and of nothing else on the page."""
    with _served(folder) as url, browser() as chromium:
        page = chromium.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.goto(url)
        page.wait_for_selector(".pf-home-page, .pf-sidebar, main")
        _open_in_perfetto(page, trace)
        page.screenshot(path=image, clip=_around_the_tracks(page))


def _open_in_perfetto(page: Page, trace: Path) -> None:
    data = base64.b64encode(trace.read_bytes()).decode()
    page.evaluate(
        """async ([data, title]) => {
            const buffer = Uint8Array.from(atob(data), (c) => c.charCodeAt(0)).buffer;
            window.postMessage({ perfetto: { buffer, title } }, "*");
        }""",
        [data, trace.name],
    )
    page.wait_for_selector(".pf-track", timeout=60_000)
    page.wait_for_timeout(2_000)  # without a network it complains of that, some time later
    page.keyboard.press("Escape")
    expand = page.get_by_title("Expand all")
    if expand.count():  # a single process is expanded from the start
        expand.click()
    page.wait_for_timeout(3_000)  # it draws when it has time


def _around_the_tracks(page: Page) -> FloatRect:
    boxes = [box for track in page.locator(".pf-track").all() if (box := track.bounding_box())]
    top = max(0.0, min(box["y"] for box in boxes))
    bottom = max(box["y"] + box["height"] for box in boxes)
    return {"x": 0, "y": top, "width": WIDTH, "height": min(bottom, HEIGHT - 60) - top}


@contextmanager
def _served(folder: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def main(viewer: str, folder: str, *files: str) -> None:
    if viewer == "speedscope":
        print(json.dumps(speedscope(Path(folder), [Path(file) for file in files])))
    else:
        trace, image = files
        perfetto(Path(folder), Path(trace), Path(image))


if __name__ == "__main__":
    main(*sys.argv[1:])
