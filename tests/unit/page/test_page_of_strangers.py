"""What a rank or a preset says adds no element and no attribute to a page, whatever it is."""

import html
from xml.etree import ElementTree

import msgspec
import pytest

from ddptui.analysis.results import Results
from ddptui.cli.inspect import PANES
from ddptui.config.preset import Preset, Reference
from ddptui.page import render
from ddptui.page.formats import picture as picture_of
from ddptui.page.pages import page as page_of
from ddptui.store.runs import Run
from tests.support.launches import launch_of
from tests.unit.page.pages import Found, Told, a_run, late_steps

EVIL = (
    "</style></script></title><script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)> ' onload='alert(1)",
    "{{ 7 * 7 }} {% include 'page.js' %} <!-- ]]> &amp; &#60;b&#62;",
    "\x00\x07\x1b[31m\x9b\u202e\u2066\u200b\ud800",
    "<b>" * 3_000,
)


def spoilt(evil: str) -> tuple[Run, Preset, Results]:
    """A run in which all that others may write is this."""
    _, preset, results = a_run()
    about = {"title": evil, "about": evil, "group": evil, "name": evil}
    trials = tuple(msgspec.structs.replace(trial, name=evil + trial.name) for trial in preset.trials)
    reference = Reference(trial=evil + "b", train_time_s=1.0, step_ms=2.0, source=evil)
    preset = msgspec.structs.replace(preset, **about, trials=trials, baseline=evil + "a", references=(reference,))
    found = []
    for trial in results.trials:
        ranks = [
            msgspec.structs.replace(rank, host=evil, device=evil, device_why=evil) for rank in trial.repeats[0].ranks
        ]
        repeat = msgspec.structs.replace(trial.repeats[0], ranks=ranks, backend=evil, backend_why=evil)
        changed = msgspec.structs.replace(trial, name=evil + trial.name, repeats=[repeat], command=["python", evil])
        found.append(changed)
    failed = msgspec.structs.replace(found[1], name=evil + "c", status="failed", error=f"{evil}\n{evil}", summary=None)
    preset = msgspec.structs.replace(preset, trials=(*trials, msgspec.structs.replace(trials[1], name=evil + "c")))
    environment = {"started": evil, "packages": {evil: evil}, "list": [evil, None]}
    return (
        Told(launch_of(late_steps(), host=evil)),
        preset,
        msgspec.structs.replace(
            results, run=evil, preset=evil, baseline=evil + "a", environment=environment, trials=[*found, failed]
        ),
    )


@pytest.fixture(autouse=True)
def toml_of_any_preset(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lone surrogate is in no preset's file: the parser of TOML refuses it, and so does the writer."""
    monkeypatch.setattr("ddptui.page.pages.as_toml", lambda preset: preset.title)


@pytest.mark.parametrize("evil", EVIL, ids=["tags", "quotes", "templates", "control", "long"])
def test_a_page_has_the_elements_of_one_of_plain_words(evil: str) -> None:
    plain = Found(page_of(*spoilt("plain ")))
    page = page_of(*spoilt(evil))
    found = Found(page)
    assert found.elements == plain.elements
    assert not [name for name, _ in found.attributes if name.startswith("on") or name in ("style", "src")]
    assert [value for name, value in found.attributes if name == "href"] == ["#content"]
    assert page.isascii()
    assert html.unescape(page).replace("\n", "").isprintable()
    assert len(page) < 3_000_000


@pytest.mark.parametrize("pane", PANES)
@pytest.mark.parametrize("evil", EVIL[1:4], ids=["quotes", "templates", "control"])
def test_a_picture_has_the_elements_of_one_of_plain_words(evil: str, pane: str) -> None:
    def elements(text: str) -> set[str]:
        return {element.tag for element in ElementTree.fromstring(text).iter()}

    picture = picture_of(*spoilt(evil), pane)
    assert elements(picture) == elements(picture_of(*spoilt("plain "), pane))
    assert picture.isascii()
    assert len(picture) < 300_000


def test_what_differs_between_two_runs_is_escaped() -> None:
    def page(word: str) -> Found:
        run, preset, results = a_run()
        return Found(page_of(run, preset, msgspec.structs.replace(results, differences=[word])))

    assert page(EVIL[1]).elements == page("plain").elements


def test_markdown_brings_no_html_no_image_and_no_link() -> None:
    lines = ("*a* <b>b</b> `c` [d](javascript:e) ![f](http://g) <http://h> &#60;i&#62;", "- j", "# k", "```l")
    html_of = str(render.prose("\n\n".join(lines)))
    assert {element for element, *_ in Found(html_of).elements} == {"p", "em", "code", "ul", "li"}
