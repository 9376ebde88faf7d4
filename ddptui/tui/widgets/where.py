"""The pane that shows where in the user's code the ranks work, and where each one is if the user asked for that."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from textual.content import Content
from textual.widgets import Static

from ddptui.analysis.results import PlaceTime, Results, TrialResult
from ddptui.diagnosis.positions import named
from ddptui.host.source import source_line
from ddptui.live.monitor import RunMonitor
from ddptui.report.ranks import Read, of_trial, place_columns, read_for
from ddptui.run.playback import Playback
from ddptui.run.runner import Session
from ddptui.text.drawing import ljust, shorten
from ddptui.text.tables import Table, as_text
from ddptui.text.words import S, count
from ddptui.tui.keys import name_of
from ddptui.tui.widgets.fitted import Fitted
from ddptui.tui.widgets.texts import TextPane
from ddptui.wire.messages import Stack

MOST_STACKS = 24  # the same stack of several ranks is one
UNKNOWN = "its Python code is not known"


class Standing(NamedTuple):
    """Where some ranks are. stack: None if they have not answered."""

    ranks: Sequence[int]
    age_s: int
    stack: Stack | None


class Where(TextPane, Fitted):
    """Shows stacks, if the user asked for them, and a table of places."""

    DEFAULT_CSS = """
    Where { scrollbar-gutter: stable; }
    Where Static { text-wrap: nowrap; text-overflow: ellipsis; }
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
