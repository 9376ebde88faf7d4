"""What to try, given what a trial's time was lost to."""

from ddptui.analysis.results import Verdict
from ddptui.config.launch_modes import COMMAND
from ddptui.config.strategies import STRATEGIES
from ddptui.config.trial import Trial

MUCH = 0.25  # of the time: where ranks stand idle for less, there is little to gain
OF_PART = {  # of own work, in which a rank is late
    "data": "Look at how it loads data: its disk, and `num_workers`",
    "forward": "Look at its device: is it slower, hotter or shared, and is its batch larger?",
    "backward": "Look at its device: is it slower, hotter or shared, and is its batch larger?",
    "aggregate": "Look at what it does before it calls the collective",
    "optimizer": "Look at what only this rank does around its optimizer step",
    "between steps": "Look at what its loop does between steps: logging, evaluation, checkpoints",
}
EVERYWHERE = "Give it a core or a device like the others': it is slower in every phase"
OWN_CORE = "To try: end these programs, or give each rank cores of its own (taskset)"
CALLS = "To try: fewer calls, as one buffer (flat) or buckets (ddp) make"
BYTES = "To try: a larger batch, fewer bytes (ddp_bf16), or averaging less often (`every`)"
OF_COMMAND = "To try: a larger batch, gradients in fewer bytes (DDP's bf16_compress_hook), or fewer averages (no_sync)"
TURNS = "Ranks are late by turns. To try: a core for each rank, or larger batches"


def of_idling(verdict: Verdict, idle: float, trial: Trial) -> str:
    """What would make ranks stand idle less, where no rank is to blame; empty if it is not much. idle: part of the
    time."""
    if idle < MUCH:
        return ""
    if verdict == "skew":
        return TURNS
    if trial.launch == COMMAND:
        return OF_COMMAND
    sends = STRATEGIES[trial.strategy or "none"].sends
    return CALLS if sends and sends.how in ("each", "pairs") else BYTES
