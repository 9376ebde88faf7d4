"""The thresholds of findings and cautions, with reasons; and the cautions: why a figure may mislead, and what to do
about it. Pure.

Times of the host and of the device: on the CPU both are the same: a call returns when its work is done. On a GPU with
CUDA events, times are the device's, which continues while the host has no core or stands still. On any other device,
times are the host's: when Python got there, which tells neither how long the device worked nor which rank's device
was late.

Shares are parts of the time that a window covers, means over ranks.

To add a caution, add a member to Caution: its key in results.json, the advice for the user, and its rule. If the rule
needs a new fact, add a field to Facts.
"""

import enum
from collections.abc import Callable
from typing import NamedTuple

from ddptui.text.words import MS

HOST_TIME = "*"  # marks phases in tables


def is_timed_by_device(device: str) -> bool:
    """Whether times of a rank on this device are measured on the device. device: as in Hello."""
    return device.startswith("cuda")


def is_host_time(device: str) -> bool:
    """Whether times of a rank on this device are host times, while the device may lag behind. device: as in Hello;
    empty: unknown."""
    return bool(device) and not device.startswith(("cpu", "cuda"))


# Minimum shares of the time.
MATTERS = 0.10  # idle time: with less there is little to gain. TraceML warns from a tenth on, too
LARGE = 0.25  # data, or work between steps: every training has some; above a quarter it is worth a first look
MUCH = 0.25  # idle time: from here on, the finding is a warning with advice
FEW_STEPS_SHARE = 0.02  # a few slow steps together: an evaluation of 0.25 s every 50 steps of 100 ms takes 4 %
REST_SHARE = 0.05  # long steps on all ranks, and savings by balancing: 5 % is the noise of a shared machine

FEWEST_STEPS = 20  # with fewer steps, medians are unreliable; TraceML reports no critical straggler before this many

# Late ranks (findings/verdict.py). A rank is named only if chance alone, with all ranks alike, would give one rank as
# much of the waiting at most this often.
CHANCE = 0.01
BLOCKS_OF_WAITS = 12  # blocks of neighboring steps; of two ranks, chance then names one in 1 of 2,048 cases
FEWEST_BLOCKS = 5
SHUFFLES, MOST_SHUFFLED = 999, 400_000  # shuffles of the waits; fewer if many ranks would take too long
# Minimum excess of a rank that is late in one phase, as a share of the time. In quiet windows of 2 to 4 ranks on two
# cores, phases differed by less in 99 of 100 windows (benchmarks/attribution.py).
LATE_IN_ONE_PHASE = 0.03
# Minimum excess of a rank that is slower in all phases. Cores of one machine differ by up to an eighth.
LATE_IN_ALL_PHASES = 0.20
# If it is uncertain that a rank is late: the share of all waiting that it must cause to be mentioned.
MOST_OF_WAITING = 0.6
# Replicas of `dp` are threads of one process and take turns with Python's lock, so which one is last is chance. With a
# model that computes for microseconds, they arrived 0.2 ms apart in each step.
LOCK_NS = 500_000
# Minimum part of a rank's total loss that a part of its work must have, beyond uncertainty, to be reported.
PART_OF_LOSS = 0.1
# If the other ranks fetch data for this share of the time as well, all loaders meet the same limit.
SAME_LIMIT = 0.25
# A rank is slower in all parts if each large part (a share of its work) takes longer by this part of the total factor.
IN_ALL_PARTS, A_LARGE_PART = 0.5, 0.03
# Usual differences between the same phases of two ranks, as parts of their length: they have other caches, other cores
# and other neighbors. The difference is larger if only one rank's transfers run beside its work. A loss is steady if it
# is at least STEADILY in nearly every block of steps.
SYSTEMATIC, SYSTEMATIC_BESIDE_TRANSFERS, STEADILY = 0.12, 0.30, 0.08
COLD_NS, COLD = 100_000, 0.003  # cost of cold caches after a delay: per step, and as a part of the delay
# A rank lacks a core if its share of queueing (of the time it wanted a core) exceeds the others' by this much, and the
# queueing makes up MATTERS of the time.
QUEUES_MORE = 0.10
FEWEST_UNQUEUED = 8  # steps without extra queueing that are needed to measure a rank's own work
# CPU time as a part of what a rank lost: from the first value on, the rank had more work; if CPU time and queueing
# together are below the second, it was blocked.
MOSTLY_CPU, HARDLY_CPU = 0.5, 0.2

