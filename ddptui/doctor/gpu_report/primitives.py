"""Whether primitives on GPUs were right and could be timed. Pure."""

from ddptui.analysis.results import Results
from ddptui.doctor.gpu_report.check import Observed
from ddptui.text.units import size
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
