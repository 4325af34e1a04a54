"""The HTML report in a real browser: what it shows, what a reader can do with it, and that nothing else runs."""

from __future__ import annotations

import asyncio
import functools
import shutil
import threading
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from html_turns import HOSTILE, a_hostile_turn, a_large_turn, a_turn
from linly_profiling import LoadedTrace, Report
from linly_profiling.html import save_html

Steps = Callable[[Any, Path], Coroutine[Any, Any, None]]


class Chromium:
    """A browser in a thread with an event loop of its own, so that tests can be written from top to bottom."""

    def __init__(self, executable: str) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, name="chromium")
        self.thread.start()
        self.playwright, self.browser = self.call(self.launch(executable))

    def call(self, steps: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(steps, self.loop).result(timeout=60)

    async def launch(self, executable: str) -> tuple[Any, Any]:
        from playwright.async_api import async_playwright

        playwright = await async_playwright().start()
        return playwright, await playwright.chromium.launch(executable_path=executable)

    async def stop(self) -> None:
        await self.browser.close()
        await self.playwright.stop()

    def close(self) -> None:
        self.call(self.stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(timeout=10)
        self.loop.close()

    async def visit(self, steps: Steps, folder: Path, **options: Any) -> None:
        """Run the steps with a new page; whatever it logs, throws, or asks for beside the file itself is a failure."""
        context = await self.browser.new_context(**{"viewport": {"width": 1300, "height": 900}, **options})
        page = await context.new_page()
        page.set_default_timeout(20_000)
        page.wrong = wrong = list[str]()
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda asked: asked.url.startswith(("file:", "data:")) or wrong.append(asked.url))
        try:
            await steps(page, folder)
        finally:
            await context.close()
        assert wrong == []


@pytest.fixture(scope="module")
def chromium() -> Iterator[Chromium]:
    pytest.importorskip("playwright", reason="needs the Python package playwright")
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    executable = next(filter(None, map(shutil.which, names)), None)
    if executable is None:
        pytest.skip("needs Chromium on the PATH")
    browser = Chromium(executable)
    yield browser
    browser.close()


def in_browser(**options: Any) -> Callable[[Steps], Callable[..., None]]:
    """The test gets a page, and a folder for files."""

    def decorate(steps: Steps) -> Callable[..., None]:
        def run(chromium: Chromium, tmp_path: Path) -> None:
            chromium.call(chromium.visit(steps, tmp_path, **options))

        functools.update_wrapper(run, steps)
        del run.__wrapped__  # pytest would look for the fixtures of that one
        return run

    return decorate


async def show(page: Any, folder: Path, *traces: LoadedTrace) -> None:
    # Not in the loop, which must not be blocked; see conftest.py.
    path = await asyncio.to_thread(save_html, folder / "report.html", traces)
    await page.goto(path.as_uri())


async def selected(page: Any) -> str | None:
    found: str | None = await page.locator("#details").get_attribute("data-span-id")
    return found


def id_of(trace: LoadedTrace, name: str) -> str:
    return str(next(span.span_id for span in trace.spans if span.name == name))


@in_browser()
async def test_the_page_says_what_the_report_says(page: Any, folder: Path) -> None:
    trace = a_turn()
    report = Report.of(trace)
    await show(page, folder, trace)
    assert await page.locator("h1").inner_text() == "request turn-1"
    tiles = await page.locator(".tiles").inner_text()
    assert "900 ms" in tiles  # first token
    assert "1.20 s" in tiles  # first audio
    assert "2.00 s" in tiles  # wall
    for milestone in report.milestones:
        keys = await page.locator(f'[data-milestone="{milestone.name}"]').inner_text()
        assert milestone.contributions[-1].label in keys
    assert await page.locator("#stages tbody tr").count() == 2
    assert await page.locator("#spans tbody tr").count() == len({span.name for span in trace.spans})
    assert await page.locator("#advice [data-rule]").count() == len(report.advice) > 0


@in_browser()
async def test_advice_leads_to_its_spans(page: Any, folder: Path) -> None:
    trace = a_turn()
    await show(page, folder, trace)
    assert max(len(advice.span_ids) for advice in Report.of(trace).advice) > 1
    for advice in Report.of(trace).advice:
        card = page.locator(f'#advice [data-rule="{advice.rule}"]').first
        if await card.evaluate("card => card.tagName") == "DETAILS":
            await card.locator("summary").click()
        for chip in await card.locator(".chip").all():
            await chip.click()
            assert await selected(page) == await chip.get_attribute("data-span-id")
            assert int(await selected(page) or 0) in advice.span_ids
            assert await page.locator("#waterfall-chart").is_visible()


@in_browser()
async def test_hostile_texts_are_shown_and_nothing_of_them_runs(page: Any, folder: Path) -> None:
    trace = a_hostile_turn()
    await show(page, folder, trace)
    assert "onerror" in await page.title()
    assert HOSTILE[0] in await page.locator("h1").inner_text()
    for row in await page.locator("#spans tbody tr, #stages tbody tr").all():
        await row.click()
        assert await page.locator("#details .group").count() > 0
    await page.mouse.move(600, 300)
    assert await page.locator("img, script:not([type]):not(:last-of-type)").count() == 0
    assert "pwned" not in (await page.title()).split("onerror")[0]
    with pytest.raises(Exception, match="TrustedHTML"):  # what our own code could not do either
        await page.evaluate("document.body.innerHTML = '<b>'")
    assert "TrustedHTML" in page.wrong.pop()


@in_browser()
async def test_the_keyboard_reaches_every_span(page: Any, folder: Path) -> None:
    trace = a_turn()
    await show(page, folder, trace)
    chart = page.locator("#waterfall-chart")
    await chart.focus()
    await chart.press("ArrowDown")
    assert await selected(page) == id_of(trace, "linly.request")
    await chart.press("ArrowDown")
    stages = [id_of(trace, "linly.stage llm"), id_of(trace, "linly.stage tts")]
    assert (stage := await selected(page)) in stages
    await chart.press("ArrowDown")
    assert await selected(page) not in [*stages, id_of(trace, "linly.request")]
    await chart.press("ArrowUp")
    assert await selected(page) == stage
    for key in ("+", "-", "ArrowLeft", "ArrowRight", "Enter", "0", "[", "]"):
        await chart.press(key)
    await chart.press("Escape")
    assert await selected(page) == ""


@in_browser()
async def test_a_click_on_a_bar_selects_its_span(page: Any, folder: Path) -> None:
    trace = a_turn()
    await show(page, folder, trace)
    await page.locator("#waterfall").scroll_into_view_if_needed()
    box = await page.locator("#waterfall-chart canvas").bounding_box()
    await page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 30 + 5 + 9)
    assert "request" in await page.locator("#tooltip").inner_text()
    await page.mouse.click(box["x"] + box["width"] / 2, box["y"] + 30 + 5 + 9)
    assert await selected(page) == id_of(trace, "linly.request")


