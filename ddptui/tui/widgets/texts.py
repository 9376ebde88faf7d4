"""Scrollable panes of text: about a preset, command lines, and where in the user's code the ranks work."""

import asyncio
import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import zip_longest
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widget import MountError
from textual.widgets import Static

from ddptui.analysis.results import PlaceTime, Results, TrialResult
from ddptui.config.trial import Trial
from ddptui.diagnosis.positions import named
from ddptui.engines import base
from ddptui.host.machine import available_cores
from ddptui.host.source import source_line
from ddptui.live.monitor import RunMonitor
from ddptui.report.ranks import Read, of_trial, place_columns, read_for
from ddptui.run.playback import Playback
from ddptui.run.runner import Session
from ddptui.text.drawing import ljust, shorten
from ddptui.text.tables import Table, as_text
from ddptui.text.words import S, count
from ddptui.tui.draft import Draft, command_line
from ddptui.tui.keys import name_of
from ddptui.tui.widgets.frame import Fitted
from ddptui.tui.widgets.lists import SCROLL_KEYS
from ddptui.wire.messages import Stack

if TYPE_CHECKING:
    from textual.widgets import Markdown


REST_S = 0.06  # laying out Markdown takes longer than a frame, so wait until the cursor rests on a preset


class AboutPreset(VerticalScroll):
    """Shows a preset's title and text."""

    BINDINGS: ClassVar[list[BindingType]] = SCROLL_KEYS
    DEFAULT_CSS = "AboutPreset Markdown { padding: 0; }"
    _text: "Markdown | None" = None

    def show(self, title: str, text: str) -> None:
        """Show a title, and a text in Markdown."""
        self.border_title = Content(title)
        self.scroll_home(animate=False)
        self._lay_out(text)

    @work(exclusive=True)  # the next preset's text cancels this one
    async def _lay_out(self, text: str) -> None:
        from textual.widgets import Markdown  # imported late, so that the first screen appears sooner

        await asyncio.sleep(REST_S)
        with suppress(MountError):  # the console is closing
            if self._text is None:
                self._text = Markdown(open_links=False)  # presets may come from strangers
                await self.mount(self._text)
            # Shielded, since canceling an update also cancels the tasks of its widgets, for which the screen waits.
            await asyncio.shield(self._text.update(text))


class TextPane(VerticalScroll):
    """The base of panes with plain text."""

    BINDINGS: ClassVar[list[BindingType]] = SCROLL_KEYS

    def compose(self) -> ComposeResult:
        yield Static(markup=False)


class CommandLine(TextPane):
    """Shows the command that runs the draft without the console; or the command of the chosen trial's ranks, with its
    environment."""

    BORDER_TITLE = "Command"
    _shown: tuple[Draft, Trial | None] | None = None
    _of_trial = False

    def turn(self) -> None:
        """Switch between the command of the draft and that of the chosen trial."""
        self._of_trial = not self._of_trial
        if self._shown is not None:
            self.show(*self._shown)

    def show(self, draft: Draft, trial: Trial | None) -> None:
        """Show the command. `trial`: the trial under the cursor, if it can start."""
        self._shown = draft, trial
        copy, turn = (name_of(key, self.app) for key in ("copy", "command"))
        title, keys, shown = "Command", f"{copy}: copy · {turn}: of the trial, with environment", command_line(draft)
        if self._of_trial and trial is not None:
            title, keys = f"Command of trial {trial.name}, without the console", f"{turn}: of the preset"
            variables = base.rank_environment(trial, available_cores()).items()
            assignments = (f"{name}={shlex.quote(value)}" for name, value in variables)  # in shell syntax
            shown = " ".join([*assignments, shlex.join(base.rank_command(trial))])
        self.border_title, self.border_subtitle = Content(title), Content(keys)
        self.query_one(Static).update(Content(shown))


MOST_STACKS = 24  # the same stack of several ranks is one
UNKNOWN = "its Python code is not known"


class Standing(NamedTuple):
    """Where some ranks are. stack: None if they have not answered."""

    ranks: Sequence[int]
    age_s: int
    stack: Stack | None


