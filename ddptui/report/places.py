"""The table "Where": on which lines of the user's code the ranks worked, and for how long."""

from collections.abc import Callable, Mapping, Sequence
from statistics import median

from ddptui.analysis.results import PlaceTime, Results, TrialResult
from ddptui.text.drawing import shorten
from ddptui.text.tables import GAP, Column, Filled, Table, fill, fit, telling, total
from ddptui.text.words import NOTHING

MOST_RANKS = 4  # with a column each; of more ranks, one, and the median of the others
MOST_IN_TEXT, MOST_ROWS = 5, 20
LONGEST_PLACE, SHORTEST_SOURCE = 48, 24  # cells
Source = Callable[[str, int, str, str, bool], str]  # ddptui/host/source.py has it
UNREAD: Source = lambda *_: ""  # noqa: E731
Read = Callable[[str, int, int], str]  # a line of a file, where a rank is; empty: not known


def read_for(source: Source, hosts: Mapping[int, str], results: Results, *, is_lab: bool) -> Read:
    """Reads lines for the ranks of a launch. hosts: by rank."""
    started = str(results.environment.get("started", ""))
    return lambda file, line, rank: source(file, line, hosts.get(rank, ""), started, is_lab)


def place_columns(places: Sequence[PlaceTime], late: int | None, read: Read, width: int | None = None) -> list[Filled]:
    """The columns of the table of some places. late: the rank whose times are shown even if there is little room.
    width: of the table, in which the source line takes the room that is left; None: any."""
    ranks = sorted({rank for place in places for rank in place.ms})
    shown = {f"rank {rank} ms": [rank] for rank in ranks}
    if len(ranks) > MOST_RANKS:
        late = late if late in ranks else max(ranks, key=lambda rank: sum(place.ms.get(rank, 0.0) for place in places))
        shown = {f"rank {late} ms": [late], "others ms": [rank for rank in ranks if rank != late]}
    columns: list[Column[PlaceTime]] = [
        Column("where", lambda place: shorten(place.place, LONGEST_PLACE), 9, left=True),
        Column("phase", lambda place: place.phase, 7, left=True),
        *(Column(header, _ms(those), 9 if those == [late] else 8) for header, those in shown.items()),
        Column("called by", lambda place: shorten(place.by or NOTHING, LONGEST_PLACE), 5, left=True),
    ]
    filled = telling(fill(columns, places))
    filled = filled if width is None else fit(filled, width)
    room = None if width is None else width - total([column.width for column in filled]) - GAP
    if room is None or room >= SHORTEST_SOURCE:
        lines = [_source(place, read) for place in places]
        filled.append(Filled("source", [shorten(line, room or len(line)) for line in lines], left=True))
    return telling(filled)


def _source(place: PlaceTime, read: Read) -> str:
    first = read(place.file, place.line, max(place.ms, key=lambda rank: place.ms[rank]))
    return f"{first}{' …' * (place.last > place.line)}" if first else NOTHING


def _ms(ranks: Sequence[int]) -> Callable[[PlaceTime], str]:
    """The cell with the median of some ranks."""

    def cell(place: PlaceTime) -> str:
        ms = median(place.ms.get(rank, 0.0) for rank in ranks)
        return f"{ms:.2f}" if ms else NOTHING

    return cell


def of_trial(trial: TrialResult, results: Results, source: Source) -> tuple[Sequence[PlaceTime], int | None, Read]:
    """The places of a trial's last repeat, its late rank, and how to read source lines: for `place_columns`."""
    last = trial.repeats[-1] if trial.repeats else None
    hosts = {rank.rank: rank.host for rank in last.ranks} if last else {}
    late = last.culprit.rank if last and last.culprit else None
    return last.places if last else (), late, read_for(source, hosts, results, is_lab=trial.kind != "command")


def place_tables(results: Results, source: Source, width: int | None) -> dict[str, Table]:
    """A table by heading for each watched training. width: of a terminal, for which the tables are short, and left out
    unless they explain something; None: any."""
    tables = {}
    for trial in (trial for trial in results.trials if trial.kind == "command" and trial.repeats):
        places, late, read = of_trial(trial, results, source)
        if width is not None:
            explains = late is not None or any(finding.lines for finding in trial.repeats[-1].findings)
            places = places[: MOST_IN_TEXT * explains]
        if places:
            whose = f" of {trial.name}" * (len(results.trials) > 1)
            columns = place_columns(places[:MOST_ROWS], late, read, width)
            tables[f"Where in the code{whose} each rank worked, in ms a step"] = Table(columns)
    return tables
