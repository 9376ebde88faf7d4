"""Has the kernel killed somebody because memory ran out?"""

from contextlib import suppress
from pathlib import Path

VMSTAT = Path("/proc/vmstat")  # Linux; readable by everybody
COUNTER = "oom_kill "


def kills(vmstat: Path = VMSTAT) -> int:
    """How many processes it has killed for that since it was started; 0 where it does not say."""
    with suppress(OSError):
        for line in vmstat.read_text().splitlines():
            if line.startswith(COUNTER):
                return int(line.removeprefix(COUNTER))
    return 0
