"""A finding as text: finding, evidence, remedy. Whatever shows a finding takes its words from here. Pure."""

from collections.abc import Callable
from typing import NamedTuple

from ddptui.analysis.finding import Finding, Kind


class Words(NamedTuple):
    """How a kind of finding reads, each without a full stop: what was found, as in a headline, and what shows it."""

    finding: Callable[[Finding], str]
    evidence: Callable[[Finding], str] = lambda _: ""


def _uncertain(finding: Finding) -> str:
    share = finding.numbers["share"]
    return f"Rank {finding.rank} caused {share:.0%} of the waiting; not certain, since {finding.doubt}"


WORDS: dict[Kind, Words] = {
    Kind.UNCERTAIN: Words(_uncertain),
}


def short(finding: Finding) -> str:
    """The finding alone, in one line."""
    return WORDS[finding.kind].finding(finding)


def long(finding: Finding) -> str:
    """The finding, the evidence and what to try, a sentence each."""
    evidence = WORDS[finding.kind].evidence(finding)
    return ". ".join(filter(None, [short(finding), evidence, finding.action]))