# Data. A loader that is faster than the training has batches ready: fetching takes no time, even on a rank that then
# waits for others. So a rank that waits long for some of its own batches has a loader at its limit, too.
AT_ITS_LIMIT = 0.04  # minimum share of data, on the rank with the smallest
LONG_FETCHES = 3  # long fetches per rank besides the first of an epoch; a single one may be a slow file
FIRST_OF_EPOCH = 0.5  # part of the data time in the first batch of each epoch

# A DataLoader's workers: parts of the time.
BUSY_WORKERS, IDLE_WORKERS, OFTEN_ON_DISK = 0.8, 0.2, 0.3

# Work between steps: a step counts with at most this many times the median, since evaluations are rare and long.
STEADY = 3

# Lines of code, by samples of the thread that trains.
FEWEST_SAMPLES = 3  # on a line, to name it
KEEPS_LOCK_NS = 5 * MS  # Python makes a thread give up its lock after that, and the sampler reads the line that kept it
SURE_OF_LINE = 2.0  # standard deviations of a share of few samples, by which the late rank must exceed the others
WORTH_NAMING = 0.1  # part of the excess
ONE_LINE = 0.7  # part of a function's time: with this much on one line, its neighbors are not named
NEIGHBORS = 3  # lines of a function this near each other are one place
MOST_LINES = 3  # in a finding
SMALLEST_PLACE, MOST_PLACES = 0.01, 40  # in the table of places: part of the ranks' own work; number
UNEXPLAINED = 0.05  # part of the excess that no line explains, from which on that is said

# Pauses: a rank's own work beyond the usual in that part of a step, without the time in the queue for a core.
PAUSE_NS = 20 * MS  # beside two busy processes, lengths without queueing rarely exceeded this
PAUSE_OF_STEP = 0.5  # part of the median step: smaller differences are common between batches
PAUSE_OVER_NOISE = 5  # times the length that nine of ten steps stay below
LONE_PAUSE_NS = 250 * MS  # for a single pause: the scheduler hardly ever causes longer ones
# Pauses in the queue count if the rank causes them: minimum length, minimum number, and largest ratio of lengths.
# Beside two busy processes, an evaluation of 250 ms took 256 to 259 ms, all but 3 ms of it in the queue. Pauses caused
# by the queue alone took 120 to 160 ms, each time in other parts and on other ranks.
QUEUED_NS, FEWEST_QUEUED, SAME = 150 * MS, 3, 1.25
ALIKE = 2.0  # a factor: pauses that differ by more have different causes
ARE_ALIKE = 0.7  # part of the pauses in a part of the step that must be alike: otherwise they are noise
WAITED_FOR = 0.5  # part of the pauses that the other ranks waited for on average: otherwise other work hid them
TURNS = 0.25  # part of the largest sum of pauses: a rank with this much pauses by turns with the others
FEWEST_BURSTS = 5  # fewer pauses are listed by their steps
REGULAR = 0.7  # part of the distances between bursts that must be multiples of one number of steps
NAMED_STEPS = 8  # steps listed in a finding

# Uneven work: the ranks' batches differ, so forward and backward of a rank are long in the same steps. Noise of the
# machine hits one or the other, and lasts for several steps, while batches are new in each step. Beside two busy
# processes, noise alone gave correlations of the logarithms of up to 0.6 with backward 1.7 times as long (see below),
# and of up to 0.4 with 2.7 times. Sequences of 16 to 512 tokens gave 0.6 to 0.75, and 16 to 25 times.
# Pairs (correlation, times): with at least this correlation, backward in the quarter of the steps with the longest
# forward must take this many times as long as in the quarter with the shortest.
TOGETHER = ((0.5, 2.0), (0.8, 1.3))
FOLLOWS = 0.4  # autocorrelation of successive steps: above this, the machine is the cause

# Trends: how much later a rank is than the others, as medians over blocks of steps.
BLOCKS = 8
FEWEST_IN_BLOCK = 7
GROWS = 0.15  # growth from the first block to the last, as a part of the median step
EXPLAINED = 0.9  # part of the blocks' variance that a line or a single jump must explain

# Transfers.
SMALL_BYTES = 16_384  # calls with up to this many bytes cost the same as empty calls: latency only
SMALL_CALLS = 3  # calls per step
MOST_OF_TRANSFER = 0.5  # part of the exposed transfers

# A trial over its repeats, and trials compared.
SLEPT_ALIKE = 0.9  # part of the longest injected delay: ranks with at least this much were delayed alike
NAMED_PART = 0.2  # part of a late rank's loss: phases with less are not named
MOST_OF_DIFFERENCE = 0.5  # a part of this size explains a difference of train times
NEARLY = 0.10  # losses that differ by less are nearly the same
EXACT_AVERAGE = 1e-5  # an average with a smaller error is exact within float32
HIDES = 0.01  # less overlap than this counts as none
WAITS_ALONG_A_CHAIN = 0.5  # part of a rank's waiting that must be for a rank other than the late one

