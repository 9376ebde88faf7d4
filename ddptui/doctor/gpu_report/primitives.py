"""Whether primitives on GPUs were right and could be timed, and are no faster than what connects the GPUs. Pure."""

from ddptui.analysis.primitives.link_peak import link_peak_gb_s, part_of_peak
from ddptui.analysis.results import Results
from ddptui.config.engine import LOCAL
from ddptui.doctor.gpu_report.check import Observed
from ddptui.text.units import percent, size
from ddptui.text.words import count, listed


def primitives_right(results: Results) -> Observed:
    """Whether each operation of each size gave the right values, and has a time."""
    cells = [cell for trial in results.trials for result in trial.primitives for cell in result.cells]
    problems = [
        f"{cell.operation} of {size(cell.bytes)}: {cell.error or f'no time, or wrong in {cell.wrong} elements'}"
        for cell in cells
        if cell.error or cell.wrong or not cell.time_us or not cell.time_us.median > 0
    ]
    operations = list(dict.fromkeys(cell.operation for cell in cells))
    if not cells:
        return Observed(False, "nothing was measured")
    right = f"{count(len(cells), 'size')} of {count(len(operations), 'operation')} right and timed"
    return Observed(not problems, f"wrong: {listed(problems)}" if problems else right)


def within_link_peak(results: Results) -> Observed:
    """Whether the largest busbw is a part of what connects the GPUs. As expected where that is not known: in virtual
    machines and of parts of a GPU, NVML does not say."""
    parts = {
        part: cell.operation
        for trial in results.trials
        for result in trial.primitives
        for cell in result.cells
        if (part := part_of_peak(cell, link_peak_gb_s(results.environment, LOCAL, result))) is not None
    }
    if not parts:
        return Observed(True, "busbw not compared: how much the GPUs can send to each other is not known")
    most = max(parts)
    return Observed(most <= 1, f"busbw up to {percent(most)} of what the GPUs can send, of {parts[most]}")
