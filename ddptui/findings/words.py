"""Every finding as text: what was found, what shows it, what to try. Whatever shows a finding takes its words here.
Pure.

A kind has a template for what was found (FOUND), and perhaps one for its evidence (EVIDENCE); PHRASES are parts that
several templates share, or that would hide their sentence. findings/phrases.py says how a template is filled.
"""

from collections.abc import Iterable, Mapping
from itertools import groupby

from ddptui.analysis.finding import Finding, Kind
from ddptui.analysis.results import Culprit
from ddptui.findings import words_zh
from ddptui.findings.phrases import Language, Values, filled
from ddptui.text.words import ended, in_a_row, is_chinese, listed, localized, sentence

REASONS = (Kind.SLOWER, Kind.FASTER, Kind.FASTEST, Kind.SLOWEST)


def short(finding: Finding) -> str:
    """The finding alone, in one line; of a late rank, with the line of code."""
    language = _language(finding)
    return filled(language.found[finding.kind], Values(finding, language))


def evidence(finding: Finding) -> str:
    """What shows it; empty if the finding says it all."""
    language = _language(finding)
    return filled(language.evidence.get(finding.kind, ""), Values(finding, language))


def remedy(finding: Finding) -> str:
    """What to try; empty if there is no advice."""
    action = finding.action or ""
    return localized(action, words_zh.REMEDIES.get(action, ""))


def in_sentences(findings: Iterable[Finding]) -> list[str]:
    """Findings as sentences, those about trials with their reason, a failure with its remedy. Neighbors of one kind
    share a sentence."""
    sentences = []
    for kind, group in groupby(findings, key=lambda finding: finding.kind):
        alike = [*group]
        if kind is Kind.FAILED and alike[0].place:
            sentences += [sentence(part) for part in (alike[0].place, alike[0].action) if part]
            continue
        clauses = [in_a_row([short(each), evidence(each) if kind in REASONS else ""], ";") for each in alike]
        words = in_a_row(clauses, ";")
        names = [f"{name}{mark}" for name in (*alike[0].trials[:1], alike[0].place) for mark in " ,"]
        is_word = _language(alike[0]) is ENGLISH and not words.startswith(tuple(names))  # names stay as they are
        sentences.append(sentence(words) if is_word else ended(words, "."))
    return sentences


def _language(finding: Finding) -> Language:
    return words_zh.CHINESE if is_chinese() and finding.kind in words_zh.FOUND else ENGLISH


def part_name(part: str, culprit: Culprit | None) -> str:
    """The name of a part of a time. culprit: the late rank, if there is one."""
    if culprit is None or not part.endswith("_wait"):
        return PART_NAMES[part]
    return f"waiting for rank {culprit.rank} ({culprit.phase})" if part == "culprit_wait" else "other waiting"


