"""The commonest findings in Chinese. ddptui/findings/words.py chooses them, and has the others in English. Pure.

A template has the same {names} and units as the English one of its kind. Of [one|another|a third], the first is shown
whose names all have a value; none if there is none. A number of 0 counts as no value, except the number of a rank.
"""

import re
from collections.abc import Callable, Mapping, Sequence

from ddptui.analysis.finding import Finding, Kind
from ddptui.analysis.policy import BUSY_WORKERS, IDLE_WORKERS, MUCH, OFTEN_ON_DISK, UNEXPLAINED
from ddptui.findings.phrases import Number, figures, named_parts
from ddptui.text.words import MS, S, in_one_unit, seconds
from ddptui.wire.phases import BETWEEN

Template = str | Callable[[Finding], str]
CHOICE, NAME = re.compile(r"\[([^\[\]]*)\]"), re.compile(r"\{(\w+)")
ENDS = {"low": "high", "first": "last"}  # how the names of both ends of a span begin
FACTORS_S = {"s": 1.0, "ms": MS / S}
MOST_NAMED = 6


def filled(template: Template, finding: Finding) -> str:
    """The template with the names and numbers of a finding."""
    text = template if isinstance(template, str) else template(finding)
    values = _values(finding)

    def chosen(choice: re.Match[str]) -> str:
        shown = (each for each in choice[1].split("|") if all(_is_known(name, values) for name in NAME.findall(each)))
        return next(shown, "")

    return CHOICE.sub(chosen, text).format_map(values)


def _is_known(name: str, values: Mapping[str, object]) -> bool:
    return name in values and bool(name.endswith("rank") or values[name])


def _values(finding: Finding) -> dict[str, object]:
    numbers, names = figures(finding), finding.trials or ("",)
    step = finding.steps[0] if finding.steps else None
    place = _translated(finding.place or "") if finding.kind in TRANSLATED_PLACES else finding.place
    told = {"rank": finding.rank, "place": place, "phase": finding.phase, "step": step}
    values: dict[str, object] = {name: value for name, value in told.items() if value is not None}
    values |= {"names": _listed(names), "first": names[0], "last": names[-1], "order": " < ".join(names)}
    values |= {"where": _where([finding.phase]), "steps": _steps(finding)}
    values |= {"doubt": _translated(finding.doubt or ""), "line": finding.lines[0].place if finding.lines else ""}
    values |= {"lines": _lines(finding), "workers_do": _workers(finding), "in_parts": _in_parts(finding)}
    values |= {"late_steps": "在第 {} 到 {} 步".format(*finding.steps) if len(finding.steps) == 2 else ""}
    values |= {"before": seconds(max(0.0, numbers["from_ms"]) * MS / S) if "from_ms" in numbers else ""}
    return values | {"span": _span(numbers), "interval": _interval(numbers)} | numbers


def _listed(names: Sequence[str], of: str = "试验") -> str:
    """As in: a、b 和 c; with many names: a、b、c、d、e、f 等 9 个试验."""
    if len(names) > MOST_NAMED:
        return f"{'、'.join(names[:MOST_NAMED])} 等 {len(names)} 个{of}"
    return " 和 ".join(filter(None, ["、".join(names[:-1]), names[-1]]))


def _translated(text: str) -> str:
    for english, chinese in PHRASES.items():
        text = re.sub(english, chinese, text)
    return text


def _where(parts: Sequence[str | None]) -> str:
    """As in: 在 backward 和 forward 中. Without parts: in several phases."""
    within = [part for part in parts if part and part != BETWEEN]
    told = [f"在 {_listed(within)} 中" if within else "", "在 step 之间" if BETWEEN in parts else ""]
    return "、".join(filter(None, told)) or "在多个阶段中"


def _steps(finding: Finding) -> str:
    """As in: 第 3、7 步等 5 步."""
    of = round(finding.numbers.get("times", 0))
    return f"第 {'、'.join(map(str, finding.steps))} 步" + f"等 {of} 步" * (of > len(finding.steps))


