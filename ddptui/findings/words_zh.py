"""The commonest findings in Chinese. ddptui/findings/words.py chooses them, and has the others in English. Pure.

A template has the same {names} and units as the English one of its kind; findings/phrases.py says how it is filled.
"""

import re
from collections.abc import Mapping, Sequence

from ddptui.analysis.finding import Kind
from ddptui.findings.phrases import Language


def listed(names: Sequence[str], most: int) -> str:
    """As in: a、b 和 c; with many names: a、b、c、d、e、f 等 9 项."""
    if len(names) > most:
        return f"{'、'.join(names[:most])} 等 {len(names)} 项"
    return " 和 ".join(filter(None, ["、".join(names[:-1]), *names[-1:]]))


def translated(text: str) -> str:
    """A doubt, or a place in words, in Chinese."""
    for english, chinese in DOUBTS.items():
        text = re.sub(english, chinese, text)
    return text


PART_NAMES = {
    "work": "自身的计算",
    "delay": "注入的延迟",
    "culprit_wait": "等待迟到的 rank",
    "other_wait": "等待",
    "transfer": "传输",
    "hidden": "等待或传输",
    "unexplained": "未知原因",
}
PHRASES = {
    "where": "[within?在 {within} 中[between?、在 step 之间]|between?在 step 之间|在多个阶段中]",
    "steps": "第 {step_list} 步[are_more?等 {all_steps} 步]",
    "more": "",
    # 其中 19.8 ms 在 augment, train.py:28，由 collate, train.py:37 调用
    "on_line": "[is_first?其中 ]{time} 在 {place}[，由 {by} 调用]",
    "on_no_line": "其余 {time} 没有代码行可以解释",
    "workers_do": (
        "[workers?[is_own?它|各 rank ]的 DataLoader worker [on_disk?在等磁盘"
        "|are_idle?几乎不计算：在休眠，或在等文件、锁或网络|are_busy?一直在忙|有 {workers_busy_share} 的时间在忙]]"
    ),
    "caused": (
        "[{lines}。]等迟到 rank 的时间中，{of_waiting_share} 由 rank {rank} 造成[：其他 rank 有 {share} 的时间在等它]"
        "[。{workers_do}]"
        "[would_differ?。没有它的延迟：约 {without_s:.2f} s，而不是 {train_s:.2f} s]"
        "[。它用的 CPU 时间是其他 rank 的 {cpu_times:.1f} 倍：它的工作更多，[is_everywhere?或者核更慢|并不缺核]"
        "|。其间它有 {blocked_share} 的时间不在计算：在休眠，或在等文件、锁或别的进程]"
    ),
    "idle": (
        "各 rank 有 "
        "[mostly_waits?{wait_share} 的时间在等迟到的 rank[transfers?，{transfer_share} 的时间{for_transfers}]"
        "|{transfer_share} 的时间{for_transfers}[waits?，{wait_share} 的时间在等迟到的 rank]]"
    ),
    "for_transfers": "[place?用来交出输出|耗在传输上]",
    "on_rank": "rank {number} 上 {times} 次",
    "times_as_long": (
        "[has_spread?用时是 {place} 的 {ratio_times} ± {off_times} 倍|is_rough?用时大约是 {place} 的 {span} 倍"
        "|is_span?用时大约是 {place} 的 {span} 倍|用时约为 {place} 的 {ratio_times} 倍]"
    ),
    "took": (
        "[several?其他试验的用时大约是 {place} 的 {low_times}（{first}）到 {high_times}（{last}）倍"
        "|{first} 的{times_as_long}]"
    ),
    "reason": (
        "[注入了 {slept_s}，训练时间增加了 {longer_s}"
        "|of_part?[grew?多出|省下]的 {difference} 中有 {of_part} 来自[for_culprit?等待 rank {rank}（{phase}）|{part}]]"
    ),
    "speedup": (
        "{ranks} 个 rank 每秒训练的样本数是 {base_ranks} 个 rank 的 {speedup_times} 倍（理想：{ideal_times:.3g} 倍）"
    ),
}
FOUND: Mapping[Kind, str] = {
    # A window of steps
    Kind.LATE_RANK: (
        "rank {rank} 拖慢了所有 rank：每步 {late_ms}[（95%：{interval}）]，[在每个阶段（× {slower}）|{where}]"
        "[，在第 {step} 到 {last_step} 步][（{line}）]"
    ),
    Kind.NO_CORE: "rank {rank} 拖慢了所有 rank，因为别的程序占用了它的核",
    Kind.UNCERTAIN: "其他 rank 有 {share} 的时间在等 rank {rank}；原因不确定：{doubt}",
    Kind.DATA: "数据加载是所有 rank 的瓶颈：占 {share} 的时间，每步 {step_ms}",
    Kind.BETWEEN_STEPS: "所有 rank 都有 {share} 的时间花在 step 之间",
    Kind.RARE_WAITS: "在{steps}，[rank {waiting_rank}|其他 rank] 等 rank {rank} 等了 {waited_s}（{where}[：{line}]）",
    Kind.BURSTS: "rank {rank} 每 {every_steps} 步迟到一次，每次 {pause_ms}，{where}[：{line}]（{times} 次）",
    Kind.BY_TURNS: "各 rank 轮流迟到：{times} 次停顿，每次 {pause_ms}，{where}，[每个 rank {on_each} 次|{on_ranks}]",
    Kind.TREND: (
        "[rank {rank} 从第 {step} 步起迟到：每步 {to_ms}，之前 {before}|"
        "rank {rank} 在运行中越来越迟：每步从 {before} 到 {to_ms}]"
    ),
    Kind.NETWORK: "[place?|is_much?主要是网络：]{idle}",
    Kind.WAITING: "[is_much?主要是等待：]{idle}",
    # The checks of a watched training
    Kind.NOT_AVERAGED: (
        "{ranks} 个 rank 没有平均梯度：[no_group?没有进程加入进程组"
        "|{made} 步都没有调用[bypassed?集合通信或 DDP 的 forward|可以平均梯度的集合通信]]。每个 rank 各练各的"
    ),
    Kind.STARTED_APART: "各 rank 开始时的参数不同，训练的是不同的模型：{place}",
    Kind.SOME_AVERAGED: "有些梯度没有被平均：{place}。各 rank 训练的是不同的模型",
    Kind.NO_DIVISION: (
        "梯度是各 rank 平均值的 {factor:.3g} 倍：是总和，没有除以 rank 数"
        "[is_sure?|；如果 loss 已除以 rank 数，这就是对的]"
    ),
    Kind.SAME_BATCHES: "rank {place} 在用相同的 batch 训练（比较了 {batches} 个，全部相同）",
    Kind.NOT_FINITE: (
        "loss 在第 {step} 步变成 NaN 或无穷大，[先是在 rank {rank} 上|在所有 rank 上][；其他 rank 从第 {later} 步起]"
    ),
    Kind.NOTHING: "没有值得担心的：通信占 {share} 的时间",
    # A trial
    Kind.INJECTED: (
        "我们在 rank {rank} 上注入了 {injected_s}，[at_start?在第一步之前|{where}]"
        "[；ddptui 测得 {measured_s}（95%：{span}），{doubt}|；ddptui 测得 {measured_s}（95%：{span}）|"
        "；ddptui 在那里测得 {at_start_s}（不计入训练时间）|；没有归因：{doubt}]"
    ),
    Kind.SLOW_STEPS: "{of} 个测量的步中有 {times} 步超过中位数的两倍（最慢：第 {step} 步，{worst_ms}）",
    # A run
    **dict.fromkeys((Kind.SLOWER, Kind.FASTER, Kind.ROUGHLY), "{took}"),
    Kind.ALIKE: "从 {repeats} 次重复看，{names} 与 {place} 用时相同",
    Kind.UNCLEAR: "无法判断 {names}[several?| 与 {place} 是否不同]：{doubt}",
    Kind.FASTEST: "{names} 最快[several?，彼此太接近，分不出先后：{first} 的|：]{times_as_long}",
    Kind.SLOWEST: "{names} 最慢[several?，彼此太接近，分不出先后：{first} 的|：]{times_as_long}",
    Kind.SAME_LOSS: "[place?所有|{of_trials} 个]试验的 loss [is_span?几乎]相同：{span}",
    Kind.OTHER_LOSS: "loss 不同：从 {low_loss}（{first}）到 {high_loss}（{last}）",
    Kind.TRAINED: "{ranks} 个 rank 训练了 {train_s}，共 {made} 步",
    Kind.FOUND_FROM: (
        "[延迟从每步 {from_ms} 起，rank {rank} 被认定为原因，{missed_ms} 时则没有|延迟从每步 {from_ms} 起，"
        "rank {rank} 被认定为原因|无论哪种延迟，rank {rank} 都没有被认定为原因]"
    ),
    Kind.DELAY_FOUND: (
        "其他 rank 在等被延迟的 rank {rank}：ddptui 测得每步延迟 {span}"
        "[of_one?|（[in_all?全部|{trials} 个，共] {of_trials} 个试验）]"
    ),
    Kind.DELAY_MISSED: "在 {names} 中没有发现 rank {rank} 的延迟",
    Kind.CHAIN: "在 {names} 中，rank {rank} 等 rank {for_rank}，rank {for_rank} 等 rank {then_rank}",
    Kind.MISTAKES: "检查发现了 {mistakes} 个错误中的 {found} 个[；{names} 通过了所有检查]",
    Kind.CHECK_FAILS: "检查“{place}”在 {names} 中没有通过",
    Kind.OWN_RIGHT: "{place} 正确：所有 rank 结束时的数据逐位相同，平均的结果就是各 rank 的平均值（误差 {error:.1g}）",
    Kind.OWN_BYTES: (
        "每次平均，{names} 的一个 rank 把 {handed_bytes} 交给 {calls:.0f} 次集合通信；要在 {ranks:.0f} 个 rank 之间"
        "平均 {averaged_bytes}，每个 rank 至少要发送 {least_bytes}"
    ),
    Kind.FAULTS_NAMED: "{faults} 个故障中有 {found} 个使试验终止，并在原因中指出了[ rank {rank}|出故障的 rank]",
    Kind.SPLIT: "{names} 把每个 {samples} 个样本的 batch 切成 {place}",
    Kind.OVERLAP: "{names} 的通信[有 {share} 与 backward 重叠|完全没有重叠]",
    Kind.START: "到第一步为止用了 {low_s}（{first}）到 {high_s}（{last}）",
    Kind.SPEEDUP: "全局 batch 相同时，{speedup}",
    Kind.WEAK_SPEEDUP: "每个 rank 的 batch 相同时，{speedup}",
    Kind.SHOWN: (
        "{primitives} 个原语在 {ranks} 个 rank 上用 {place} 运行；每个 rank 的缓冲区之前和之后的内容见下"
        "[；{place} 拒绝了 {refused} 次调用]"
    ),
    Kind.CALLS: "在 {ranks} 个 rank 上，{bytes} 的一次调用用时 {span}（{place}）",
    Kind.FASTEST_WAY: "在 {ranks} 个 rank 上，最快的平均方式是 {place}（{span}）",
    Kind.PUBLISHED_HOLDS: "重现了发表的顺序：{order}",
    Kind.PUBLISHED_SWAPPED: "与发表的顺序（{order}）相比，这次运行对调了：{doubt}",
    Kind.PUBLISHED_UNCLEAR: "对发表的顺序（{order}），这次运行既不能证实也不能否定 {pairs} 对中的 {unclear_pairs} 对",
    Kind.DIVERGED: "{names} 的 loss 不是有限的数：训练发散了",
    Kind.FAILED: "[{place}|试验 {names} 失败：见下]",
    Kind.INTERRUPTED: "运行被中断：{of_trials} 个试验中 {done} 个有数据",
    Kind.TOO_FEW_STEPS: "不要依赖这些时间：[{names} 的 ]{few} 步太少；请增大 `epochs` 或 `steps`",
}
EVIDENCE: Mapping[Kind, str] = {
    Kind.LATE_RANK: "{caused}",
    Kind.INJECTED: "[of_waiting_share?{caused}]",
    Kind.NO_CORE: "它每步排队等核的时间比其他 rank 长 {queued_ms}",
    Kind.DATA: (
        "[{lines}。][{workers_do}。]取 batch 占每个 rank {span} 的时间；其余是在等其他 rank 取 batch"
        "[。每 {every_steps} 个 batch 有一个慢：到了极限的 {every_steps} 个 worker 就是这样]"
    ),
    Kind.BETWEEN_STEPS: "即每步 {step_ms}[。{lines}]",
    Kind.RARE_WAITS: "占 {share} 的时间，这样的一步多用 {pause_ms}",
    Kind.BURSTS: "其他 rank 等了它 {waited_s}，占 {share} 的时间",
    Kind.BY_TURNS: "其他 rank 为此等了 {waited_s}，占 {share} 的时间",
    **dict.fromkeys((Kind.SLOWER, Kind.FASTER, Kind.FASTEST, Kind.SLOWEST), "{reason}"),
}
DOUBTS = {  # and places in words
    r"(\d+) steps? (?:is|are) (?:too )?few": r"只有 \1 步",
    "its own work did not take much longer than that of the others": "它自己的工作并不比其他 rank 长多少",
    "replicas take turns with Python's lock": "各副本轮流持有 Python 的锁",
    "its lateness comes and goes, and may be chance": "它时而迟到，可能是偶然",
    "it was late by less than the clock error": "它迟到的时间小于时钟误差",
    r"one repeat shows no difference below (\d+%)": r"一次重复看不出小于 \1 的差别",
    r"(\d+) repeats? of (.+) differ by (\d+%)": r"\2 的 \1 次重复相差 \3",
    "one repeat shows no difference between runs; increase `--repeats`": (
        "一次重复看不出两次运行之间的差别；请增大 `--repeats`"
    ),
    "too small or too uncertain": "太小或太不确定",
    "all ranks slept as long, by turns": "所有 rank 轮流休眠了同样久",
    "all ranks slept as long, at once, so none waits for another": "所有 rank 同时休眠了同样久，所以谁也不等谁",
    r"ranks (.+) slept as long": r"rank \1 休眠了同样久",
    r"fastest: (.+), slowest: (.+)": r"最快：\1，最慢：\2",
    r"(\d) and (\d)": r"\1 和 \2",
    r"(\S+) before (\S+)": r"\1 先于 \2",
    r"more than the others, although ranks? (.+) slept, too": r"比其他 rank 多，尽管 rank \1 也休眠了",
}
REMEDIES = {  # of a finding's action, which the rules choose
    "Look at how it loads data: its disk, and `num_workers`": "看看它如何加载数据：磁盘和 `num_workers`",
    "Check whether the rank has a slower, hotter or shared device, or a larger batch": (
        "检查这个 rank 的设备是否更慢、更热或与别人共用，或者 batch 是否更大"
    ),
    "Look at what it does before it calls the collective": "看看它在调用集合通信之前做了什么",
    "Look at what its loop does between steps: logging, evaluation, checkpoints": (
        "看看它的循环在 step 之间做了什么：日志、评估、检查点"
    ),
    "End those programs, or give each rank cores of its own (taskset)": "结束那些程序，或给每个 rank 自己的核",
    "Try more workers in the DataLoader (`num_workers`), or less work per sample": (
        "试试给 DataLoader 更多 worker（`num_workers`），或减少每个样本的处理"
    ),
    "Try a strategy with fewer collectives: flat (one buffer) or ddp (buckets)": (
        "试试集合通信更少的策略：flat（一个缓冲区）或 ddp（分桶）"
    ),
    "Try a larger batch, fewer bytes (ddp_bf16), or averaging less often (`--set every=4`)": (
        "试试更大的 batch、更少的字节（ddp_bf16），或更少地平均（`--set every=4`）"
    ),
}
CHINESE = Language(FOUND, EVIDENCE, PHRASES, PART_NAMES, " 到 ", "；", listed, translated)
