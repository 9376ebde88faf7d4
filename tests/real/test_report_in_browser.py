"""A run's page in a real browser: it sorts, zooms and prints, on a desk and on a phone, and fetches nothing."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from playwright.sync_api import Browser, Page, sync_playwright

from ddptui.cli import main
from ddptui.page.pages import page as page_of
from ddptui.store.overview import results_of
from ddptui.store.runs import Run
from ddptui.text.tables import order
from tests.recorded.net import RUNS
from tests.support.builders import preset_of, results_for
from tests.support.descendants import descendants
from tests.support.launches import launch_of
from tests.tui.recordings import RECORDED
from tests.unit.page.pages import Told, late_steps

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH")

# Of each text that shows: its contrast with what is behind it, if that is below what WCAG asks for (AA, normal text).
POOR_CONTRAST = """() => {
  const channels = (color) => {
    const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const luminance = (color) => {
    const parts = channels(color).map((c) => c / 255);
    const [r, g, b] = parts.map((c) => c <= 0.04 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = getComputedStyle(at).backgroundColor;
      if (channels(color)[3] === 255) return color;
    }
    return "white";
  };
  const poor = [];
  for (const element of document.querySelectorAll("body *")) {
    const text = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!text || !element.checkVisibility() || element.closest("script, title, option")) continue;
    const style = getComputedStyle(element);
    const color = element.namespaceURI.endsWith("svg") ? style.fill : style.color;
    const [light, dark] = [luminance(color), luminance(behind(element))].sort((a, b) => b - a);
    const contrast = (light + 0.05) / (dark + 0.05);
    if (contrast < 4.5) poor.push(`${element.tagName} ${element.className} ${contrast.toFixed(2)}`);
  }
  return poor;
}"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = Run(RECORDED)
    preset = run.preset()
    path = tmp_path_factory.mktemp("page") / "run.html"
    path.write_text(page_of(run, preset, results_of(run, preset)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def browser(chromium: Browser, shared: set[int]) -> Iterator[Browser]:
    """The same for all tests; the pages are closed."""
    yield chromium
    for context in chromium.contexts:
        context.close()
    shared.update(process.pid for process in descendants())  # it keeps some ready for the next page


def watched(page: Page) -> list[str]:
    """What the page asks for beside itself, and what it says in the console: errors, and what its policy refuses."""
    heard: list[str] = []
    page.on("console", lambda message: heard.append(message.text))
    page.on("pageerror", lambda error: heard.append(str(error)))
    page.on("request", lambda request: heard.append(request.url) if not request.is_navigation_request() else None)
    return heard


def column(page: Page, number: int) -> list[str]:
    cells = page.locator(f"#content > section:first-child tbody tr > :nth-child({number})")
    return [text.strip() for text in cells.all_inner_texts()]


def test_it_sorts_zooms_and_shows_one_trial_and_asks_for_nothing(browser: Browser, file: Path) -> None:
    page = browser.new_page()
    heard = watched(page)
    page.goto(file.as_uri())
    headers = page.locator("#content > section:first-child thead button").all_inner_texts()
    place = headers.index("train s") + 1
    before = column(page, place)
    button = page.locator("#content > section:first-child thead button", has_text="train s").first
    header = button.locator("xpath=..")
    button.click()
    assert header.get_attribute("aria-sort") == "ascending"
    assert column(page, place) == [before[row] for row in order(before)]
    button.press("Enter")
    assert header.get_attribute("aria-sort") == "descending"
    assert column(page, place) == [before[row] for row in order(before, reverse=True)]

    chooser = page.locator("#trial")
    for value in chooser.locator("option").all():
        chooser.select_option(value.get_attribute("value"))
        [shown] = [trial for trial in page.locator("[data-trial]").all() if trial.is_visible()]
        assert shown.locator("h3").inner_text().startswith(value.inner_text())

    figure = page.locator(".zoomable:visible").first
    view, picture = figure.locator(".view"), figure.locator(".view > svg")
    view.focus()
    view.press("+")
    assert picture.get_attribute("width") == "150%"
    in_the_middle = view.evaluate("view => view.scrollLeft")
    assert in_the_middle > 0
    view.press("ArrowLeft")
    page.wait_for_function("([view, before]) => view.scrollLeft < before", arg=[view.element_handle(), in_the_middle])
    view.press("-")
    assert picture.get_attribute("width") == "100%"
    view.hover()
    page.mouse.wheel(0, -100)
    page.wait_for_function("picture => picture.getAttribute('width') === '150%'", arg=picture.element_handle())
    figure.locator("[data-zoom='0']").click()
    assert picture.get_attribute("width") == "100%"
    assert heard == []


def test_what_a_page_asks_for_or_complains_of_is_heard(browser: Browser, file: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.html"
    broken.write_text(file.read_text().replace("</main>", '<p style="color:red">x<img src="x.png"></p></main>'))
    page = browser.new_page()
    heard = watched(page)
    page.goto(broken.as_uri())
    assert any("style" in line for line in heard)
    assert any("x.png" in line for line in heard)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_can_be_read_in_light_and_dark(browser: Browser, file: Path, scheme: str) -> None:
    page = browser.new_context(color_scheme="dark" if scheme == "dark" else "light").new_page()
    page.goto(file.as_uri())
    assert page.evaluate(POOR_CONTRAST) == []
    is_dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(21, 23, 26)"
    assert is_dark == (scheme == "dark")
    page.evaluate("document.querySelector('h1').style.color = 'gray'; document.body.style.background = 'silver'")
    assert "H1" in " ".join(page.evaluate(POOR_CONTRAST))


def test_it_fits_a_phone_and_reads_without_a_script(browser: Browser, file: Path) -> None:
    page = browser.new_context(viewport={"width": 375, "height": 700}, java_script_enabled=False).new_page()
    page.goto(file.as_uri())
    assert all(trial.is_visible() for trial in page.locator("[data-trial]").all())
    assert not page.locator(".chooser").is_visible()
    page = browser.new_context(viewport={"width": 375, "height": 700}).new_page()
    page.goto(file.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") == 375


def test_a_matrix_of_three_ranks_fits_a_phone(browser: Browser, tmp_path: Path) -> None:
    told = launch_of(late_steps(3))
    preset = preset_of({"title": "Who?", "repeats": 1, "trial": [{"name": "a", "world_size": 3}]})
    path = tmp_path / "run.html"
    path.write_text(page_of(Told(told), preset, results_for(preset, told)), encoding="utf-8")
    page = browser.new_context(viewport={"width": 375, "height": 700}).new_page()
    page.goto(path.as_uri())
    matrix = page.locator(".view:has(.s8)")
    assert matrix.evaluate("frame => frame.scrollWidth === frame.clientWidth")
    matrix.locator("> svg").evaluate("picture => picture.setAttribute('width', '600')")
    assert not matrix.evaluate("frame => frame.scrollWidth === frame.clientWidth")


def test_it_prints_the_baseline_and_the_trial_of_the_answer(browser: Browser, file: Path) -> None:
    page = browser.new_page()
    page.goto(file.as_uri())
    page.emulate_media(media="print")
    shown = [trial for trial in page.locator("[data-trial]").all() if trial.is_visible()]
    assert len(shown) == page.locator("[data-prints]").count() > 0
    assert not page.locator(".zoomkeys:visible").count()
    assert page.pdf(format="A4").startswith(b"%PDF-")


def test_a_document_to_hand_in_asks_for_nothing_fits_a_phone_and_prints_upright(
    browser: Browser, tmp_path: Path
) -> None:
    for name in ("quickstart", "primitives-see"):
        shutil.copytree(RUNS / name, tmp_path / name)
    page = browser.new_context(viewport={"width": 375, "height": 700}, reduced_motion="reduce").new_page()
    heard = watched(page)
    path = tmp_path / "report.html"
    path.write_text(
        CliRunner().invoke(main, ["report", "quickstart", "primitives-see", "--runs", str(tmp_path)]).stdout,
        encoding="utf-8",
    )
    page.goto(path.as_uri())
    assert heard == []
    assert page.evaluate("document.documentElement.scrollWidth") == 375
    assert page.evaluate(POOR_CONTRAST) == []
    page.locator("nav a", has_text="What does each primitive do?").click()
    assert "2. What does each" in page.evaluate("document.elementFromPoint(187, 40).closest('section').innerText")
    sizes = re.findall(rb"/MediaBox ?\[0 0 (\d+)\S* (\d+)", page.pdf(prefer_css_page_size=True))
    assert len(sizes) > 4
    assert all(int(width) < int(height) for width, height in sizes)