def _span(numbers: Mapping[str, Number]) -> str:
    """The first two numbers that are the ends of a span, times in one unit: 1.20 到 1.25 s. Empty if there are none."""
    for name in numbers:
        begin, _, rest = name.partition("_")
        if begin in ENDS and (last := f"{ENDS[begin]}_{rest}") in numbers:
            if (unit := rest.rpartition("_")[2]) in FACTORS_S:
                return _times(*(max(0.0, numbers[end]) * FACTORS_S[unit] for end in (name, last)))
            return " 到 ".join(dict.fromkeys(f"{numbers[end]}" for end in (name, last)))
    return ""


def _times(low_s: float, high_s: float) -> str:
    ends, unit = in_one_unit(low_s, high_s)
    return f"{' 到 '.join(dict.fromkeys(ends))} {unit}"


# A window of steps, or a trial


def _interval(numbers: Mapping[str, Number]) -> str:
    """Of a late rank in a whole trial: between which times it was late a step."""
    if "of_repeats" not in numbers:
        return ""
    ends = (max(0.0, numbers["late_ms"] + sign * numbers["off_by_ms"]) * MS / S for sign in (-1, 1))
    return _times(*ends)


def _in_parts(finding: Finding) -> str:
    """Of a late rank: in which parts of a step."""
    if "slower" in finding.numbers:
        return f"在每个阶段（× {finding.numbers['slower']:.2f}）"
    return _where(named_parts(finding) or [finding.phase])


def _lines(finding: Finding) -> str:
    """As in: 其中 19.8 ms 在 augment, train.py:28，由 collate, train.py:37 调用."""
    told: list[str] = []
    for each in finding.lines:
        by = f"，由 {each.by} 调用" if each.by and not told and finding.kind is not Kind.INJECTED else ""
        told.append(f"{seconds(each.ms * MS / S)} 在 {each.place}{by}")
    left, whole = finding.numbers.get("unexplained_ms", 0.0), finding.numbers.get("late_ms", 0.0)
    told += [f"其余 {seconds(left * MS / S)} 没有代码行可以解释"] * (left > UNEXPLAINED * whole)
    return "其中 " + "；".join(told) if finding.lines else ""


def _workers(finding: Finding) -> str:
    """What the DataLoader's workers do; empty if there are none."""
    numbers = finding.numbers
    if "workers" not in numbers:
        return ""
    if numbers["workers_disk_share"] >= OFTEN_ON_DISK:
        does = "在等磁盘"
    elif numbers["workers_busy_share"] <= IDLE_WORKERS:
        does = "几乎不计算：在休眠，或在等文件、锁或网络"
    else:
        does = "一直在忙" if numbers["workers_busy_share"] >= BUSY_WORKERS else "有 {workers_busy_share} 的时间在忙"
    of = "它" if finding.rank is not None else "各 rank "
    return f"{of}的 DataLoader worker {does}".format_map(figures(finding))


def _caused(finding: Finding) -> str:
    numbers = finding.numbers
    is_same = f"{numbers.get('without_s', 0.0):.2f}" == f"{numbers.get('train_s', 0.0):.2f}"
    why = "或者核更慢" if "slower" in numbers or len(named_parts(finding)) > 1 else "并不缺核"
    parts = (
        "[{lines}。]等迟到 rank 的时间中，{of_waiting_share} 由 rank {rank} 造成[：其他 rank 有 {share} 的时间在等它]",
        "[。{workers_do}]",
        "" if is_same else "[。没有它的延迟：约 {without_s:.2f} s，而不是 {train_s:.2f} s]",
        f"[。它用的 CPU 时间是其他 rank 的 {{cpu_times:.1f}} 倍：它的工作更多，{why}",
        "|。其间它有 {blocked_share} 的时间不在计算：在休眠，或在等文件、锁或别的进程]",
    )
    return "".join(parts)


