"""The charts of a run: its times, differences and losses, and of each trial waits, arrivals and timelines."""

from collections.abc import Iterable, Mapping, Sequence

from ddptui.analysis.breakdown import middle, wait_matrix
from ddptui.analysis.launch_data import launch_logs
from ddptui.analysis.repeats import valid_repeats
from ddptui.analysis.results import Results, TrialResult
from ddptui.analysis.waits import AlignedStep
from ddptui.live.timeline import Excerpt, excerpts, most_telling, row, runs, spread_over, summary, telling_ranks, window
from ddptui.page.render import (
    MOST_TICKS_X,
    TICKS,
    UNITS_X,
    UNITS_Y,
    Axis,
    Chart,
    CurveSeries,
    bars,
    curves,
    line,
    percent,
    shape,
    ticks,
)
from ddptui.report import bars as bars_of
from ddptui.report.bars import Bar, Part
from ddptui.report.blocks import Plot, series_of
from ddptui.report.matrix import describe, span
from ddptui.report.rows import loss_of
from ddptui.run.compare import curves_of
from ddptui.store.runs import Run
from ddptui.text.drawing import linear_ticks, log_ticks
from ddptui.text.words import MS, MS_PER_S, NOTHING, count, seconds, size
from ddptui.wire.phases import PHASES

LAYERS = (*PHASES, "transfer", "wait", "delay")  # of a timeline, in drawing order
MOST_RANKS = 16  # of a picture; in a matrix, more ranks are grouped into blocks
MOST_STEPS = 200  # arrivals are medians over at most this many steps
SHADES = 8  # in a matrix
TRACK, TRACKS_TOP = 22, 18  # pixels: height of a rank in a timeline, and the room above for the steps' numbers
CELL, CELL_WIDTH, CELLS_TOP = 28, 64, 36  # pixels: of a matrix, and the room above for the names of columns
TIMES = "Train times in parts (means over the ranks that waited, in the median repeat), and ratios to the baseline's"
DIFFERENCES = "Parts that took longer go to the right, parts that took less to the left. The tick marks the sum"
MATRIX = "How long the rank of each row waited for the rank of each column"
MATRIX_OF_BLOCKS = "How long the ranks of each row waited for those of each column: sums, shaded by means over pairs"
LOSS = "Loss over steps; the numbers are means over the last tenth of the steps"


# Of the run


def times(results: Results, most: int | None = None) -> list[Chart]:
    """A bar for each trial's train time, of the first `most` trials."""
    rows = [row._replace(figure=f"{row.figure}  {row.more}".rstrip()) for row in bars_of.times(results)[:most]]
    return [bars(TIMES, rows, _left_out(len(results.trials) - len(rows), "more trial"))]


def differences(results: Results) -> list[Chart]:
    """A bar for each trial's difference to the baseline, which begins there; no chart if no trial can be compared."""
    rows = bars_of.differences(results)
    sums = [f"{row.name}: {row.more}" for row in rows if row.more]
    base = "run A" if results.of_two_runs else results.baseline
    return [bars(f"The difference to {base}. {DIFFERENCES}", rows, sums)] if rows else []


def losses(run: Run, results: Results) -> list[Chart]:
    """The losses of all trials; no chart if no loss is known. Raises RunError."""
    series = []
    for trial in results.trials:
        at_end = loss_of(trial)
        figure = "" if trial.summary is None else "not finite" if at_end is None else f"{at_end:.3f}"
        if points := curves_of(run, trial).loss:
            series.append(CurveSeries(trial.name, points, figure))
    return curves(LOSS, series, Axis("step", linear_ticks), Axis("loss", linear_ticks))


# Of primitives


def times_of(plot: Plot) -> list[Chart]:
    """The times of some operations over sizes; no chart if none of them was measured."""
    drawn = series_of(plot.result, plot.operations)
    series = [CurveSeries(str(each.which), each.points, marks=each.points) for each in drawn]

    def sizes(left: float, right: float, most: int) -> Iterable[tuple[float, str]]:
        every = max(1, round((right - left) / most))
        return ((power, size(2**power)) for power in range(round(left), round(right) + 1, every))

    times = Axis("time", lambda *of: ((tick, seconds(10**tick)) for tick, _ in log_ticks(*of)))
    name = f"Time over size on {plot.result.ranks} ranks: medians as points, joined by lines, on logarithmic axes"
    return curves(name, series, Axis("size", sizes), times)


# Of a trial


def of_trial(run: Run, trial: TrialResult) -> Mapping[str, Sequence[Chart]]:
    """The charts of a trial by pane: matrix, arrivals, and timeline, of steps of the repeat with the median train time.
    Raises RunError."""
    repeats = middle(valid_repeats(trial.repeats))
    # After a failed repeat no further one is launched, so the position in the list gives the repeat's number.
    messages = run.messages(trial.name, trial.repeats.index(repeats[0]) + 1) if repeats else ()
    log = next(launch_logs(messages), None)
    can_be_joined = log and log.steps and log.clocks_known and all(log.measured_steps.values())
    joined = log.align_measured().steps if log and can_be_joined else []
    timelines = [timeline(excerpt) for excerpt in excerpts(joined)]
    return {"matrix": matrix(trial), "arrivals": arrivals(trial, joined), "timeline": timelines}


