"""Files that others may have put in place."""

import os
from pathlib import Path

import pytest

from ddptui.host import files


def test_a_file_that_waits_for_news_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As some of /proc do, which call themselves plain."""
    news, end = os.pipe2(os.O_NONBLOCK)
    monkeypatch.setattr(files, "open_plain", lambda path, most_bytes: open(news, "rb"))  # noqa: SIM115
    with pytest.raises(OSError, match="not a plain file"):
        files.read_plain(tmp_path / "kmsg", 100)
    os.close(end)