def _by_turns(finding: Finding) -> str:
    by_rank = {name.split("_")[1]: times for name, times in finding.numbers.items() if name.startswith("rank_")}
    each = [f"rank {rank} 上 {by_rank[rank]:.0f} 次" for rank in sorted(by_rank, key=int)]
    if len({*by_rank.values()}) == 1:
        each = [f"每个 rank {next(iter(by_rank.values())):.0f} 次"]
    return f"各 rank 轮流迟到：{{times}} 次停顿，每次 {{pause_ms}}，{{where}}，{_listed(each, ' rank')}"


def _idle(finding: Finding) -> str:
    """The larger part first."""
    wait, transfer = finding.numbers["wait_share"], finding.numbers["transfer_share"]
    parts = [(transfer, "用来交出输出" if finding.place else "耗在传输上"), (wait, "在等迟到的 rank")]
    told = "，".join(
        f"{share:.0%} 的时间{what}" for share, what in sorted(parts, reverse=True) if f"{share:.0%}" != "0%"
    )
    mostly = "主要是等待：" if finding.kind is Kind.WAITING else "主要是网络：" * (not finding.place)
    return f"{mostly * (wait + transfer >= MUCH)}各 rank 有 {told}"


# The checks of a watched training

ALONE = {
    "no group": "没有进程加入进程组",
    "bypassed": "{made} 步都没有调用集合通信或 DDP 的 forward",
    "": "{made} 步都没有调用可以平均梯度的集合通信",
}


# A run: its trials beside each other

PART_NAMES = {
    "work": "自身的计算",
    "delay": "注入的延迟",
    "culprit_wait": "等待迟到的 rank",
    "other_wait": "等待",
    "transfer": "传输",
    "hidden": "等待或传输",
    "unexplained": "未知原因",
}


def _took(finding: Finding) -> str:
    """As in: 用时是 a 的 2.10 ± 0.05 倍; of one repeat 用时约为; of disturbed ones 用时大约是 a 的 1.90 到 2.40 倍."""
    numbers = finding.numbers
    if "off_times" in numbers:
        return "用时是 {place} 的 {ratio_times} ± {off_times} 倍"
    is_span = finding.kind is Kind.ROUGHLY or numbers["low_times"] < numbers["high_times"]
    return "用时大约是 {place} 的 {span} 倍" if is_span else "用时约为 {place} 的 {ratio_times} 倍"


def _compared(finding: Finding) -> str:
    if len(finding.trials) > 1:
        return "其他试验的用时大约是 {place} 的 {low_times}（{first}）到 {high_times}（{last}）倍"
    return "{first} 的" + _took(finding)


def _end(finding: Finding) -> str:
    most = "最快" if finding.kind is Kind.FASTEST else "最慢"
    if len(finding.trials) > 1:
        return f"{{names}} {most}，彼此太接近，分不出先后：{{first}} 的{_took(finding)}"
    return f"{{names}} {most}：{_took(finding)}"


def _reason(finding: Finding) -> str:
    """What most of a difference is."""
    numbers = finding.numbers
    if "slept_s" in numbers:
        return "注入了 {slept_s}，训练时间增加了 {longer_s}"
    for part in (part for part in PART_NAMES if f"{part}_s" in numbers):
        s, whole = abs(numbers[f"{part}_s"]), abs(numbers["whole_s"])
        changed, name = "多出" if numbers["whole_s"] > 0 else "省下", PART_NAMES[part]
        if finding.rank is not None and part == "culprit_wait":
            name = "等待 rank {rank}（{phase}）"
        return f"{changed}的 {seconds(whole)} 中有 {seconds(min(s, whole))} 来自{name}"
    return ""


def _delay_found(finding: Finding) -> str:
    found, of = len(finding.trials), round(finding.numbers["of_trials"])
    where = "" if of == 1 else f"（{'全部' if found == of else f'{found} 个，共'} {of} 个试验）"
    return f"其他 rank 在等被延迟的 rank {{rank}}：ddptui 测得每步延迟 {{span}}{where}"