def matrix(trial: TrialResult) -> list[Chart]:
    """Which rank waited for which: a row and a column for each rank, or block of ranks. No chart: no rank waited, or
    that is unknown."""
    waits = wait_matrix(trial, MOST_RANKS)
    if waits is None or not waits.most_s:
        return []
    ranks, per_pair_s, width = waits.ranks, waits.per_pair_s, 100 / len(waits.ranks)
    shapes, about, left = [shape("text", "first", "for rank", x="0%", y=12)], [], [(CELLS_TOP - 8, "rank")]
    for place, waited_s in enumerate(waits.waited_s):
        y, label = CELLS_TOP + CELL * place, span(ranks[place])
        left.append((y + 18, label))
        shapes.append(shape("text", "middle", label, x=percent(width * (place + 0.5)), y=CELLS_TOP - 8))
        for column, s in enumerate(waited_s):
            shade = max(1, round(SHADES * per_pair_s[place][column] / waits.most_per_pair_s)) if s else 0
            words, text = describe(waits, place, column), seconds(s) if s else "" if place == column else NOTHING
            size = {"x": percent(width * column), "width": percent(width), "y": y, "height": CELL}
            shapes.append(shape("rect", f"s{shade}", words, **size))
            shapes.append(shape("text", "middle ink", text, x=percent(width * (column + 0.5)), y=y + 18))
        about.append(describe(waits, place, waited_s.index(max(waited_s))))
    name = MATRIX_OF_BLOCKS if any(len(block) > 1 for block in ranks) else MATRIX
    return [Chart(name, "; ".join(about), y + CELL, shapes, left, width=CELL_WIDTH * len(ranks))]


def arrivals(trial: TrialResult, joined: Sequence[AlignedStep]) -> list[Chart]:
    """How the ranks arrive, over steps spread evenly over the repeat or over the steps that the culprit was judged on.
    No chart: no rank waits for another, or waits are unknown."""
    culprit = trial.summary.culprit if trial.summary else None
    judged = culprit.steps if culprit else None
    if judged:
        joined = [step for step in joined if judged[0] <= step.number <= judged[1]]
    found = summary(spread_over(joined, MOST_STEPS))
    if found is None or len(found.ranks) < 2 or not found.steps or found.withheld:
        return []
    shown = most_telling(found, MOST_RANKS, culprit.rank if culprit else None)
    rows = []
    for rank in shown:
        last_in = f"last in {rank.last_in} of {found.steps}" if rank.last_in else ""
        in_s = [Part(kind, kind, ms / MS_PER_S) for kind, ms in rank.parts]
        rows.append(Bar(f"rank {rank.rank}", last_in, in_s, rank.lead / MS_PER_S))
    longest = max(sum(ms for _, ms in rank.parts) for rank in shown)
    steps = count(found.steps, "step") + (f" from {judged[0]} to {judged[1]}" if judged else "")
    name = f"How the ranks arrive: a step of {longest:.3g} ms, medians over {steps}. Ticks mark the first collective"
    return [bars(name, rows, _left_out(len(found.ranks) - len(shown), "rank", " that were late less"))]


def timeline(excerpt: Excerpt) -> Chart:
    """What each rank did in a few steps, on one time axis."""
    begin, end = within = window(excerpt.steps)
    ranks = telling_ranks(excerpt.steps, MOST_RANKS)
    height, length = TRACKS_TOP + TRACK * len(ranks), (end - begin) / MS
    shapes, about, left, used = [], [], [(12, "rank")], set()
    for step in excerpt.steps:
        x = percent(100 * (window([step])[0] - begin) / (end - begin))
        look = "first ink" if step.number == excerpt.number else "first"
        shapes += [line("step", x, 4, height), shape("text", look, f"step {step.number}", x=x, dx=4, y=12)]
    for place, rank in enumerate(ranks):
        y, words = TRACKS_TOP + TRACK * place, []
        drawn = runs(row(excerpt.steps, rank), within, UNITS_X)
        for kind in LAYERS:
            if same := [run for run in drawn if run.what == kind]:
                starts = [0, *(run.last for run in same)]  # of the moves to each run
                moves = (f"m{run.first - at} 0h{run.last - run.first}" for run, at in zip(same, starts, strict=False))
                words.append(f"{kind} {sum(run.ns for run in same) / MS:.1f} ms")
                d, tip = f"M0 {UNITS_Y // 2}{''.join(moves)}", f"rank {rank}: {words[-1]}"
                shapes.append(shape("path", f"track {kind}", tip, d=d, y=y, height=TRACK))
                used.add(kind)
        left.append((y + 15, str(rank)))
        about.append(f"rank {rank}: {', '.join(words)}")
    places = ((100 * at / length, label) for at, label in linear_ticks(0, length, MOST_TICKS_X))
    shapes += ticks(places, height, f"ms{' of host time: the device may be behind' * excerpt.steps[0].host_time}")
    key = [(f"track {kind}", kind) for kind in LAYERS if kind in used]
    notes = _left_out(len(excerpt.steps[0].ranks) - len(ranks), "rank", " that waited longer")
    name = f"Step {excerpt.number}, {excerpt.why}, with its neighbors"
    return Chart(name, "; ".join(about), height + TICKS, shapes, left, key, notes, can_zoom=True)


def _left_out(number: int, what: str, which: str = "") -> list[str]:
    """As in "24 ranks that waited longer are not shown"; empty if none was left out."""
    return [f"{count(number, what)}{which} {'is' if number == 1 else 'are'} not shown"] if number > 0 else []
