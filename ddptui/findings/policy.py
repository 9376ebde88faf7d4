"""Every threshold of the rules, and why it is what it is. Shares are parts of the time that a window covers."""

# Who is late (late.py). The name of a rank is a claim that its waits may reject: how often chance alone would give one
# rank so much of the waiting, were all ranks alike.
CHANCE = 0.01
BLOCKS = 12  # of neighboring steps, which are alike: a claim of two ranks by chance is then as rare as 1 in 2,048
FEWEST_BLOCKS = 5
SHUFFLES, MOST_SHUFFLED = 999, 400_000  # of the waits; fewer where many ranks would take too long
MATTERS = 0.10  # TraceML, too, warns of a straggler from a tenth of the time on
# A rank that takes longer in one phase, by so much of the time. In quiet windows of 2 to 4 ranks on two cores, phases
# differed by less, but for 1 window in 100 (benchmarks/attribution.py).
NAMED = 0.03
# A rank that takes longer in all phases alike. Cores of one machine differ by up to an eighth, minute by minute.
SLOWER = 0.20
# Of all the waiting that ranks cause, where it is not certain that one rank is late: worth a word from here on.
MOST_OF_WAITING, WORTH_A_WORD = 0.6, 0.05
# Replicas of `dp` are threads of one process, and take turns with Python's lock: which comes last is chance. With a
# model of microseconds they came 0.2 ms a step apart.
LOCK_NS = 500_000
# A part of its work in which a rank lost so much of all that it lost, and surely something, is among those named.
PART_OF_LOSS = 0.2
# Ranks whose loaders are too slow share one limit: the others, too, fetch data for so much of the time.
SAME_LIMIT = 0.25
# In all phases alike: every large one took longer by at least this part of the factor by which all took longer.
ALIKE, A_LARGE_PART = 0.5, 0.1
# By so much of their length, phases of two ranks differ for no reason: their caches, their cores, what runs beside
# them. Where transfers of one rank run beside its work and those of the others do not, by more. It is steady if, block
# by block, it took longer by STEADY at least.
SYSTEMATIC, SYSTEMATIC_BESIDE_TRANSFERS, STEADY = 0.12, 0.30, 0.08
COLD_NS, COLD = 50_000, 0.003  # a step, and of a delay: after it, caches are cold
# Without a core: its queueing, as a part of all the time that it wanted a core, exceeds that of the others by so much,
# and makes up MATTERS of the time.
QUEUES_MORE = 0.10
