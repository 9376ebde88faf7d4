"""Every threshold of the rules, and why it is what it is. Shares are parts of the time that the window covers, means
over ranks.
"""

from ddptui.text.units import MS

# How much of the time a thing must take.
MATTERS = 0.10  # idle: below it, there is little to gain. TraceML warns from a tenth on
LARGE = 0.25  # data, and work between steps: each training has some; from a quarter on it pays to look at it first
MUCH = 0.25  # idle: from here on, a finding is a warning, and what to try is said
FEW_STEPS_SHARE = 0.02  # for a few steps together: evaluation of 0.25 s every 50 steps of 100 ms takes 4 %
REST_SHARE = 0.05  # for long steps on all ranks, and what balancing would save: 5 % are noise of a shared machine

FEWEST_STEPS = 20  # below it, medians are of too few; TraceML calls no straggler critical before this many steps

# Who is late (late.py). The name of a rank is a claim that its waits may reject: how often chance alone would give one
# rank so much of the waiting, were all ranks alike.
CHANCE = 0.01
BLOCKS_OF_WAITS = (
    12  # of neighboring steps, which are alike: a claim of two ranks by chance is then as rare as 1 in 2,048
)
FEWEST_BLOCKS = 5
SHUFFLES, MOST_SHUFFLED = 999, 400_000  # of the waits; fewer where many ranks would take too long
# A rank that takes longer in one phase, by so much of the time. In quiet windows of 2 to 4 ranks on two cores, phases
# differed by less, but for 1 window in 100 (benchmarks/attribution.py).
NAMED = 0.03
# A rank that takes longer in all phases alike. Cores of one machine differ by up to an eighth, minute by minute.
SLOWER = 0.20
# Of all the waiting that ranks cause, where it is not certain that one rank is late: worth a word from here on.
MOST_OF_WAITING = 0.6
# Replicas of `dp` are threads of one process, and take turns with Python's lock: which comes last is chance. With a
# model of microseconds they came 0.2 ms a step apart.
LOCK_NS = 500_000
# A part of its work in which a rank lost so much of all that it lost, and surely something, is among those named.
PART_OF_LOSS = 0.1
# Ranks whose loaders are too slow share one limit: the others, too, fetch data for so much of the time.
SAME_LIMIT = 0.25
# In all phases alike: every large one took longer by at least this part of the factor by which all took longer.
IN_ALL_PARTS, A_LARGE_PART = 0.5, 0.03
# By so much of their length, phases of two ranks differ for no reason: their caches, their cores, what runs beside
# them. Where transfers of one rank run beside its work and those of the others do not, by more. It is steady if, block
# by block, it took longer by STEADILY at least.
SYSTEMATIC, SYSTEMATIC_BESIDE_TRANSFERS, STEADILY = 0.12, 0.30, 0.08
COLD_NS, COLD = 100_000, 0.003  # a step, and of a delay: after it, caches are cold
# Without a core: its queueing, as a part of all the time that it wanted a core, exceeds that of the others by so much,
# and makes up MATTERS of the time.
QUEUES_MORE = 0.10
FEWEST_UNQUEUED = 8  # steps in which a rank queued no longer than the others, which show its own work
# Of what a rank lost, the part that was CPU time of its thread: from the first on, its own work took longer; up to the
# second, with the queue, it did something else.
MOSTLY_CPU, HARDLY_CPU = 0.5, 0.2

# Data. A loader that is faster than the training has batches ready: fetching one takes no time, even on a rank that
# then waits for others. So a rank that waited long for some of its own batches has a loader at its limit, too.
AT_ITS_LIMIT = 0.04  # share of data on the rank that has the least of it
LONG_FETCHES = 3  # beyond the first batch of an epoch, on each rank; a single one may be a slow file
FIRST_OF_EPOCH = 0.5  # of the data time, in the first batch of each epoch

# Between steps: of one step no more than so many times the median counts, since evaluations are long steps.
STEADY = 3

# Pauses: own work beyond what the rank usually takes in that part of a step, without the time it queued for a core.
PAUSE_NS = 20 * MS  # beside two busy processes, what was left after the queue was taken off rarely exceeded it
PAUSE_OF_STEP = 0.5  # of the median step: less is within what batches differ by
PAUSE_OVER_NOISE = 5  # times what nine of ten steps stay below
LONE_PAUSE_NS = 250 * MS  # a single one: hardly any pause of the scheduler was seen to be longer
# Of pauses in the queue that count, since the rank makes them: their length, how many, and by what factor they differ.
# Beside two busy processes an evaluation of 250 ms took 256 to 259 ms, all but 3 ms of it in the queue. Pauses that the
# queue alone made were of 120 to 160 ms, in other parts and on other ranks each time.
QUEUED_NS, FEWEST_QUEUED, SAME = 150 * MS, 3, 1.25
ALIKE = 2.0  # a factor: pauses that differ by more have not the same cause
ARE_ALIKE = 0.7  # of all pauses in that part of the step: below it they are noise
WAITED_FOR = 0.5  # of the pauses, on average over the other ranks: else they were hidden behind other work
TURNS = 0.25  # of the longest sum on one rank: a rank with so much pauses as well
FEWEST_BURSTS = 5  # fewer are listed by their steps
REGULAR = 0.7  # of the distances between bursts that are a multiple of the same number of steps
NAMED_STEPS = 8  # of a finding

# Uneven work: the ranks' batches differ. Forward and backward of a rank take long in the same steps; noise of a machine
# hits either. It lasts for several steps, too, where batches are drawn anew in each. Beside two busy processes, noise
# alone made a correlation of the logarithms of up to 0.6 where backward hardly followed forward (1.7 times, see below),
# and of up to 0.4 where it seemed to (2.7 times). Lengths of 16 to 512 made 0.6 to 0.75, and 16 to 25 times.
# Pairs: from such a correlation on, backward must take so many times as long in the quarter of the steps with the
# longest forward as in that with the shortest.
TOGETHER = ((0.5, 2.0), (0.8, 1.3))
FOLLOWS = 0.4  # correlation of a step with the one before: above, it is the machine

# Trends: by how much a rank is later than the others, as medians of so many blocks of steps.
BLOCKS = 8
FEWEST_IN_BLOCK = 7
GROWS = 0.15  # of the median step, from the first block to the last
EXPLAINED = 0.9  # of the variance of the blocks, by a line or by one jump

# Transfers.
SMALL_BYTES = 16_384  # a call of so few takes as long as one of none: what it costs is the call
SMALL_CALLS = 3  # a step
MOST_OF_TRANSFER = 0.5  # of the exposed transfers

# A trial over its repeats, and trials beside each other.
SLEPT_ALIKE = 0.9  # of the longest injected delay: ranks that slept at least so long slept as long
NAMED_PART = 0.2  # of a late rank's loss: phases with less of it are not named
MOST_OF_DIFFERENCE = 0.5  # of a difference of train times: such a part is its reason
NEARLY = 0.10  # losses that differ by less are nearly the same
EXACT_AVERAGE = 1e-5  # an average that misses the mean by less is exact, as float32 goes
HIDES = 0.01  # less overlap than this is none
WAITS_ALONG_A_CHAIN = 0.5  # of a rank's waiting is for a rank that is not the late one
