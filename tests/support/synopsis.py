"""Commands and options that pages name without running them, held against those that the program has."""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import click

from tests.support.pages import without_blocks

LISTED = re.compile(r"^ {4}(?P<more> *)(?P<line>(?:ddptui\b|--).*)$")  # a command of a list, or more of its options
INLINE = re.compile(r"`(ddptui(?: [^`]*)?)`")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
FOREIGN = re.compile(r"--sbatch=\S+")  # its value is an option of another program
EXPLAINS = re.compile(r"\s{2,}(?=[^\s-])")  # where what a command does begins


class Named(NamedTuple):
    """A command as a page names it. words: of it alone, without what the page says it does."""

    line: int
    words: str
    options: tuple[str, ...]

    @property
    def command(self) -> str:
        """The subcommand; "" for ddptui itself."""
        found = re.match(r"ddptui ([a-z]+)(?![\w.])", self.words)
        return found[1] if found else ""


def named_in(text: str) -> list[Named]:
    """The commands of a page: those of indented lists, and those within sentences. What is in fenced blocks is run."""
    lines = without_blocks(text).splitlines()
    return [*_listed(lines), *_inline(lines)]


def _listed(lines: list[str]) -> Iterator[Named]:
    words = ""
    for number, line in enumerate(lines, start=1):
        if found := LISTED.match(line):
            own = EXPLAINS.split(found["line"])[0]
            words = words if found["more"] else own
            yield Named(number, words, options_of(found["line"]))


def _inline(lines: list[str]) -> Iterator[Named]:
    for number, line in enumerate(lines, start=1):
        for words in INLINE.findall(line):
            yield Named(number, words, options_of(words))


def options_of(words: str) -> tuple[str, ...]:
    """The options of ddptui; what follows ` -- ` is another program's."""
    return tuple(OPTION.findall(FOREIGN.sub("--sbatch", words.partition(" -- ")[0])))


def unknown(named: list[Named], program: click.Group) -> list[str]:
    """A line for each command or option that the program does not have."""
    problems = []
    for each in named:
        command = program.commands.get(each.command) if each.command else program
        if command is None:
            problems.append(f"line {each.line}: no command {each.command}: {each.words}")
            continue
        known = _options(command) | _options(program)
        problems += [f"line {each.line}: no {option}: {each.words}" for option in each.options if option not in known]
    return problems


def _options(command: click.Command) -> set[str]:
    return {option for parameter in command.params for option in parameter.opts} | {"--help"}


def unnamed(named: list[Named], commands: Mapping[str, click.Command]) -> list[str]:
    """The commands of the program that the page does not name."""
    return sorted(set(commands) - {each.command for each in named})
