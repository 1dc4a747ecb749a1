"""The report in Chromium: nothing is loaded, nothing is empty, nothing overlaps, on phones and wide screens."""

import os
import shutil

import pytest

from testbed.report.page.page import page
from tests.kits.many_results import (
    failed_gate,
    incomplete,
    isolation,
    paper,
    reading,
    renamed,
    requests_compared,
    trace,
)

pytestmark = pytest.mark.browser

WIDTHS, SCHEMES = (360, 1280), ("light", "dark")
NAMES = ("everything", "two-runs", "evil", "trace", "gate")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the pages."""
    place = tmp_path_factory.mktemp("pages")
    compared, served = requests_compared(), isolation()
    pages = {
        "everything": [reading([*compared, *served], outcomes=paper())],
        "two-runs": [reading(compared), reading([*compared, *served], name="20261121T101530Z-bbbbbb")],
        "evil": [reading(incomplete(renamed(compared)), problems=["<script>alert(1)</script>"])],
        "trace": [reading(trace(place))],
    }
    for name, readings in pages.items():
        (place / f"{name}.html").write_text(page(readings))
    evil = renamed(compared)
    (place / "gate.html").write_text(page([reading(evil, gate=failed_gate(evil))]))
    return place


@pytest.fixture(scope="module")
def browser():
    # Only here, because a session that leaves these tests out must collect them without playwright, too.
    from playwright.sync_api import sync_playwright

    found = os.environ.get("CARICO_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    assert found, "these tests need Chromium: apt-get install chromium, or CARICO_CHROMIUM=PATH"
    with sync_playwright() as playwright:
        one = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield one
        one.close()


@pytest.fixture(
    params=[(width, scheme) for width in WIDTHS for scheme in SCHEMES], ids=lambda one: f"{one[0]}-{one[1]}"
)
def shown(browser, folder, request):
    """A function that shows a page and returns it, with what it said on the console and what it asked for."""
    width, scheme = request.param
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)

    def show(name):
        tab, said, asked = context.new_page(), [], []
        tab.on("console", lambda message: said.append(message.text))
        tab.on("pageerror", lambda error: said.append(str(error)))
        tab.on("dialog", lambda dialog: said.append(dialog.message))
        tab.on("request", lambda one: asked.append(one.url))
        tab.goto((folder / f"{name}.html").as_uri())
        return tab, said, asked

    yield show
    context.close()


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_loaded_or_complained_about(shown, folder, name):
    _, said, asked = shown(name)
    assert said == []
    assert [url for url in asked if not url.startswith("data:")] == [(folder / f"{name}.html").as_uri()]


@pytest.mark.parametrize("name", NAMES)
def test_the_page_never_scrolls_sideways(shown, name):
    tab, _, _ = shown(name)
    assert tab.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


EMPTY = """() => [...document.querySelectorAll('svg')].filter(svg => {
    const box = svg.getBoundingClientRect();
    const drawn = [...svg.querySelectorAll('path, circle, rect')].filter(one => {
        const style = getComputedStyle(one), size = one.getBoundingClientRect();
        const visible = style.fill !== 'none' || style.stroke !== 'none';
        return visible && size.width + size.height > 0 && !['grid', 'absent'].includes(one.getAttribute('class'));
    });
    return box.width < 60 || box.height < 10 || !drawn.length;
}).map(svg => svg.getAttribute('aria-label'))"""


@pytest.mark.parametrize("name", NAMES)
def test_no_figure_is_empty(shown, name):
    tab, _, _ = shown(name)
    assert tab.evaluate("document.querySelectorAll('figure svg').length") > 5
    assert tab.evaluate(EMPTY) == []


OVERLAPS = """() => [...document.querySelectorAll('svg')].flatMap(svg => {
    const boxes = [...svg.querySelectorAll('text')].map(one => [one.textContent, one.getBoundingClientRect()]);
    const whole = svg.getBoundingClientRect(), found = [];
    boxes.forEach(([text, box], n) => {
        if (box.left < whole.left - 4 || box.right > whole.right + 4) found.push('outside: ' + text);
        boxes.slice(n + 1).forEach(([other, its]) => {
            const width = Math.min(box.right, its.right) - Math.max(box.left, its.left);
            const height = Math.min(box.bottom, its.bottom) - Math.max(box.top, its.top);
            if (width > 1 && height > 3) found.push(text + ' | ' + other);
        });
    });
    return found;
})"""


@pytest.mark.parametrize("name", NAMES)
def test_no_text_of_a_figure_overlaps_another(shown, name):
    tab, _, _ = shown(name)
    assert tab.evaluate(OVERLAPS) == []


COVERED = """() => [...document.querySelectorAll('tr')].filter(row => {
    const badge = row.querySelector('.badge'), name = row.querySelector('th[scope=row] span:last-of-type');
    if (!badge || !name) return false;
    const range = document.createRange();
    range.selectNodeContents(name);
    const one = badge.getBoundingClientRect();
    return [...range.getClientRects()].some(other =>
        Math.min(one.right, other.right) > Math.max(one.left, other.left) &&
        Math.min(one.bottom, other.bottom) > Math.max(one.top, other.top));
}).map(row => row.textContent)"""


@pytest.mark.parametrize("name", NAMES)
def test_no_verdict_covers_a_name(shown, name):
    tab, _, _ = shown(name)
    assert tab.evaluate(COVERED) == []


CONTRAST = """() => {
    const channel = value => value <= .03928 ? value / 12.92 : ((value + .055) / 1.055) ** 2.4;
    const light = color => {
        const [r, g, b] = color.match(/[\\d.]+/g).map(Number).map(value => channel(value / 255));
        return .2126 * r + .7152 * g + .0722 * b;
    };
    const behind = one => {
        for (let at = one; at; at = at.parentElement) {
            const color = getComputedStyle(at).backgroundColor;
            if (!color.includes('rgba(0, 0, 0, 0)')) return color;
        }
    };
    const ratio = (one, other) => {
        const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
        return (high + .05) / (low + .05);
    };
    const texts = [...document.querySelectorAll('h1, h2, h3, p, td, th, li, a, figcaption, summary, pre, .badge')]
        .filter(one => one.textContent.trim())
        .map(one => [one.tagName + one.className, ratio(getComputedStyle(one).color, behind(one)), 4.5]);
    const marks = [...document.querySelectorAll('.swatch')]
        .map(one => [one.className, ratio(getComputedStyle(one).backgroundColor, behind(one.parentElement)), 3]);
    return [...texts, ...marks].filter(([, found, wanted]) => found < wanted).map(one => one.join(' '));
}"""


@pytest.mark.parametrize("name", NAMES)
def test_text_and_marks_can_be_told_from_what_is_behind_them(shown, name):
    tab, _, _ = shown(name)
    assert tab.evaluate(CONTRAST) == []


def test_colour_schemes_differ(browser, folder):
    colors = set()
    for scheme in SCHEMES:
        tab = browser.new_page(color_scheme=scheme)
        tab.goto((folder / "everything.html").as_uri())
        colors.add(tab.evaluate("getComputedStyle(document.body).backgroundColor"))
        tab.close()
    assert len(colors) == 2


@pytest.mark.parametrize(
    ("name", "of", "begins"),
    [
        ("everything", "s2-jct", "scheduler,job,seed,jct_s\ncarico,pi-2000,1,"),
        ("gate", "gate", "title,figure,condition,baseline,now,effect,"),
    ],
    ids=["a figure", "the gate"],
)
def test_numbers_can_be_downloaded(browser, folder, name, of, begins):
    tab = browser.new_page()
    tab.goto((folder / f"{name}.html").as_uri())
    tab.click(f"#{of} summary")
    with tab.expect_download() as download:
        tab.click(f"#{of} a[download]")
    assert download.value.suggested_filename == f"{of}.csv"
    assert download.value.path().read_text().startswith(begins)
    tab.close()


def test_it_can_be_printed(browser, folder):
    tab = browser.new_page(color_scheme="dark")
    tab.goto((folder / "everything.html").as_uri())
    tab.emulate_media(media="print")
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert len(tab.pdf(format="A4")) > 10_000
    tab.close()
