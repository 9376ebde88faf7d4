"""Texts of a stranger's preset or run: no screen sends one of their control characters to the terminal, or opens their
links."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from rich.cells import cell_len
from textual.app import App, ComposeResult
from textual.screen import Screen

from ddptui.analysis.results import ConfidenceInterval, Culprit
from ddptui.run.playback import Playback
from ddptui.store.runs import JOURNAL, Run
from ddptui.tui.screens.base import EndedRun
from ddptui.tui.screens.lab import Lab
from ddptui.tui.screens.result import ResultScreen
from ddptui.tui.screens.run import RunScreen
from ddptui.tui.screens.runs import RunsScreen
from ddptui.tui.terminal import without_control
from ddptui.tui.widgets import texts
from ddptui.tui.widgets.lists import PresetList
from ddptui.tui.widgets.texts import AboutPreset
from ddptui.wire.messages import Hello, Ready
from ddptui.wire.records import Launched
from tests.support.builders import ended, failure, journal, results_for, two_trials, write_preset, write_run
from tests.tui.opened import on, opened, seen, shows, tick, toasts, until

EVIL = "\x1b]0;PWN\x07\x1b[2J\x9b31m\u202e[/]"
LINK = "[click](https://example.org) ![x](http://a/b) <b>html</b> <!-- [/] -->"


def a_run(runs: Path) -> Run:
    """Its name, its preset's, its status and its trials' errors are not to be trusted."""
    run = write_run(runs, two_trials(title=EVIL), journal("a"), failure("b", error=EVIL))
    run = Run(run.folder.rename(runs / f"20260101-120000-{EVIL.replace('/', '')}"))
    (run.folder / "environment.json").write_text(json.dumps({"preset": EVIL, "host": EVIL}))
    results = json.loads((run.folder / "results.json").read_text())
    (run.folder / "results.json").write_text(json.dumps(results | {"status": EVIL}))
    return run


def result(runs: Path) -> Screen[None]:
    run = a_run(runs)
    return ResultScreen(*EndedRun(run, run.preset(), results_for(run.preset(), journal("a"), failure("b", error=EVIL))))


def runs_list(runs: Path) -> Screen[None]:
    a_run(runs)
    return RunsScreen()


def lab(runs: Path) -> Screen[None]:
    texts = json.dumps(EVIL), json.dumps(f"{EVIL}\n{LINK}")  # as TOML spells them, too
    text = "title = {0}\ngroup = {0}\nabout = {1}\n[[trial]]\n".format(*texts)
    write_preset(runs.parent / "config" / "ddptui" / "presets", text.replace("\x7f", ""), "evil.toml")
    return Lab()


def unprintable(app: App[Any]) -> list[str]:
    return [char for char in seen(app) if not char.isprintable() and char != "\n"]


@pytest.mark.parametrize("screen", [result, runs_list, lab])
async def test_no_control_character_reaches_the_terminal(
    screen: Callable[[Path], Screen[None]], tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    async with opened(runs, screen(runs), (200, 50)) as (app, pilot):
        await shows(pilot, "PWN")
        if screen is lab:
            app.screen.query_one(PresetList).choose("evil")
        app.complain(EVIL, EVIL)
        await until(pilot, lambda: toasts(app))
        await until(pilot, lambda: seen(app).count("PWN") > 1)
        assert unprintable(app) == []
        await pilot.press("question_mark")
        assert unprintable(app) == []


@pytest.mark.parametrize("name", ["[/b]", EVIL])
async def test_a_trial_of_a_journal_is_no_markup(name: str, tmp_path: Path) -> None:
    preset = two_trials()
    starting = [message for message in journal("b") if isinstance(message, Launched | Hello | Ready)]
    run = write_run(tmp_path / "runs", preset, journal("a"), [*starting, ended("failed", "no step")])
    path = run.repeat_folder("a", 1) / JOURNAL
    path.write_text(path.read_text().replace('"trial":"a"', f'"trial":{json.dumps(name)}'))
    async with on(RunScreen(Playback(run, preset))) as (app, pilot, screen):
        await pilot.press("space", "p", "full_stop")
        screen.tick()
        await pilot.press("n")  # to b, whose ranks are ready, but have made no step
        await tick(pilot, screen)
        assert f"previous trial: {''.join(filter(str.isprintable, name))}" in seen(app)
        assert unprintable(app) == []


async def test_a_phase_of_a_run_is_no_markup(tmp_path: Path) -> None:
    run = a_run(tmp_path / "runs")
    found = results_for(run.preset(), journal("a"))
    excess = ConfidenceInterval(estimate=1.0, low=1.0, high=1.0)
    culprit = Culprit(rank=0, phase="[/b]", share=1.0, wait_caused_s=1.0, excess_s=excess)
    assert found.trials[0].summary
    found.trials[0] = replace(found.trials[0], summary=replace(found.trials[0].summary, culprit=culprit))
    async with opened(tmp_path, ResultScreen(*EndedRun(run, run.preset(), found)), (200, 50)) as (_, pilot):
        await shows(pilot, "rank 0 is late, in [/b]")


def test_a_text_keeps_its_width_without_what_is_not_printable() -> None:
    for text in ("\x1b[2J a", "\u202ea", "👩\u200d💻 a", "\ta", EVIL):
        drawn = without_control(text)
        assert drawn.isprintable()
        assert cell_len(drawn) == cell_len(text)


class WithText(App[None]):
    opened_urls: list[str]

    def compose(self) -> ComposeResult:
        yield AboutPreset()

    def open_url(self, url: str, *, new_tab: bool = True) -> None:
        self.opened_urls.append(url)


async def test_a_link_in_a_preset_opens_nothing() -> None:
    app: Any = WithText()
    app.opened_urls = []
    async with app.run_test(size=(80, 20)) as pilot:
        app.query_one(AboutPreset).show(EVIL, LINK)
        await shows(pilot, "click")
        line = next(number for number, text in enumerate(seen(app).splitlines()) if "click" in text)
        await pilot.click(offset=(seen(app).splitlines()[line].index("click") + 1, line))
        assert app.opened_urls == []
        assert "<b>" not in seen(app)


LONG = "\n\n".join(f"Paragraph {number} with `code` in it." for number in range(8))


async def test_the_next_text_may_come_at_any_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A layout that is broken off must leave no widget that never ends: the screen would wait for it."""
    monkeypatch.setattr(texts, "REST_S", 0)
    async with WithText().run_test(size=(80, 20)) as pilot:
        about = pilot.app.query_one(AboutPreset)
        for turns in range(0, 30, 2):  # of the event loop, between two texts
            about.show("long", LONG)
            await until(pilot, lambda: "Paragraph 7" in seen(pilot.app))
            about.show("long", LONG)
            for _ in range(turns):
                await asyncio.sleep(0)
            about.show("short", "The last text.")
            await until(pilot, lambda: "The last text." in seen(pilot.app) and "Paragraph" not in seen(pilot.app))
