"""Arguments of a command are kept as text, and become the same bytes again, whatever they are."""

import os
import subprocess

from hypothesis import example, given
from hypothesis import strategies as st

from ddptui.text.sanitize import as_argument, as_text, shell_line

ARGUMENT = st.binary(max_size=20).map(lambda some: some.replace(b"\0", b""))
GENUINE = "\U0010feff".encode()  # a character that stands for a byte


@given(st.lists(ARGUMENT, max_size=4))
@example([b"\xff", GENUINE, b"caf\xc3\xa9", GENUINE[:3], b"it's \\x41\xfe1"])
def test_arguments_come_back_from_text(arguments: list[bytes]) -> None:
    text = [as_text(os.fsdecode(argument)) for argument in arguments]
    "".join(text).encode("utf-8")  # TOML and JSON can hold it
    assert [os.fsencode(as_argument(kept)) for kept in text] == arguments


def test_ordinary_arguments_stay_and_a_shell_takes_the_line() -> None:
    ordinary = ["train.py", "--name", "caf\u00e9", "\uf8ff", "$'\\xff'"]
    assert [*map(as_text, ordinary)] == [*map(as_argument, ordinary)] == ordinary
    arguments = [b"a\xffb", b"it's \\x41\xfe1", b"two\nlines\xf1", GENUINE, b"plain", b"$'\\xff'", b""]
    line = shell_line(as_text(os.fsdecode(argument)) for argument in arguments)
    done = subprocess.run(["bash", "-c", f"printf '%s\\0' {line}"], stdout=subprocess.PIPE, check=True)
    assert done.stdout.split(b"\0")[:-1] == arguments