# Checks of a watched training. Gradients count as a multiple of their mean, and batches as the same, if they are so in
# this many readings. Gradients are averaged regularly if they are in this part of the steps.
SAME_READINGS, MOST_STEPS_AVERAGED = 3, 0.9
OVERLAPS = 0.05  # part of the samples of each rank that other ranks read as well; samplers pad by fewer
UNEVEN_SIZES = 1.2  # ratio of the largest batch to the smallest in a step, if ranks are late by turns for it


WIDE = 0.10  # spread of repeats, as a part of the median train time; as large as MATTERS
MOST_OTHER_LOAD = 0.25  # cores
MOST_HELD_BACK = 0.10  # part of the time
SPARE = 1.0  # idle cores: with this many, other programs take no core from the ranks

CLOSE_THEM = "close those programs and run again"


class Facts(NamedTuple):
    """The facts about a repeat or a trial that rules look at. A fact that does not apply keeps its default."""

    steps: int = FEWEST_STEPS  # measured steps of a repeat
    other_load: float = 0.0  # mean number of cores that other programs kept busy during training
    idle: float = 0.0  # mean number of idle cores during training
    clocks_known: bool = True  # the clocks of all hosts could be compared with the console's
    waits_hidden: bool = False  # the clock error exceeds the measured waits
    spread: float = 0.0  # range of the repeats' train times, as a part of their median
    threads_a_core: float = 0.0  # threads of all ranks on this host, per core
    host_time: bool = False  # phases are host times, and a device may lag behind
    held_back: float = 0.0  # part of the time in which heat or power limits slowed a GPU; the largest of all ranks


class Caution(enum.Enum):
    """Why a figure may mislead. The value is the key in results.json."""

    advice: str
    applies: Callable[[Facts], bool]

    def __new__(cls, key: str, advice: str, applies: Callable[[Facts], bool]) -> "Caution":
        """Creates a member whose value is its key."""
        caution = object.__new__(cls)
        caution._value_, caution.advice, caution.applies = key, advice, applies
        return caution

    TOO_FEW_STEPS = (
        "too_few_steps",
        f"fewer than {FEWEST_STEPS} measured steps are too few for a verdict: raise `epochs` or `steps`",
        lambda evidence: evidence.steps < FEWEST_STEPS,
    )
    WIDE_SPREAD = (
        "wide_spread",
        f"repeats differ by more than {WIDE:.0%}: too noisy for small differences; increase `--repeats`",
        lambda evidence: evidence.spread > WIDE,
    )
    OVERSUBSCRIBED = (
        "oversubscribed",
        "more threads than cores: ranks compete for cores, so a rank may be late only because it had no core; use "
        "fewer ranks",
        lambda evidence: evidence.threads_a_core > 1,
    )
    OTHER_LOAD = (
        "other_load",
        f"other programs kept more than {MOST_OTHER_LOAD:g} of a core busy during training: {CLOSE_THEM}",
        lambda evidence: evidence.other_load > MOST_OTHER_LOAD and evidence.idle < SPARE,
    )
    HELD_BACK = (
        "held_back",
        f"heat or the power limit held back a GPU's clock for more than {MOST_HELD_BACK:.0%} of the time, so its "
        "steps may take longer than they could: check its cooling (`nvidia-smi -q -d PERFORMANCE`)",
        lambda evidence: evidence.held_back > MOST_HELD_BACK,
    )
    HOST_TIME = (
        "host_time",
        f"phases and steps ({HOST_TIME}) are host times, taken when Python got there; the device may lag behind, so "
        "waits are hidden. train s and samples/s are right. For device times, use torch.profiler",
        lambda evidence: evidence.host_time,
    )
    CLOCKS_APART = (
        "clocks_apart",
        "the clock error exceeds the measured waits, so waits and transfers are hidden: try a larger batch or model; "
        "if the ranks are on other hosts, start the console on one of these",
        lambda evidence: evidence.clocks_known and evidence.waits_hidden and not evidence.host_time,
    )
    CLOCKS_UNKNOWN = (
        "clocks_unknown",
        "the clock of a host could not be compared with the console's, so waits and transfers are hidden: no rank "
        "there answered a probe; run for at least a few seconds, and see the ranks' logs",
        lambda evidence: not evidence.clocks_known,
    )


def cautions_for(evidence: Facts) -> list[Caution]:
    """The cautions whose rule applies, in the order of the registry."""
    return [caution for caution in Caution if caution.applies(evidence)]