PART_NAMES = {  # of the parts of a time
    "work": "own work",
    "delay": "injected delays",
    "culprit_wait": "waiting for a late rank",
    "other_wait": "waiting",
    "transfer": "transfer",
    "hidden": "waiting or transfer",
    "unexplained": "unexplained",
}
PHRASES = {
    "where": "[within?in {within}[between? and between steps]|between?between steps|in several phases]",
    "steps": "step[several_steps?s] {step_list}",
    "more": "{number} more",
    # 19.8 ms of it in augment, train.py:28, called by collate, train.py:37
    "on_line": "{time} [is_first?of it ][is_function?in|at] {place}[, called by {by}]",
    "on_no_line": "no line explains the other {time}",
    "workers_do": (
        "[workers?[is_own?Its {workers:.0f} loader worker[is_one?|s]|The loader workers] "
        "[on_disk?wait[is_one?s] for the disk"
        "|are_idle?hardly compute[is_one?s]: they sleep, or wait for a file, a lock or the network"
        "|[is_one?is|are] busy [are_busy?all the time|{workers_busy_share} of the time]]]"
    ),
    "caused": (
        "[{lines}. ]Rank {rank} caused {of_waiting_share} of the waiting for late ranks"
        "[: the others waited for it {share} of the time][. {workers_do}]"
        "[would_differ?. Without its delay: about {without_s:.2f} s instead of {train_s:.2f} s]"
        "[. It used {cpu_times:.1f} × the CPU time of the others: it has more work, "
        "[is_everywhere?or a slower core|and did not lack a core]"
        "|blocked_share?. It did not compute meanwhile: it slept, or waited for a file, a lock or another process]"
    ),
    "idle": (
        "[mostly_waits?{wait_share} of the time for a late rank[transfers?, {transfer_share} {for_transfers}]"
        "|{transfer_share} of the time {for_transfers}[waits?, {wait_share} for a late rank]]"
    ),
    "for_transfers": "[place?to hand over outputs|in transfers]",
    "on_rank": "{times} on rank {number}",
    "times_as_long": (
        "[has_spread?{ratio_times} ± {off_times}|is_rough?roughly {span}|is_span?roughly {span}|about {ratio_times}] "
        "times as long as {place}"
    ),
    "took": (
        "[several?the other trials took roughly {low_times} ({first}) to {high_times} ({last}) times as long as {place}"
        "|{first} took {times_as_long}]"
    ),
    "reason": (
        "[{slept_s} were injected, and the train time grew by {longer_s}"
        "|of_part?{of_part} of the [grew?extra {difference} went into|{difference} saved came from] "
        "[for_culprit?waiting for rank {rank} ({phase})|{part}]]"
    ),
    "speedup": (
        "{ranks} ranks trained on {speedup_times} times as many samples a second as {base_ranks} "
        "(ideal: {ideal_times:.3g})"
    ),
}
OF_CHECKS = {  # of a watched training
    Kind.FEWER_PROCESSES: "The command asks for {asked} processes, but {found} trained",
    Kind.NOT_AVERAGED: (
        "The {ranks} ranks do not average gradients: [no_group?no process has joined a process group"
        "|none of {made:step} called [bypassed?a collective or the DDP's forward|a collective that could average them]]"
        ". Each rank trains for itself"
    ),
    Kind.STARTED_APART: "The ranks began with different parameters, and train different models: {place}",
    Kind.MOVED_APART: (
        "The ranks' parameters differ[ since step {step}][known?, although their gradients are averaged]: {place}"
    ),
    Kind.SOME_AVERAGED: "Some gradients are not averaged: {place}. The ranks train different models",
    Kind.SELDOM_AVERAGED: (
        "Gradients are averaged in {averaged} of {made:step} only; the ranks' parameters differ[ since step {step}]"
    ),
    Kind.AVERAGE_DIFFERS: (
        "Gradients differ between ranks although each step calls collectives; the ranks' parameters differ"
        "[ since step {step}]"
    ),
    Kind.NO_DIVISION: (
        "Gradients are {factor:.3g} times their mean over the ranks: they are the sum, not divided"
        "[is_sure?|; that is right if the loss is divided by the number of ranks]"
    ),
    Kind.DIVIDED_TWICE: (
        "Gradients are {factor:.3g} times their mean over the ranks: the sum is divided twice"
        "[is_sure?|; that is right if the loss is multiplied by the number of ranks]"
    ),
    Kind.NO_SYNC_LATE: (
        "The last {unaveraged} of {of} backward passes of each step are not averaged (`no_sync`); "
        "the ranks' parameters differ[ since step {step}]"
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
    Kind.NOT_FINITE: (
        "The loss became NaN or infinite [on rank {rank} first|on all ranks], in step {step}"
        "[; on the others from step {later} on]"
    ),
    Kind.NEVER_FINITE: "The loss was NaN or infinite in every step, from the first one on",
    Kind.APART_AT_END: (
        "After the training the ranks' parameters differ: {place}; in step {step} they were the same. "
        "That is right if ranks loaded other weights since"
    ),
}
OF_RUN = {  # its trials beside each other
    **dict.fromkeys((Kind.SLOWER, Kind.FASTER, Kind.ROUGHLY), "{took}"),
    Kind.ALIKE: "{names} took as long as {place}, as far as {repeats:repeat} can tell",
    Kind.UNCLEAR: "cannot tell [several?for {names}|whether {names} differs from {place}]: {doubt}",
    Kind.FASTEST: (
        "{names} [several?were the fastest, too close to call: {first}|was the fastest: it] took {times_as_long}"
    ),
    Kind.SLOWEST: (
        "{names} [several?were the slowest, too close to call: {first}|was the slowest: it] took {times_as_long}"
    ),
    Kind.SAME_LOSS: "the loss is [is_span?nearly ]the same in [{place}|{of_trials:trial}]: {span}",
    Kind.OTHER_LOSS: "the loss differs: from {low_loss} ({first}) to {high_loss} ({last})",
    Kind.LOSSY: "averages are off by {low_share:.2g} ({first}) to {high_share:.2g} ({last}) of their norm",
    Kind.TRAINED: "{ranks:rank} trained for {train_s}, {made:step}",
    Kind.FOUND_FROM: (
        "rank {rank} was [from_ms?identified as the cause from {from_ms} a step on[, and not at {missed_ms}]"
        "|not identified as the cause at any of these delays]"
    ),
    Kind.DELAY_FOUND: (
        "the others wait for rank {rank}, which is delayed: ddptui measured a delay of {span} a step"
        "[of_one?| in [in_all?all|{trials} of] {of_trials} trials]"
    ),
    Kind.DELAY_MISSED: "the delay of rank {rank} was not found in {names}",
    Kind.CHAIN: "under {names}, rank {rank} waits for rank {for_rank}, which waits for rank {then_rank}",
    Kind.MISTAKES: "the checks found {found} of {mistakes:mistake}[; {names} [several?pass|passes] every check]",
    Kind.CHECK_FAILS: 'the check "{place}" fails in {names}',
    Kind.OWN_RIGHT: (
        "{place} is right: all ranks end with the same bits, and what they average is the mean (error: {error:.1g})"
    ),
    Kind.OWN_WRONG: "{place} is wrong: {doubt}",
    Kind.OWN_BYTES: (
        "for each average, a rank of {names} hands {handed_bytes} to {calls:collective}; to average {averaged_bytes} "
        "over {ranks:rank}, each must send at least {least_bytes}"
    ),
    Kind.FAULTS_NAMED: (
        "{found} of {faults:fault} ended the trial with a reason that names [rank {rank}|the rank that had it]"
    ),
    Kind.FAULT_SURVIVED: "{names} trained to the end in spite of its fault",
    Kind.FAULT_UNNAMED: "in {names}, the reason does not name the faulty rank",
    Kind.SPLIT: "{names} cut each batch of {samples} into {place}",
    Kind.OVERLAP: "{names} hid [{share} of its communication behind backward|nothing]",
    Kind.START: "the first step was reached after {low_s} ({first}) to {high_s} ({last})",
    Kind.SPEEDUP: "with the same global batch, {speedup}",
    Kind.WEAK_SPEEDUP: "with the same batch per rank, {speedup}",
    Kind.PREDICTABLE: "to predict these times from {names} alone: `{place}`",
    Kind.SHOWN: (
        "{primitives:primitive} ran on {ranks} ranks over {place}; what each rank's buffers held before and after is "
        "below[; {place} refused {refused:call}]"
    ),
    Kind.WRONG_VALUES: "do not trust the times of {names}: {elements:element} came out wrong",
    Kind.CALLS: "on {ranks} ranks a call takes {span} for {bytes} ({place})",
    Kind.CALL_COSTS: (
        "for small tensors the call takes the time, for large ones their bytes: an all_reduce"
        "[place? among several in flight] takes {call_s} for {least_bytes} and at most twice that for {most_bytes}, so "
        "smaller gradients are better sent together, in a bucket"
    ),
    Kind.FASTEST_WAY: (
        "on {ranks} ranks the fastest way to average is {place} [one_size?at {first_bytes}"
        "|from_smallest?[to_largest?at every size|up to {last_bytes}]"
        "|to_largest?from {first_bytes} on|from {first_bytes} to {last_bytes}]"
    ),
    Kind.WAYS_ALIKE: "cannot tell which way to average is fastest on {ranks} ranks",
    Kind.PUBLISHED_HOLDS: "the published order is reproduced: {order}",
    Kind.PUBLISHED_SWAPPED: "of the published order ({order}), this run swaps {doubt}",
    Kind.PUBLISHED_UNCLEAR: (
        "of the published order ({order}), this run neither confirms nor refutes {unclear_pairs} of {pairs:pair}"
    ),
    Kind.DIVERGED: "the loss of {names} is not finite: training diverged",
    Kind.FAILED: "[{place}|trial[several?s] {names} failed: see below]",
    Kind.INTERRUPTED: "the run was interrupted: {done} of {of_trials:trial} have figures",
    Kind.TOO_FEW_STEPS: "do not rely on these times: {few:step}[ in {names}] are too few; raise `epochs` or `steps`",
    Kind.CELLS: (
        "calls took {ratio_times} times as long in B as in A"
        "[several_cells? at the median of {cells:size}: {low_times} to {high_times} times, most apart in {place}"
        "|: {place}]; [several_repeats?{slower_cells} slower and {faster_cells} faster by more than the launches differ"
        "|one launch shows no difference between runs; increase `--repeats`]"
    ),
    Kind.NO_PAIR: (
        "nothing to compare: no {place} is in both runs; name two runs of the same preset, or match trials by hand: "
        "`ddptui compare A B --match x=y`"
    ),
    Kind.NO_BASELINE: "nothing can be compared: {doubt}",
    Kind.NOTHING_YET: "the run was interrupted before a trial finished; go on with `ddptui --resume {place}`",
}
FOUND: Mapping[Kind, str] = {
    Kind.LATE_RANK: (
        "Rank {rank} holds everyone up: {late_ms} a step[ (95%: {interval})], [in every phase (× {slower})|{where}]"
        "[, in steps {step} to {last_step}][ ({line})]"
    ),
    Kind.NO_CORE: "Rank {rank} holds everyone up, because other programs use its core",
    Kind.UNCERTAIN: "The others waited for rank {rank} {share} of the time; the cause is uncertain, since {doubt}",
    Kind.DATA: "Data loading is the bottleneck on all ranks: {share} of the time, {step_ms} a step",
    Kind.FIRST_BATCH: (
        "Data loading is the bottleneck on all ranks: {share} of the time, most of it in the first batch of each epoch "
        "(about {first_s} each, {epochs:epoch})"
    ),
    Kind.BETWEEN_STEPS: "Work between steps takes {share} of the time on all ranks",
    Kind.LONG_STEPS: (
        "{times:step} took {longer_s} longer than usual[several_ranks? on all ranks], {where}[ ({line})]: {steps}"
    ),
    Kind.RESTART: "The ranks were restarted before step {step}[: {place}]",
    Kind.RARE_WAITS: (
        "In {steps}, [rank {waiting_rank}|each of the other ranks] waited {waited_s} for rank {rank} "
        "({where}[: {line}])"
    ),
    Kind.BURSTS: "Rank {rank} is late in 1 step of {every_steps}, by {pause_ms}, {where}[: {line}] ({times:time})",
    Kind.BY_TURNS: "Late by turns: {times:pause} of {pause_ms} {where}, [{on_each} on each rank|{on_ranks}]",
    Kind.UNEVEN_WORK: (
        "Ranks are late by turns, [from uneven batches: one has up to {size_times:.1f} times the numbers of another"
        "|in forward and backward: their work differs from step to step]"
    ),
    Kind.TREND: (
        "[Rank {rank} is late from step {step} on: {to_ms} a step, {before} before"
        "|Rank {rank} grows late over the run: from {before} to {to_ms} a step]"
    ),
    Kind.NETWORK: "[place?Ranks|is_much?Mostly the network: ranks|Ranks] stood idle {idle}",
    Kind.WAITING: "[is_much?Mostly waiting: ranks|Ranks] stood idle {idle}",
    Kind.SMALL_CALLS: "Most of the communication is {calls} {place}s[ of {bytes}] a step, {where}[, by {line}]",
    **OF_CHECKS,
    Kind.NOTHING: "Nothing to worry about: {share} of the time in communication",
    # A trial
    Kind.INJECTED: (
        "We injected {injected_s} on rank {rank}, [at_start?before the first step|{where}]"
        "[measured_s?; ddptui measured {measured_s} (95%: {span})[ {doubt}]"
        "|; ddptui measured {at_start_s} there (outside the train time)|; not attributed: {doubt}]"
    ),
    Kind.SLOW_STEPS: (
        "{times} of {of} measured steps took more than twice the median (worst: step {step}, {worst_ms})"
    ),
    **OF_RUN,
}
EVIDENCE: Mapping[Kind, str] = {
    Kind.LATE_RANK: "{caused}",
    Kind.INJECTED: "[of_waiting_share?{caused}]",
    Kind.NO_CORE: "It queued for a core {queued_ms} a step longer than the others",
    Kind.DATA: (
        "[{lines}. ][{workers_do}. ]Fetching batches takes {low_share} to {high_share} of each rank's time; the rest "
        "is waiting for other ranks that fetch theirs"
        "[. One batch in {every_steps} is slow: {every_steps} workers at their limit look like this]"
    ),
    Kind.FIRST_BATCH: "A loader that restarts its workers for each epoch looks like this",
    Kind.BETWEEN_STEPS: "That is {step_ms} a step[. {lines}]",
    Kind.LONG_STEPS: "That is {share} of the time",
    Kind.RESTART: "It took {lost_s} until all trained again, {share} of the time",
    Kind.RARE_WAITS: "That is {share} of the time, {pause_ms} in such a step",
    Kind.BURSTS: "Others waited {waited_s} for it, {share} of the time",
    Kind.BY_TURNS: "The others waited {waited_s} for these, {share} of the time",
    Kind.UNEVEN_WORK: "Equal work in each step would save about {saved_s}, {share} of the time",
    Kind.SMALL_CALLS: "They take {share} of the time after all ranks have arrived",
    **dict.fromkeys(REASONS, "{reason}"),
}
ENGLISH = Language(FOUND, EVIDENCE, PHRASES, PART_NAMES, " to ", "; ", listed, str)
