"""The pane that shows where in the user's code the ranks work, and where each one is if the user asked for that."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from rich.cells import set_cell_size
from textual.content import Content
from textual.widgets import Static

from ddptui.analysis.results import PlaceTime, Results, TrialResult
from ddptui.diagnosis.positions import named
from ddptui.host.source import source_line
from ddptui.live.monitor import RunMonitor
from ddptui.report.places import Read, of_trial, place_columns, read_for
from ddptui.run.playback import Playback
from ddptui.run.session import Session
from ddptui.text.drawing import shorten
from ddptui.text.tables import GAP, Table, as_text
from ddptui.text.units import S
from ddptui.text.words import count
from ddptui.tui.widgets.texts import TextPane
from ddptui.wire.messages import Stack

STACK_CELLS = 54  # minimum width of a stack that has others beside it
MOST_STACKS = 24  # the same stack of several ranks is one


class Standing(NamedTuple):
    """Where some ranks are. stack: None if they have not answered."""

    ranks: Sequence[int]
    age_s: int
    stack: Stack | None


class Where(TextPane):
    """Shows stacks, if the user asked for them, and a table of places."""

    DEFAULT_CSS = "Where { scrollbar-gutter: stable; }"  # otherwise a scrollbar would make lines too long
    _of: tuple[object, ...] = (None, 0)  # what is shown: the judgement and launch of the places, and the rest
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
        self.on_resize()

    def show(self, trial: TrialResult | None, results: Results) -> None:
        """Show the last repeat of a finished trial."""
        if trial is not None:
            self._places, self._late, self._read = of_trial(trial, results, source_line)
            self.on_resize()

    @property
    def wanted_lines(self) -> int:
        """The lines that the table takes; 0: there is none."""
        return len(self._places) + bool(self._places)

    def on_resize(self) -> None:
        """Fill the pane for its width."""
        if width := self.scrollable_content_region.width:
            self.query_one(Static).update(Content("\n").join([*self._stacks(width), *self._table(width)]))

    def _table(self, width: int) -> list[Content]:
        if not self._places:
            return []
        columns = place_columns(self._places, self._late, self._read, width)
        header, *rows = (set_cell_size(line, width) for line in as_text(Table(columns), width, rule=False))
        return [Content.styled(header, "bold"), *map(Content, rows)]

    def _stacks(self, width: int) -> Iterator[Content]:
        """Stacks beside each other, as many as there is room for, and the others below."""
        beside = max(1, min(width // STACK_CELLS, len(self._standings)))
        cells = width // beside - GAP
        for first in range(0, min(len(self._standings), MOST_STACKS), beside):
            stacks = [self._stack(each, cells) for each in self._standings[first : first + beside]]
            for line in zip_longest(*stacks, fillvalue=("", "")):
                yield Content.assemble(*((set_cell_size(text, cells) + " " * GAP, style) for text, style in line))
            yield Content()
        if (more := len(self._standings) - MOST_STACKS) > 0:
            yield Content(f"and {count(more, 'more stack')}\n")

    def _stack(self, standing: Standing, cells: int) -> list[tuple[str, str]]:
        """The lines of a stack with their styles: the user's own code, and what it calls of a library, dimmed."""
        ranks, age_s, stack = standing
        who, half = named(ranks).capitalize(), cells // 2 - GAP
        if not stack:
            return [(f"{who}: {'no answer yet' if stack is None else 'its Python code is not known'}", "bold")]
        lines = [(f"{who}, {age_s} s ago", "bold")]
        for place, outer in zip_longest(stack, stack[1:]):
            if place.own:
                source = self._read(place.file, place.line, ranks[0])
                lines.append((shorten(f"  {shorten(place.full_text, half):<{half}}  {source}", cells), ""))
            elif outer is not None and outer.own:
                lines.append((shorten(f"  {place.full_text}", cells), "dim"))
        return lines


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