async def painted(page: Any) -> str:
    """The waterfall as it is drawn; two frames later than now."""
    script = """() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() =>
        done(document.querySelector('#waterfall-chart canvas').toDataURL()))))"""
    picture: str = await page.evaluate(script)
    return picture


COUNT_RED = """() => {
    const canvas = document.querySelector('#waterfall-chart canvas');
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    let red = 0;
    for (let i = 0; i < data.length; i += 4) if (data[i] > 170 && data[i + 1] < 110 && data[i + 2] < 120) red += 1;
    return red;
}"""


@in_browser(reduced_motion="reduce")
async def test_mouse_and_keys_move_through_the_time(page: Any, folder: Path) -> None:
    await show(page, folder, a_turn())
    chart = page.locator("#waterfall-chart")
    await chart.scroll_into_view_if_needed()
    whole = await painted(page)
    await chart.press("+")
    near = await painted(page)
    box = await chart.bounding_box()
    await page.mouse.move(box["x"] + 500, box["y"] + 100)
    await page.mouse.down()
    await page.mouse.move(box["x"] + 300, box["y"] + 100)
    await page.mouse.up()
    await page.mouse.move(1, 1)
    moved = await painted(page)
    await page.mouse.move(box["x"] + 500, box["y"] + 100)
    await page.keyboard.down("Control")
    await page.mouse.wheel(0, -300)
    await page.keyboard.up("Control")
    await page.mouse.move(1, 1)
    nearer = await painted(page)
    assert len({whole, near, moved, nearer}) == 4
    await page.get_by_role("button", name="all", exact=True).click()
    await page.mouse.move(1, 1)
    assert await painted(page) == whole