class WherePane(TextPane, Fitted):
    """Shows stacks, if the user asked for them, and a table of places."""

    DEFAULT_CSS = """
    WherePane { scrollbar-gutter: stable; }
    WherePane Static { text-wrap: nowrap; text-overflow: ellipsis; }
    """
    _of: tuple[object, ...] = (None, 0)  # what is shown: the judgement of the places, and the rest
    _places: Sequence[PlaceTime] = ()
    _late: int | None = None
    _read: Read = lambda *_: ""
    _standings: Sequence[Standing] = ()

    def follow(self, watched: RunMonitor, feed: Session | Playback, chosen: int | None, now_ns: int) -> None:
        """Show the last steps of a running launch, or of its replay. chosen: the rank under the cursor."""
        standings, late = standings_of(watched, now_ns), chosen if watched.culprit is None else watched.culprit
        of = (watched.judgement, watched.live.launched_ns, late, standings)
        if of[0] is self._of[0] and of[1:] == self._of[1:]:
            return
        if of[0] is not self._of[0]:
            self._places = watched.places()
        hosts = {rank.rank: rank.host for rank in watched.live.ranks.values()}
        self._of, self._late, self._standings = of, late, standings
        self._read = read_for(source_line, hosts, feed.results, is_lab=feed.preset.kind != "command")
        if isinstance(feed, Session) and not self.has_class("-before"):
            self.border_subtitle = f"own work, in ms a step · {name_of('stacks', self.app)}: where each rank is now"
        self.fit()

    def show(self, trial: TrialResult | None, results: Results) -> None:
        """Show the last repeat of a finished trial."""
        if trial is not None:
            self._places, self._late, self._read = of_trial(trial, results, source_line)
            self.fit()

    @property
    def wanted_lines(self) -> int:
        """The lines that the table takes; 0: there is none."""
        return len(self._places) + bool(self._places)

    def lay_out(self, width: int) -> None:
        lines = [line for standing in self._standings[:MOST_STACKS] for line in self._stack(standing, width)]
        if (more := len(self._standings) - MOST_STACKS) > 0:
            lines.append(Content(f"and {count(more, 'more stack')}\n"))
        if self._places:
            table = Table(place_columns(self._places, self._late, self._read, width))
            header, *rows = as_text(table, width, rule=False)
            lines += [Content.styled(header, "bold"), *map(Content, rows)]
        self.query_one(Static).update(Content("\n").join(lines))

    def _stack(self, standing: Standing, width: int) -> Iterator[Content]:
        """Yield the lines of a stack: the user's own code, and what it calls of a library, dimmed."""
        ranks, age_s, stack = standing
        said = f", {age_s} s ago" if stack else f": {'no answer yet' if stack is None else UNKNOWN}"
        yield Content.styled(f"{named(ranks).capitalize()}{said}", "bold")
        half = width // 2
        for place, outer in zip_longest(stack or (), (stack or ())[1:]):
            if place.own:
                source = self._read(place.file, place.line, ranks[0])
                yield Content(f"  {ljust(shorten(place.full_text, half), half)}  {source}")
            elif outer is not None and outer.own:
                yield Content.styled(f"  {place.full_text}", "dim")
        yield Content()


def standings_of(watched: RunMonitor, now_ns: int) -> list[Standing]:
    """Where the ranks were when the user asked last, the fewest ranks first: they are the ones that differ."""
    live = watched.live
    asked = max((stood.asked for stood in live.stood.values()), default=0)
    answers = {rank: stood for rank, stood in live.stood.items() if stood.asked == asked}
    ranks: dict[Stack | None, list[int]] = {}
    for rank in sorted(live.ranks) if answers else ():
        ranks.setdefault(answers[rank].stack if rank in answers else None, []).append(rank)
    ages_ns = {rank: now_ns - live.clocks.console_ns(rank, stood.at_ns) for rank, stood in answers.items()}
    found = [Standing(those, max(0, int(ages_ns.get(those[0], 0) / S)), stack) for stack, those in ranks.items()]
    return sorted(found, key=lambda each: (len(each.ranks), each.ranks))
