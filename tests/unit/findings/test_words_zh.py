"""Findings in Chinese: the commonest are, each says what the English one says, and the others stay in English."""

import ast
import re
import string
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from ddptui.analysis.finding import Finding, Kind
from ddptui.findings import words, words_zh
from ddptui.findings.words import evidence, in_sentences, short
from ddptui.store.overview import results_of
from ddptui.store.runs import Run
from ddptui.text import words as language
from tests.recorded.net import NAMES, RUNS
from tests.unit.findings.test_words import FINDINGS, SENTENCES, found

RULES = Path(words.__file__).parent
# What a sentence in English cannot do without, and a Chinese one with English terms can.
ENGLISH = re.compile(r"\b(the|of|and|is|was|were|than|its?|for|to|no)\b")
HAN = re.compile("[\u4e00-\u9fff]")
ONLY_CHINESE = {"all_steps", "blocked_share"}
ONLY_ENGLISH = {"workers"}  # how many
ENDS = {"low", "high", "first", "last", "smallest", "largest"}  # how the names of numbers begin that a span stands for

SPEEDUP = {"ranks": 4.0, "base_ranks": 1.0, "speedup_times": 1.8, "ideal_times": 4.0}
OTHERS = [  # of the kinds that neither the recorded runs nor the findings in English have
    found(Kind.BETWEEN_STEPS, phase="between steps", share=0.4, step_ms=6.0),
    *(found(Kind.NOT_AVERAGED, place=why, ranks=2.0, made=10.0) for why in ("no group", "bypassed", None)),
    found(Kind.STARTED_APART, place="weight"),
    found(Kind.SOME_AVERAGED, place="bias"),
    found(Kind.NO_DIVISION, severity="critical", factor=2.0),
    found(Kind.NO_DIVISION, factor=2.0),
    found(Kind.SAME_BATCHES, place="0 and 1", batches=4.0),
    found(Kind.NOT_FINITE, rank=0, steps=(3,), later=5.0),
    found(Kind.OWN_RIGHT, "a", place="mine.py:average", error=2e-08),
    found(
        Kind.OWN_BYTES, "a", handed_bytes=80000.0, calls=8.0, averaged_bytes=80000.0, least_bytes=100000.0, ranks=3.0
    ),
    found(Kind.NOTHING, share=0.02),
    found(Kind.DELAY_MISSED, "a", rank=0),
    found(Kind.FOUND_FROM, rank=1, missed_ms=40.0),
    found(Kind.START, "a", "b", low_s=1.0, high_s=2.0),
    found(Kind.WEAK_SPEEDUP, "4", **SPEEDUP),
    found(Kind.PUBLISHED_HOLDS, "a", "b"),
    found(Kind.DIVERGED, "a"),
    found(Kind.FAILED, "a"),
    found(Kind.TOO_FEW_STEPS, "a", few=3.0),
]


@cache
def recorded() -> list[Finding]:
    runs = [Run(RUNS / name) for name in NAMES]
    results = [results_of(run, run.preset()) for run in runs]
    return [each for result in results for of in (result, *result.trials) for each in of.findings]


def test_forty_kinds_are_in_chinese() -> None:
    assert len(words_zh.FOUND) >= 40
    assert words_zh.EVIDENCE.keys() <= words_zh.FOUND.keys()
    assert words_zh.EVIDENCE.keys() == words.EVIDENCE.keys() & words_zh.FOUND.keys()


def test_every_finding_is_wholly_in_one_language() -> None:
    every = [*recorded(), *OTHERS, *FINDINGS.values(), *(each for findings in SENTENCES.values() for each in findings)]
    for finding in every:
        in_english = told(finding)
        language.choose_language("zh")
        in_chinese = told(finding)
        language.choose_language("en")
        names = "|".join(map(re.escape, (*finding.trials, finding.place or "-")))
        for line in in_chinese if finding.kind in words_zh.FOUND else ():
            assert HAN.search(line), line
            assert not ENGLISH.search(re.sub(names, "", line)), line
        assert len(in_chinese) == len(in_english)
    assert {finding.kind for finding in every} >= words_zh.FOUND.keys()


def test_what_recorded_runs_find_is_in_chinese() -> None:
    assert {finding.kind for finding in recorded()} <= words_zh.FOUND.keys()


def told(finding: Finding) -> list[str]:
    try:
        return [line for line in (short(finding), evidence(finding)) if line]
    except KeyError:  # of a finding that is about the first line only
        return [short(finding)]


def test_a_finding_has_the_same_numbers_in_both_languages() -> None:
    for table, zh in ((words.FOUND, words_zh.FOUND), (words.EVIDENCE, words_zh.EVIDENCE)):
        for kind, template in zh.items():
            ours, theirs = fields(template, words_zh.PHRASES), fields(table[kind], words.PHRASES)
            ends = {name for name in ours | theirs if name.split("_")[0] in ENDS} | {"span"}
            all_trials = {"place"} if kind is Kind.SAME_LOSS else set()
            assert ours - ends - ONLY_CHINESE == theirs - ends - ONLY_ENGLISH - all_trials, kind
            assert bool(ours & ends) == bool(theirs & ends)


def fields(template: str, phrases: Mapping[str, str]) -> set[str]:
    """The names in a template, and in its phrases."""
    plain = re.sub(r"\w+\?|[\[\]|]", "", template)
    names = {name for _, name, *_ in string.Formatter().parse(plain) if name}
    return {each for name in names for each in (fields(phrases[name], phrases) if name in phrases else {name})}


def test_what_is_not_known_is_left_out(in_chinese: None) -> None:
    finding = found(Kind.NOT_FINITE, rank=0, steps=(3,), later=5.0)
    assert short(finding) == "loss 在第 3 步变成 NaN 或无穷大，先是在 rank 0 上；其他 rank 从第 5 步起"
    finding = found(Kind.NOT_FINITE, steps=(3,), later=0.0)
    assert short(finding) == "loss 在第 3 步变成 NaN 或无穷大，在所有 rank 上"


def test_sentences_have_chinese_marks(in_chinese: None) -> None:
    times = {"ratio_times": 2.1, "low_times": 2.1, "high_times": 2.1, "repeats": 1.0}
    slower = [found(Kind.SLOWER, name, place="a", **times | {"work_s": 0.033, "whole_s": 0.033}) for name in "bc"]
    clause = "的用时约为 a 的 2.10 倍；多出的 33 ms 中有 33 ms 来自自身的计算"
    assert in_sentences(slower) == [f"b {clause}；c {clause}。"]
    assert in_sentences([found(Kind.NO_BASELINE, doubt="a has no figures")]) == [
        "Nothing can be compared: a has no figures."
    ]


def test_what_is_translated_word_for_word_is_what_the_rules_say() -> None:
    texts = {
        node.value
        for file in RULES.glob("*.py")
        if file.stem != "words_zh"
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert words_zh.REMEDIES.keys() <= texts
    whole = "\n".join(texts)
    assert all(doubt.split(",")[0] in whole for doubt in words_zh.DOUBTS if "\\" not in doubt and "(" not in doubt)
