"""Pages in Chromium: screen reader rules (axe), keyboard, narrow and wide, light and dark."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.browser

REPOSITORY = Path(__file__).parents[2]
PATHS = [
    *("records", "records?text=class1", "records?where=sise", "records?split=none"),
    *("record/0/0", "record/0/2?augment=none", "record/0/0?augment=swirl", "record/9/9"),
    *("duplicates", "quarantine", "quarantine/0", "quarantine?reason=none"),
    *("differences", "differences?other=b/0", "differences?other=b/0&what=changed"),
]


@pytest.fixture(scope="module")
def chromium():
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        names = ("chromium", "chromium-browser", "google-chrome")
        path = next(filter(None, map(shutil.which, names)), None)
        try:
            browser = playwright.chromium.launch(executable_path=path)
        except sync_api.Error as error:
            pytest.skip(f"no Chromium: {str(error).splitlines()[0]}")
        yield browser
        browser.close()


@pytest.fixture
def served():
    """Starts the command on some sets; gives the address of the first page."""
    processes = []

    def start(*sets):
        command = [sys.executable, "-m", "cli.main", "view", *map(str, sets), "--no-browser"]
        process = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
        processes.append(process)
        return re.search(r"http://\S+", "".join(process.stdout.readline() for _ in range(3)))[0]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


@pytest.fixture
def opened(chromium, served):
    """Opens the first page of some sets; gives it, and the address of set A."""
    contexts = []

    def start(*sets, **options):
        url = served(*sets)
        contexts.append(chromium.new_context(**options))
        page = contexts[-1].new_page()
        page.goto(url)
        return page, url.partition("?")[0] + "a/0/"

    yield start
    for context in contexts:
        context.close()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1400), ("dark", 375)])
def test_every_page_is_for_everybody(scheme, width, built, opened):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    viewport = {"width": width, "height": 900}
    page, base = opened(built / "set", built / "other", color_scheme=scheme, viewport=viewport)
    blocked = []
    page.on("console", lambda one: blocked.append(one.text) if "Policy" in one.text else None)
    page.on("request", lambda one: blocked.append(one.url) if base[:20] not in one.url else None)
    for path in PATHS:
        page.goto(base + path, wait_until="networkidle")
        assert not (result := axe.run(page)).violations_count, f"{path} {result.generate_report()}"
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        assert page.locator("h1").count() == 1 and page.title().endswith("shardmill view")
        broken = "[...document.images].filter(one => one.complete && !one.naturalWidth).length"
        assert page.evaluate(broken) == 0, path
    assert not [one for one in blocked if not one.startswith("data:")]


def test_the_keyboard_reaches_everything(built, opened):
    page, _ = opened(built / "set")
    page.keyboard.press("Tab")
    skip = page.locator(":focus")
    assert skip.inner_text() == "Skip to the content" and skip.bounding_box()["x"] >= 0
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    names = []
    while "text" not in names:
        page.keyboard.press("Tab")
        names.append(page.evaluate("document.activeElement.name"))
    assert names == ["where", "text"]
    page.keyboard.type("class1/00")
    page.keyboard.press("Enter")
    page.wait_for_url("**text=class1*")
    shown = page.locator(".cards li").count()
    assert 0 < shown < 24
    page.locator("#source").focus()
    for _ in range(3):  # the button, all records, the first record
        page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('.cards') !== null")
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert page.evaluate(outline) == "solid"
    page.keyboard.press("Enter")
    page.wait_for_url("**/record/**")
    assert "class1/00" in page.locator("h1").inner_text()
    before = page.url
    page.locator("nav[aria-label=Neighbours] a").first.press("Enter")
    page.wait_for_url(lambda url: url != before)
    assert page.locator("h1").inner_text()


def test_hostile_texts_run_nothing(write_records, opened):
    from shard_format import Feature, Schema

    texts = ["<script>document.title='run'</script>", "<img src=x onerror=document.title='run'>"]
    texts += ["\u202eright to left", "{{7*7}}", "z" * 50_000, "a\u0300" * 3000]
    schema = Schema("text", (Feature("id", "text"), Feature("text", "text")))
    records = [({"id": one, "text": one}, {"record_id": one}) for one in texts]
    page, base = opened(
        write_records(schema, {"train": records}), viewport={"width": 375, "height": 700}
    )
    for path in ["records", *(f"record/0/{row}" for row in range(len(texts)))]:
        page.goto(base + path, wait_until="networkidle")
        assert page.title() != "run" and page.locator("main script, main img[src=x]").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path


def test_another_site_gets_nothing(built, opened, chromium):
    """A page of another origin can neither frame the pages, nor read them with the cookie."""
    page, base = opened(built / "set")
    page.route(
        "http://other.example/", lambda one: one.fulfill(body="<p>other", content_type="text/html")
    )
    page.goto("http://other.example/")
    script = """base => fetch(base + 'records', {credentials: 'include', mode: 'no-cors'})
        .then(got => got.type + got.status, () => 'refused')"""
    assert page.evaluate(script, base) in ("refused", "opaque0")
    embedded = """base => new Promise(done => { const image = new Image();
        image.onload = () => done('loaded'); image.onerror = () => done('refused');
        image.src = base + 'image/0/0'; })"""
    assert page.evaluate(embedded, base) == "refused"
