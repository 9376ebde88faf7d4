"""Every finding as text: what was found, what shows it, what to try. Whatever shows a finding takes its words here;
phrases.py words what depends on several numbers, such as a late rank. Pure.

A kind has a template for what was found (FOUND), and perhaps one for its evidence (EVIDENCE), or a function that
chooses it. A number is written in the unit that its name ends in: {late_ms} is 20 ms, {share} is 12%, {steps:step} is
3 steps. {names} are the trials, {first} and {last} two of them, {where} is "in backward" or "between steps".
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import groupby

from ddptui.analysis.finding import Finding, Kind
from ddptui.analysis.results import Culprit
from ddptui.findings import words_zh
from ddptui.findings.phrases import (
    by_turns,
    caused,
    escaped,
    figures,
    in_lines,
    injected,
    late_rank,
    line_of_code,
    loader_workers,
    rare_waits,
    span,
    steps_named,
    stood_idle,
    trend,
    where,
)
from ddptui.text.words import ended, in_a_row, is_chinese, listed, localized, seconds, sentence

Template = str | Callable[[Finding], str]
CAPITALS = {"the", "no", "nothing", "calls", "cannot", "with", "on", "under", "what", "a", "do", "of", "averages"}
CAPITALS |= {"others", "rank", "in", "for", "trial", "trials"}


def short(finding: Finding) -> str:
    """The finding alone, in one line; of a late rank, with the line of code."""
    if not finding.lines or finding.kind is not Kind.LATE_RANK:
        return _found(finding)
    line = finding.lines[0].place
    return _found(finding) + localized(f" ({line})", f"（{line}）")


def evidence(finding: Finding) -> str:
    """What shows it; empty if the finding says it all."""
    if _is_in_chinese(finding):
        return words_zh.filled(words_zh.EVIDENCE.get(finding.kind, ""), finding)
    return _filled(EVIDENCE.get(finding.kind, ""), finding)


def long(finding: Finding) -> str:
    """The finding, the evidence and what to try, a sentence each."""
    return in_a_row([_found(finding), evidence(finding), remedy(finding)], ".")


def remedy(finding: Finding) -> str:
    """What to try; empty if there is no advice."""
    action = finding.action or ""
    return localized(action, words_zh.REMEDIES.get(action, ""))


def in_sentences(findings: Iterable[Finding]) -> list[str]:
    """Findings as sentences, those about trials with their reason, a failure with its remedy. Neighbors of one kind
    share a sentence."""
    told = []
    for kind, group in groupby(findings, key=lambda finding: finding.kind):
        alike = [*group]
        if kind is Kind.FAILED and alike[0].place:
            told += [sentence(part) for part in (alike[0].place, alike[0].action) if part]
            continue
        clauses = [in_a_row([short(each), evidence(each) if kind in REASONS else ""], ";") for each in alike]
        words = in_a_row(clauses, ";")
        # The first word may be the name of a trial, which stays as it is.
        is_word = words.split(" ", 1)[0] in CAPITALS and not _is_in_chinese(alike[0])
        told.append(sentence(words) if is_word else ended(words, "."))
    return told


def _found(finding: Finding) -> str:
    if _is_in_chinese(finding):
        return words_zh.filled(words_zh.FOUND[finding.kind], finding)
    return _filled(FOUND[finding.kind], finding)


def _is_in_chinese(finding: Finding) -> bool:
    return is_chinese() and finding.kind in words_zh.FOUND


def _filled(template: Template, finding: Finding) -> str:
    text = template if isinstance(template, str) else template(finding)
    names, place = finding.trials or ("",), finding.place or ""
    values = {"names": listed(names), "first": names[0], "last": names[-1], "rank": finding.rank, "place": place}
    values |= {
        "doubt": finding.doubt,
        "phase": finding.phase,
        "where": where(finding.phase),
        "steps": steps_named(finding),
    }
    return text.format_map(values | figures(finding))


# A window of steps, or a trial


# The checks of a watched training

ALONE = {  # by Finding.place: why ranks do not average gradients
    "no group": "no process has joined a process group",
    "bypassed": "none of {made:step} called a collective or the DDP's forward",
    "": "none of {made:step} called a collective that could average them",
}


def _not_finite(finding: Finding) -> str:
    where = "on all ranks" if finding.rank is None else "on rank {rank} first"
    later = f"; on the others from step {finding.numbers['later']:.0f} on" * bool(finding.numbers["later"])
    return f"The loss became NaN or infinite {where}, in step {finding.steps[0]}{later}"


def _since(finding: Finding) -> str:
    return f"since step {finding.steps[0]}" if finding.steps else ""


OF_CHECKS: Mapping[Kind, Template] = {
    Kind.FEWER_PROCESSES: "The command asks for {asked} processes, but {found} trained",
    Kind.NOT_AVERAGED: lambda finding: (
        f"The {{ranks}} ranks do not average gradients: {ALONE[finding.place or '']}. Each rank trains for itself"
    ),
    Kind.STARTED_APART: "The ranks began with different parameters, and train different models: {place}",
    Kind.MOVED_APART: lambda finding: (
        f"The ranks' parameters differ {_since(finding)}"
        + ", although their gradients are averaged" * bool(finding.numbers["known"])
        + ": {place}"
    ),
    Kind.SOME_AVERAGED: "Some gradients are not averaged: {place}. The ranks train different models",
    Kind.SELDOM_AVERAGED: lambda finding: (
        f"Gradients are averaged in {{averaged}} of {{made:step}} only; the ranks' parameters differ {_since(finding)}"
    ),
    Kind.AVERAGE_DIFFERS: lambda finding: (
        "Gradients differ between ranks although each step calls collectives; "
        f"the ranks' parameters differ {_since(finding)}"
    ),
    Kind.NO_DIVISION: lambda finding: (
        "Gradients are {factor:.3g} times their mean over the ranks: they are the sum, not divided"
        + "; that is right if the loss is divided by the number of ranks" * (finding.severity != "critical")
    ),
    Kind.DIVIDED_TWICE: lambda finding: (
        "Gradients are {factor:.3g} times their mean over the ranks: the sum is divided twice"
        + "; that is right if the loss is multiplied by the number of ranks" * (finding.severity != "critical")
    ),
    Kind.NO_SYNC_LATE: lambda finding: (
        "The last {unaveraged} of {of} backward passes of each step are not averaged (`no_sync`); "
        f"the ranks' parameters differ {_since(finding)}"
    ),
    Kind.NO_SYNC_SAVES: (
        "Gradients are averaged in each of {of} micro-batches: `no_sync` would save {early} of {of} averages "
        "({early_s} of {steps_s})"
    ),
    Kind.SAME_BATCHES: "Ranks {place} train on the same batches ({batches} of {batches} compared)",
    Kind.OVERLAP_OF_SAMPLES: (
        "Ranks draw from the same samples: {overlap_share} of those that a rank read were also read by another"
    ),
    Kind.SAME_ORDER: "Samples come in the same order in every epoch: set_epoch is not called",
    Kind.SETTINGS_DIFFER: "Settings differ between ranks: {place}",
    Kind.NOT_FINITE: _not_finite,
    Kind.NEVER_FINITE: "The loss was NaN or infinite in every step, from the first one on",
    Kind.APART_AT_END: lambda finding: (
        f"After the training the ranks' parameters differ: {{place}}; in step {finding.steps[0]} they were the same. "
        "That is right if ranks loaded other weights since"
    ),
}

# A run: its trials beside each other

PART_NAMES = {  # of the parts of a time
    "work": "own work",
    "delay": "injected delays",
    "culprit_wait": "waiting for a late rank",
    "other_wait": "waiting",
    "transfer": "transfer",
    "hidden": "waiting or transfer",
    "unexplained": "unexplained",
}


def part_name(part: str, culprit: Culprit | Finding | None) -> str:
    """The name of a part of a time. culprit: the late rank, if there is one, or a finding about it."""
    if culprit is None or culprit.rank is None or not part.endswith("_wait"):
        return PART_NAMES[part]
    return f"waiting for rank {culprit.rank} ({culprit.phase})" if part == "culprit_wait" else "other waiting"


def _times(finding: Finding) -> str:
    """As in 2.10 ± 0.05; of one repeat about 2.1; of disturbed ones roughly 1.9 to 2.4."""
    numbers = finding.numbers
    if "off_times" in numbers:
        return "{ratio_times} ± {off_times} times as long as {place}"
    if finding.kind is Kind.ROUGHLY or numbers["low_times"] < numbers["high_times"]:
        is_one = f"{numbers['low_times']:.2f}" == f"{numbers['high_times']:.2f}"
        return f"roughly {{low_times}}{'' if is_one else ' to {high_times}'} times as long as {{place}}"
    return "about {ratio_times} times as long as {place}"


def _took(finding: Finding) -> str:
    if len(finding.trials) > 1:
        return "the other trials took roughly {low_times} ({first}) to {high_times} ({last}) times as long as {place}"
    return "{first} took " + _times(finding)


def _reason(finding: Finding) -> str:
    """What most of a difference is."""
    numbers = finding.numbers
    if "slept_s" in numbers:
        return "{slept_s} were injected, and the train time grew by {longer_s}"
    for part in (part for part in PART_NAMES if f"{part}_s" in numbers):
        s, whole = abs(numbers[f"{part}_s"]), abs(numbers["whole_s"])
        went = "extra {} went into" if numbers["whole_s"] > 0 else "{} saved came from"
        return f"{seconds(min(s, whole))} of the {went.format(seconds(whole))} {part_name(part, finding)}"
    return ""


def _end(finding: Finding) -> str:
    place = finding.kind.value
    if len(finding.trials) > 1:
        return f"{{names}} were the {place}, too close to call: {{first}} took {_times(finding)}"
    return f"{{names}} was the {place}: it took {_times(finding)}"


def _unclear(finding: Finding) -> str:
    one = "whether {names} differs from {place}" if len(finding.trials) == 1 else "for {names}"
    return f"cannot tell {one}: {{doubt}}"


def _same_loss(finding: Finding) -> str:
    low, high = (f"{finding.numbers[f'{end}_loss']:.3f}" for end in ("low", "high"))
    nearly, both = ("", low) if low == high else ("nearly ", f"{low} to {high}")
    return f"the loss is {nearly}the same in {'{place}' if finding.place else '{of_trials:trial}'}: {both}"


def _found_from(finding: Finding) -> str:
    if "from_ms" not in finding.numbers:
        return "rank {rank} was not identified as the cause at any of these delays"
    missed = ", and not at {missed_ms}" if "missed_ms" in finding.numbers else ""
    return f"rank {{rank}} was identified as the cause from {{from_ms}} a step on{missed}"


def _delay_found(finding: Finding) -> str:
    found, of = len(finding.trials), round(finding.numbers["of_trials"])
    where = "" if of == 1 else f" in {'all' if found == of else f'{found} of'} {of} trials"
    measured = span(finding, "low_ms", "high_ms")
    return f"the others wait for rank {{rank}}, which is delayed: ddptui measured a delay of {measured} a step{where}"


def _speedup(finding: Finding) -> str:
    batch = "global batch" if finding.kind is Kind.SPEEDUP else "batch per rank"
    samples = "{ranks} ranks trained on {speedup_times} times as many samples a second as {base_ranks}"
    return f"with the same {batch}, {samples} (ideal: {{ideal_times:.3g}})"


def _fastest_way(finding: Finding) -> str:
    numbers = finding.numbers
    first, last = numbers["first_bytes"], numbers["last_bytes"]
    is_first, is_last = first == numbers["smallest_bytes"], last == numbers["largest_bytes"]
    where = "at {first_bytes}" if first == last else "from {first_bytes} to {last_bytes}"
    if first < last and (is_first or is_last):
        where = "up to {last_bytes}" if is_first else "from {first_bytes} on"
        where = "at every size" if is_first and is_last else where
    return f"on {{ranks}} ranks the fastest way to average is {{place}} {where}"


def _cells(finding: Finding) -> str:
    several = finding.numbers["cells"] > 1
    span = " at the median of {cells:size}: {low_times} to {high_times} times, most apart in {place}" * several
    took = "calls took {ratio_times} times as long in B as in A" + (span or ": {place}")
    if finding.numbers["repeats"] < 2:
        return took + "; one launch shows no difference between runs; increase `--repeats`"
    return took + "; {slower_cells} slower and {faster_cells} faster by more than the launches differ"


def _order(finding: Finding) -> str:
    order = escaped(" < ".join(finding.trials))
    return PUBLISHED[finding.kind].replace("ORDER", order)


PUBLISHED = {
    Kind.PUBLISHED_HOLDS: "the published order is reproduced: ORDER",
    Kind.PUBLISHED_SWAPPED: "of the published order (ORDER), this run swaps {doubt}",
    Kind.PUBLISHED_UNCLEAR: (
        "of the published order (ORDER), this run neither confirms nor refutes {unclear_pairs} of {pairs:pair}"
    ),
}
FOUND: Mapping[Kind, Template] = {
    # A window of steps
    Kind.LATE_RANK: late_rank,
    Kind.NO_CORE: "Rank {rank} holds everyone up, because other programs use its core",
    Kind.UNCERTAIN: "The others waited for rank {rank} {share} of the time; the cause is uncertain, since {doubt}",
    Kind.DATA: "Data loading is the bottleneck on all ranks: {share} of the time, {step_ms} a step",
    Kind.FIRST_BATCH: (
        "Data loading is the bottleneck on all ranks: {share} of the time, most of it in the first batch of each epoch "
        "(about {first_s} each, {epochs:epoch})"
    ),
    Kind.BETWEEN_STEPS: "Work between steps takes {share} of the time on all ranks",
    Kind.LONG_STEPS: lambda finding: (
        f"{{times:step}} took {{longer_s}} longer than usual{' on all ranks' * (finding.numbers['ranks'] > 1)}, "
        "{where}" + "".join(f" ({escaped(line.place)})" for line in finding.lines[:1]) + ": {steps}"
    ),
    Kind.RESTART: lambda finding: (
        f"The ranks were restarted before step {finding.steps[0]}" + ": {place}" * bool(finding.place)
    ),
    Kind.RARE_WAITS: rare_waits,
    Kind.BURSTS: lambda finding: (
        "Rank {rank} is late in 1 step of {every_steps}, by {pause_ms}, {where}"
        + line_of_code(finding)
        + " ({times:time})"
    ),
    Kind.BY_TURNS: by_turns,
    Kind.UNEVEN_WORK: lambda finding: (
        "Ranks are late by turns, from uneven batches: one has up to {size_times:.1f} times the numbers of another"
        if finding.place
        else "Ranks are late by turns, in forward and backward: their work differs from step to step"
    ),
    Kind.TREND: trend,
    Kind.NETWORK: stood_idle,
    Kind.WAITING: stood_idle,
    Kind.SMALL_CALLS: lambda finding: (
        "Most of the communication is {calls} {place}s"
        + " of {bytes}" * bool(finding.numbers["bytes"])
        + " a step, {where}"
        + "".join(f", by {escaped(each.place)}" for each in finding.lines)
    ),
    **OF_CHECKS,
    Kind.NOTHING: "Nothing to worry about: {share} of the time in communication",
    # A trial
    Kind.INJECTED: injected,
    Kind.SLOW_STEPS: lambda finding: (
        f"{{times}} of {{of}} measured steps took more than twice the median (worst: step {finding.steps[0]}, "
        "{worst_ms})"
    ),
    # A run
    Kind.SLOWER: _took,
    Kind.FASTER: _took,
    Kind.ROUGHLY: _took,
    Kind.ALIKE: "{names} took as long as {place}, as far as {repeats:repeat} can tell",
    Kind.UNCLEAR: _unclear,
    Kind.FASTEST: _end,
    Kind.SLOWEST: _end,
    Kind.SAME_LOSS: _same_loss,
    Kind.OTHER_LOSS: "the loss differs: from {low_loss} ({first}) to {high_loss} ({last})",
    Kind.LOSSY: "averages are off by {low_share:.2g} ({first}) to {high_share:.2g} ({last}) of their norm",
    Kind.TRAINED: "{ranks:rank} trained for {train_s}, {made:step}",
    Kind.FOUND_FROM: _found_from,
    Kind.DELAY_FOUND: _delay_found,
    Kind.DELAY_MISSED: "the delay of rank {rank} was not found in {names}",
    Kind.CHAIN: "under {names}, rank {rank} waits for rank {for_rank}, which waits for rank {then_rank}",
    Kind.MISTAKES: lambda finding: (
        "the checks found {found} of {mistakes:mistake}"
        + f"; {{names}} pass{'es' * (len(finding.trials) == 1)} every check" * bool(finding.trials)
    ),
    Kind.CHECK_FAILS: 'the check "{place}" fails in {names}',
    Kind.OWN_RIGHT: (
        "{place} is right: all ranks end with the same bits, and what they average is the mean (error: {error:.1g})"
    ),
    Kind.OWN_WRONG: "{place} is wrong: {doubt}",
    Kind.OWN_BYTES: (
        "for each average, a rank of {names} hands {handed_bytes} to {calls:collective}; to average {averaged_bytes} "
        "over {ranks:rank}, each must send at least {least_bytes}"
    ),
    Kind.FAULTS_NAMED: lambda finding: (
        "{found} of {faults:fault} ended the trial with a reason that names "
        + ("rank {rank}" if finding.rank is not None else "the rank that had it")
    ),
    Kind.FAULT_SURVIVED: "{names} trained to the end in spite of its fault",
    Kind.FAULT_UNNAMED: "in {names}, the reason does not name the faulty rank",
    Kind.SPLIT: "{names} cut each batch of {samples} into {place}",
    Kind.OVERLAP: lambda finding: (
        "{names} hid {share} of its communication behind backward" if finding.numbers else "{names} hid nothing"
    ),
    Kind.START: "the first step was reached after {low_s} ({first}) to {high_s} ({last})",
    **dict.fromkeys((Kind.SPEEDUP, Kind.WEAK_SPEEDUP), _speedup),
    Kind.PREDICTABLE: "to predict these times from {names} alone: `{place}`",
    Kind.SHOWN: lambda finding: (
        "{primitives:primitive} ran on {ranks} ranks over {place}; what each rank's buffers held before and after is "
        + "below"
        + "; {place} refused {refused:call}" * bool(finding.numbers["refused"])
    ),
    Kind.WRONG_VALUES: "do not trust the times of {names}: {elements:element} came out wrong",
    Kind.CALLS: lambda finding: (
        f"on {{ranks}} ranks a call takes {span(finding, 'low_s', 'high_s')} for {{bytes}} ({{place}})"
    ),
    Kind.CALL_COSTS: lambda finding: (
        "for small tensors the call takes the time, for large ones their bytes: an all_reduce"
        f"{' among several in flight' * bool(finding.place)} takes {{call_s}} for {{least_bytes}} and at most twice "
        "that for {most_bytes}, so smaller gradients are better sent together, in a bucket"
    ),
    Kind.FASTEST_WAY: _fastest_way,
    Kind.WAYS_ALIKE: "cannot tell which way to average is fastest on {ranks} ranks",
    **dict.fromkeys(PUBLISHED, _order),
    Kind.DIVERGED: "the loss of {names} is not finite: training diverged",
    Kind.FAILED: lambda finding: (
        "{place}" if finding.place else f"trial{'s' * (len(finding.trials) > 1)} {{names}} failed: see below"
    ),
    Kind.INTERRUPTED: "the run was interrupted: {done} of {of_trials:trial} have figures",
    Kind.TOO_FEW_STEPS: lambda finding: (
        f"do not rely on these times: {{few:step}}{' in {names}' * bool(finding.trials)} are too few; raise `epochs` "
        "or `steps`"
    ),
    Kind.CELLS: _cells,
    Kind.NO_PAIR: (
        "nothing to compare: no {place} is in both runs; name two runs of the same preset, or match trials by hand: "
        "`ddptui compare A B --match x=y`"
    ),
    Kind.NO_BASELINE: "nothing can be compared: {doubt}",
    Kind.NOTHING_YET: "the run was interrupted before a trial finished; go on with `ddptui --resume {place}`",
}
FETCHING = (
    "Fetching batches takes {low_share} to {high_share} of each rank's time; the rest is waiting for other ranks that "
    "fetch theirs"
)
EVIDENCE: Mapping[Kind, Template] = {
    Kind.LATE_RANK: caused,
    Kind.INJECTED: lambda finding: caused(finding) if "of_waiting_share" in finding.numbers else "",
    Kind.NO_CORE: "It queued for a core {queued_ms} a step longer than the others",
    Kind.DATA: lambda finding: (
        in_a_row([in_lines(finding), loader_workers(finding), FETCHING], ".")
        + ". One batch in {every_steps} is slow: {every_steps} workers at their limit look like this"
        * ("every_steps" in finding.numbers)
    ),
    Kind.FIRST_BATCH: "A loader that restarts its workers for each epoch looks like this",
    Kind.BETWEEN_STEPS: lambda finding: in_a_row(["That is {step_ms} a step", in_lines(finding)], "."),
    Kind.LONG_STEPS: "That is {share} of the time",
    Kind.RESTART: "It took {lost_s} until all trained again, {share} of the time",
    Kind.RARE_WAITS: "That is {share} of the time, {pause_ms} in such a step",
    Kind.BURSTS: "Others waited {waited_s} for it, {share} of the time",
    Kind.BY_TURNS: "The others waited {waited_s} for these, {share} of the time",
    Kind.UNEVEN_WORK: "Equal work in each step would save about {saved_s}, {share} of the time",
    Kind.SMALL_CALLS: "They take {share} of the time after all ranks have arrived",
    **dict.fromkeys((Kind.SLOWER, Kind.FASTER, Kind.FASTEST, Kind.SLOWEST), _reason),
}
REASONS = (Kind.SLOWER, Kind.FASTER, Kind.FASTEST, Kind.SLOWEST)
