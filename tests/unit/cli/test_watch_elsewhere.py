"""`ddptui watch --listen` and `--join`: what they refuse, in a line, before anything is started."""

from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from ddptui.cli import main
from ddptui.engines.join.ticket import Ticket, read_ticket
from ddptui.wire.connection import Keys
from ddptui.wire.watching import Watching

TO_JOIN = Ticket(run="r", endpoint="tcp://10.0.0.1:15000", token="t" * 32, keys=Keys("s" * 40, "p" * 40, "x" * 40))
TO_WATCH = msgspec.structs.replace(TO_JOIN, watching=Watching(skip=5, steps=20, every=2))


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--listen", "--", "train", "x y"), "also this one: `ddptui watch --join TICKET -- train 'x y'`"),
        (("--listen", "--kill-on-exit"), "--kill-on-exit has no effect with --listen"),
        (("--listen", "--interface", "no-such"), "no interface 'no-such' is up"),
        (("--listen", "--steps", "0"), "--steps"),
        (("--port", "2000", "--", "true"), "need --listen: they say how other hosts reach this console"),
        (("--join", "nothing", "--", "true"), "nothing: neither a ticket (ddptui1:…) nor a file that holds one"),
        (("--join", "nothing", "--skip", "3", "--", "true"), "--skip cannot be combined with --join: give it"),
        (("--join", "nothing", "--set", "a=1", "--", "true"), "--set cannot be combined with --join: give it"),
        (("--join", "nothing"), "name the command"),
        (("--join", TO_JOIN.spell(), "--", "true"), "this ticket is for `ddptui join`"),
        (("--join", TO_WATCH.spell(), "--", "no-such-program"), "no-such-program: no such program"),
    ],
)
@pytest.mark.usefixtures("signals_given_back")
def test_what_cannot_be_is_refused(tmp_path: Path, words: tuple[str, ...], why: str) -> None:
    done = CliRunner().invoke(main, ["watch", *words], env={"DDPTUI_RUNS": str(tmp_path / "runs")})
    assert done.exit_code == 2
    assert why in done.stderr.splitlines()[-1]
    assert not (tmp_path / "runs").exists()


@pytest.mark.usefixtures("signals_given_back")
def test_a_ticket_says_what_is_to_be_watched_and_is_none_to_join() -> None:
    done = CliRunner().invoke(main, ["join", TO_WATCH.spell()])
    assert (done.exit_code, "`ddptui watch --join TICKET -- COMMAND`" in done.stderr) == (2, True)
    assert read_ticket(TO_WATCH.spell()) == TO_WATCH
    assert len(TO_JOIN.spell()) < len(TO_WATCH.spell())