@in_browser()
async def test_twenty_thousand_spans_open_and_can_be_searched(page: Any, folder: Path) -> None:
    trace = await asyncio.to_thread(a_large_turn, 20_000)
    await show(page, folder, trace)
    assert "20,000 spans" in await page.locator(".facts").first.inner_text()
    assert await page.evaluate("document.querySelectorAll('*').length") < 3_000
    chart = page.locator("#waterfall-chart")
    before = await painted(page)
    assert await page.evaluate(COUNT_RED) > 5  # the one span that failed, not a pixel wide
    for key in ("+", "+", "ArrowRight"):
        await chart.press(key)
    assert await painted(page) != before
    await page.locator("#spans tbody tr", has_text="face.render").click()
    await chart.press("]")
    assert int(await selected(page) or 0) > 4


@in_browser()
async def test_one_of_many_requests_is_chosen_and_they_sort(page: Any, folder: Path) -> None:
    traces = [a_turn(f"turn-{k}", ms) for k, ms in enumerate([1_900, 2_500, 1_700])]
    await show(page, folder, *traces, a_turn("stopped", 1_300, "cancelled"))
    assert await page.locator("#requests tbody tr").count() == 4
    await page.locator("#requests tbody tr", has_text="stopped").click()
    assert await page.locator("h1").inner_text() == "request stopped"
    assert "cancelled" in await page.locator(".headline .pill").inner_text()
    await page.locator("#requests th button", has_text="wall").click()
    names = await page.locator("#requests tbody tr td:nth-child(2)").all_inner_texts()
    assert names == ["turn-1", "turn-0", "turn-2", "stopped"]
    await page.locator("#chooser").select_option(index=0)
    assert await page.locator("h1").inner_text() == "request turn-0"
    await page.get_by_role("button", name="previous request").click()
    assert await page.locator("h1").inner_text() == "request stopped"
    await page.reload()
    assert await page.locator("h1").inner_text() == "request stopped"


@in_browser()
async def test_the_flame_view_opens_what_is_clicked(page: Any, folder: Path) -> None:
    await show(page, folder, a_turn())
    box = page.locator(".flame-box", has_text="stage tts")
    narrow = (await box.bounding_box())["width"]
    await box.click()
    assert (await box.bounding_box())["width"] > 1.5 * narrow
    await page.keyboard.press("Escape")
    assert (await box.bounding_box())["width"] == pytest.approx(narrow, abs=1)
    assert await page.locator(".flame-box[data-depth='2']", has_text="queue.wait").count() == 0
    await page.locator("#flame-waiting").check()
    assert await page.locator(".flame-box.waits").count() > 0


@in_browser()
async def test_it_follows_the_colour_scheme_and_fits_the_window(page: Any, folder: Path) -> None:
    await show(page, folder, a_turn(), a_hostile_turn())
    light = await painted(page)
    await page.emulate_media(color_scheme="dark")
    for _ in range(100):
        if await painted(page) != light:
            break
        await page.wait_for_timeout(20)
    else:
        pytest.fail("the page did not turn dark")
    for width in (1000, 1600):
        await page.set_viewport_size({"width": width, "height": 800})
        assert await page.evaluate("document.documentElement.scrollWidth") <= width


@in_browser(java_script_enabled=False)
async def test_without_scripts_there_is_the_text(page: Any, folder: Path) -> None:
    await show(page, folder, a_turn())
    assert "first token after 900 ms" in await page.locator("noscript pre").inner_text()


@in_browser()
async def test_a_file_without_spans_says_so(page: Any, folder: Path) -> None:
    await show(page, folder)
    assert await page.locator("h1").inner_text() == "No requests"
    await show(page, folder, replace(a_turn(), spans=(), samples=(), flows=()))
    assert await page.locator("h1").inner_text() == "request turn-1"