def _speedup(finding: Finding) -> str:
    batch = "全局 batch" if finding.kind is Kind.SPEEDUP else "每个 rank 的 batch"
    samples = "{ranks} 个 rank 每秒训练的样本数是 {base_ranks} 个 rank 的 {speedup_times} 倍"
    return f"{batch} 相同时，{samples}（理想：{{ideal_times:.3g}} 倍）"


FOUND: Mapping[Kind, Template] = {
    # A window of steps
    Kind.LATE_RANK: "rank {rank} 拖慢了所有 rank：每步 {late_ms}[（95%：{interval}）]，{in_parts}[，{late_steps}]",
    Kind.NO_CORE: "rank {rank} 拖慢了所有 rank，因为别的程序占用了它的核",
    Kind.UNCERTAIN: "其他 rank 有 {share} 的时间在等 rank {rank}；原因不确定：{doubt}",
    Kind.DATA: "数据加载是所有 rank 的瓶颈：占 {share} 的时间，每步 {step_ms}",
    Kind.BETWEEN_STEPS: "所有 rank 都有 {share} 的时间花在 step 之间",
    Kind.RARE_WAITS: "在{steps}，[rank {waiting_rank}|其他 rank] 等 rank {rank} 等了 {waited_s}（{where}[：{line}]）",
    Kind.BURSTS: "rank {rank} 每 {every_steps} 步迟到一次，每次 {pause_ms}，{where}[：{line}]（{times} 次）",
    Kind.BY_TURNS: _by_turns,
    Kind.TREND: (
        "[rank {rank} 从第 {step} 步起迟到：每步 {to_ms}，之前 {before}|"
        "rank {rank} 在运行中越来越迟：每步从 {before} 到 {to_ms}]"
    ),
    **dict.fromkeys((Kind.NETWORK, Kind.WAITING), _idle),
    # The checks of a watched training
    Kind.NOT_AVERAGED: lambda finding: (
        f"{{ranks}} 个 rank 没有平均梯度：{ALONE[finding.place or '']}。每个 rank 各练各的"
    ),
    Kind.STARTED_APART: "各 rank 开始时的参数不同，训练的是不同的模型：{place}",
    Kind.SOME_AVERAGED: "有些梯度没有被平均：{place}。各 rank 训练的是不同的模型",
    Kind.NO_DIVISION: lambda finding: (
        "梯度是各 rank 平均值的 {factor:.3g} 倍：是总和，没有除以 rank 数"
        + "；如果 loss 已除以 rank 数，这就是对的" * (finding.severity != "critical")
    ),
    Kind.SAME_BATCHES: "rank {place} 在用相同的 batch 训练（比较了 {batches} 个，全部相同）",
    Kind.NOT_FINITE: (
        "loss 在第 {step} 步变成 NaN 或无穷大，[先是在 rank {rank} 上|在所有 rank 上][；其他 rank 从第 {later} 步起]"
    ),
    Kind.NOTHING: "没有值得担心的：通信占 {share} 的时间",
    # A trial
    Kind.INJECTED: lambda finding: (
        f"我们在 rank {{rank}} 上注入了 {{injected_s}}，{'在第一步之前' if finding.phase == 'start' else '{where}'}"
        "[；ddptui 测得 {measured_s}（95%：{span}），{doubt}|；ddptui 测得 {measured_s}（95%：{span}）|"
        "；ddptui 在那里测得 {at_start_s}（不计入训练时间）|；没有归因：{doubt}]"
    ),
    Kind.SLOW_STEPS: "{of} 个测量的步中有 {times} 步超过中位数的两倍（最慢：第 {step} 步，{worst_ms}）",
    # A run
    **dict.fromkeys((Kind.SLOWER, Kind.FASTER, Kind.ROUGHLY), _compared),
    Kind.ALIKE: "从 {repeats} 次重复看，{names} 与 {place} 用时相同",
    Kind.UNCLEAR: lambda finding: (
        f"无法判断 {'{names} 与 {place} 是否不同' if len(finding.trials) == 1 else '{names}'}：{{doubt}}"
    ),
    **dict.fromkeys((Kind.FASTEST, Kind.SLOWEST), _end),
    Kind.SAME_LOSS: lambda finding: (
        f"{'所有' if finding.place else '{of_trials} 个'}试验的 loss "
        f"{'几乎' * (' 到 ' in _span(figures(finding)))}相同：{{span}}"
    ),
    Kind.OTHER_LOSS: "loss 不同：从 {low_loss}（{first}）到 {high_loss}（{last}）",
    Kind.TRAINED: "{ranks} 个 rank 训练了 {train_s}，共 {made} 步",
    Kind.FOUND_FROM: (
        "[延迟从每步 {from_ms} 起，rank {rank} 被认定为原因，{missed_ms} 时则没有|延迟从每步 {from_ms} 起，"
        "rank {rank} 被认定为原因|无论哪种延迟，rank {rank} 都没有被认定为原因]"
    ),
    Kind.DELAY_FOUND: _delay_found,
    Kind.DELAY_MISSED: "在 {names} 中没有发现 rank {rank} 的延迟",
    Kind.CHAIN: "在 {names} 中，rank {rank} 等 rank {for_rank}，rank {for_rank} 等 rank {then_rank}",
    Kind.MISTAKES: "检查发现了 {mistakes} 个错误中的 {found} 个[；{names} 通过了所有检查]",
    Kind.CHECK_FAILS: "检查“{place}”在 {names} 中没有通过",
    Kind.OWN_RIGHT: "{place} 正确：所有 rank 结束时的数据逐位相同，平均的结果就是各 rank 的平均值（误差 {error:.1g}）",
    Kind.OWN_BYTES: (
        "每次平均，{names} 的一个 rank 把 {handed_bytes} 交给 {calls:.0f} 次集合通信；要在 {ranks:.0f} 个 rank 之间"
        "平均 {averaged_bytes}，每个 rank 至少要发送 {least_bytes}"
    ),
    Kind.FAULTS_NAMED: lambda finding: (
        "{faults} 个故障中有 {found} 个使试验终止，并在原因中指出了"
        + (" rank {rank}" if finding.rank is not None else "出故障的 rank")
    ),
    Kind.SPLIT: "{names} 把每个 {samples} 个样本的 batch 切成 {place}",
    Kind.OVERLAP: "{names} 的通信[有 {share} 与 backward 重叠|完全没有重叠]",
    Kind.START: "到第一步为止用了 {low_s}（{first}）到 {high_s}（{last}）",
    **dict.fromkeys((Kind.SPEEDUP, Kind.WEAK_SPEEDUP), _speedup),
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
EVIDENCE: Mapping[Kind, Template] = {
    Kind.LATE_RANK: _caused,
    Kind.INJECTED: lambda finding: _caused(finding) if "of_waiting_share" in finding.numbers else "",
    Kind.NO_CORE: "它每步排队等核的时间比其他 rank 长 {queued_ms}",
    Kind.DATA: (
        "[{lines}。][{workers_do}。]取 batch 占每个 rank {span} 的时间；其余是在等其他 rank 取 batch"
        "[。每 {every_steps} 个 batch 有一个慢：到了极限的 {every_steps} 个 worker 就是这样]"
    ),
    Kind.BETWEEN_STEPS: "即每步 {step_ms}[。{lines}]",
    Kind.RARE_WAITS: "占 {share} 的时间，这样的一步多用 {pause_ms}",
    Kind.BURSTS: "其他 rank 等了它 {waited_s}，占 {share} 的时间",
    Kind.BY_TURNS: "其他 rank 为此等了 {waited_s}，占 {share} 的时间",
    **dict.fromkeys((Kind.SLOWER, Kind.FASTER, Kind.FASTEST, Kind.SLOWEST), _reason),
}
TRANSLATED_PLACES = (Kind.CALLS, Kind.SAME_BATCHES)  # whose place is in English
PHRASES = {  # of doubts and such places
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
