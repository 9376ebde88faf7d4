"""The checks of a watched training: whether its ranks train one model, on samples of their own. Pure.

Each check gives a light, and a finding if something is wrong. Where ranks are meant to differ (sharded parameters,
model parallelism, local SGD), the checks of their agreement do not apply.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from msgspec.structs import replace

from ddptui.analysis.check_log import RANDOM, CheckLog, ComparedReads
from ddptui.analysis.correctness import is_near, names_text
from ddptui.analysis.finding import BATCHES, Finding, Kind, Severity
from ddptui.analysis.policy import (
    MOST_STEPS_AVERAGED,
    OVERLAPS,
    SAME_READINGS,
    UNEVEN_SIZES,
)
from ddptui.analysis.results import Light
from ddptui.text.tables import grouped
from ddptui.text.words import S, listed
from ddptui.wire.messages import POINT_TO_POINT, Batch

IN_SYNC, AVERAGE, BUFFERS, SAMPLES, ORDER = "in sync", "average", "buffers", "samples", "order"
ACCUMULATION, SETTINGS, LOSS, DROPOUT = "accumulation", "settings", "loss", "dropout"
SIZES, PROCESSES = "batch sizes", "processes"
OF_MODEL_PARALLELISM = (*POINT_TO_POINT, "all_to_all", "reduce_scatter")
ASKED, FOUND = "WORLD_SIZE", "process group"
NOT_COMPARED = (ASKED, FOUND, RANDOM)  # settings that have checks of their own
NOT_OF_AVERAGES = (Kind.STARTED_APART, Kind.MOVED_APART, Kind.SETTINGS_DIFFER, Kind.APART_AT_END)
MOST_NAMED = 100  # tensors that differ
CALL_DDP = "Call the DDP, not its `module`: only the DDP's own forward prepares the averaging"
WRAP = "Wrap the model in DistributedDataParallel, or all_reduce each gradient and divide it by the number of ranks"
INIT = "Call torch.distributed.init_process_group before the model is wrapped in DistributedDataParallel"
BROADCAST = "Broadcast rank 0's parameters before the first step (DistributedDataParallel does)"
AVERAGE_ALL = "Average the gradients of all parameters, after backward and before the optimizer's step"
LAST_ONLY = "Let only the last backward before the optimizer's step be outside of `no_sync`"
NO_SYNC = "Run all backwards but the last before the optimizer's step within `no_sync`"
OWN_SAMPLES = "Give the DataLoader a DistributedSampler, or each rank a seed of its own"
SET_EPOCH = "Call `sampler.set_epoch(epoch)` at the beginning of each epoch"
DIVIDE = "Divide by the number of ranks once (DistributedDataParallel has already divided)"
SETTINGS_ALIKE = "Give all ranks the same settings"
LOOK_AT_LAUNCHER = "Check the launcher's options: `accelerate launch --cpu` starts several only through mpirun"
LOOK_AT_INPUTS = "Look at that step's samples and gradients there: torch.autograd.set_detect_anomaly(True)"


class Checked:
    """The lights and the findings of a launch so far."""

    def __init__(self, log: CheckLog, of_time: Sequence[Finding] = ()) -> None:
        """of_time: what rules about time have found; `of_time` then says what is known of the causes."""
        self._log = log
        self.of_time = [*of_time]
        self._during = [compared for compared in log.compared if not compared.at_end]
        self._apart = [compared for compared in self._during if compared.parameters]
        self._differing = [compared for compared in self._during if compared.gradients]
        self._knows_gradients = any(compared.of_gradients for compared in self._during)
        self._pattern = log.micro_batches.most_common(1)[0][0] if log.micro_batches else ()
        self.lights: list[Light] = []
        self.findings: list[Finding] = []
        if not log.last:
            return
        self._check_processes()
        self._check_losses()
        if log.world_size > 1:
            self._check_settings()
            self._check_agreement()
            self._check_samples()
            self._check_sizes()
            self._check_accumulation()
        self._check_order()

    def _add(
        self,
        name: str,
        finding: Finding | None = None,
        *,
        state: str = "right",
        differs: Iterable[str] = (),
        since: int | None = None,
    ) -> None:
        if finding is not None:
            state = "wrong" if finding.severity == "critical" else "doubtful"
            if finding not in self.findings:
                self.findings.append(finding)
        light = {"name": name, "state": state, "differs": [*differs][:MOST_NAMED], "since": since}
        self.lights.append(Light(**light))  # type: ignore[arg-type]

    def _check_processes(self) -> None:
        asked, found = self._log.asked, self._log.world_size
        few = asked is not None and found < asked
        numbers = {"asked": float(asked or 0), "found": float(found)}
        finding = Finding(kind=Kind.FEWER_PROCESSES, severity="critical", numbers=numbers, action=LOOK_AT_LAUNCHER)
        self._add(PROCESSES, finding if few else None, state="unknown" if asked is None else "right")

    # Whether all ranks train one model

    def _check_agreement(self) -> None:
        log, during, apart = self._log, self._during, self._apart
        is_seen = log.steps and any(compared.of_parameters for compared in during)
        if not is_seen or self._is_meant():
            is_known = is_seen or any(reading.sharded for reading in log.last.values())
            for name in (IN_SYNC, AVERAGE):
                self._add(name, state="does not apply" if is_known else "unknown")
            return
        is_alone = any(reading.settings.get(FOUND) == "none" for reading in log.last.values())
        finding = self._why_apart() if apart or is_alone else None
        names = _names(compared.parameters for compared in apart)
        ended_apart = next((compared for compared in log.compared if compared.at_end and compared.parameters), None)
        if finding is None and ended_apart and during and not apart:
            place = names_text([*ended_apart.parameters])
            finding = Finding(kind=Kind.APART_AT_END, place=place, steps=(during[-1].step,))
            names = [*ended_apart.parameters]
        self._add(IN_SYNC, finding, differs=names, since=apart[0].step if apart else None)
        self._check_average(finding)
        buffers = dict.fromkeys(name for compared in during for name in compared.buffers)
        if not apart:  # else they differ in any case
            # BatchNorm's statistics of each rank: usual, and right
            self._add(BUFFERS, state="doubtful" if buffers else "right", differs=buffers)

    def _check_average(self, finding: Finding | None) -> None:
        differing = self._differing
        if finding is not None and finding.kind in NOT_OF_AVERAGES:
            finding = None
        factor = None if finding else self._factor()
        if factor is not None:
            kind = Kind.NO_DIVISION if factor > 1 else Kind.DIVIDED_TWICE
            numbers = {"factor": factor, "ranks": float(self._log.world_size)}
            is_sure = all(compared.mean_loss for compared in self._during if compared.scale is not None)
            severity: Severity = "critical" if is_sure else "warning"
            finding = Finding(kind=kind, severity=severity, numbers=numbers, action=DIVIDE)
        names = _names(compared.gradients for compared in differing)
        if finding is not None:
            self._add(AVERAGE, finding, differs=names, since=differing[0].step if differing else None)
        elif differing:  # parameters agree, so they are averaged instead, or the optimizer does it
            self._add(AVERAGE, state="does not apply")
        else:
            self._add(AVERAGE, state="right" if self._knows_gradients else "unknown")

    def _is_meant(self) -> bool:
        """Whether parameters differ as they are meant to. If gradients are averaged, all ranks train one model."""
        log, during = self._log, self._during
        if not self._apart or (self._knows_gradients and not self._differing):
            return False
        has_ddp = any(reading.ddp_groups for reading in log.last.values())
        if any(log.kinds[kind] for kind in OF_MODEL_PARALLELISM):
            return True
        if not has_ddp and (2 * log.with_activations > log.steps or "parameters" in _settings(during)):
            return True
        is_seldom = 0 < log.averaging_after < MOST_STEPS_AVERAGED * log.steps
        hooks = {hook for reading in log.last.values() for hook in reading.ddp_hooks}
        return is_seldom or log.agree_again or any("localsgd" in hook.lower().replace("_", "") for hook in hooks)

    def _why_apart(self) -> Finding:
        log, apart, differing = self._log, self._apart, self._differing
        readings = log.last.values()
        numbers = {"ranks": float(log.world_size), "made": float(log.steps), "averaged": float(log.averaging)}
        numbers["known"] = float(self._knows_gradients)
        tensors = names_text(_names(each.parameters for each in apart))
        steps = tuple(each.step for each in apart[:1])

        def finding(kind: Kind, place: str, action: str) -> Finding:
            return Finding(kind=kind, severity="critical", place=place, action=action, numbers=numbers, steps=steps)

        if any(reading.settings.get(FOUND) == "none" for reading in readings):
            return finding(Kind.NOT_AVERAGED, "no group", INIT)
        if not differing and (settings := [each for each in self.findings if each.kind is Kind.SETTINGS_DIFFER]):
            return settings[0]
        if self._knows_gradients and not differing:
            is_first = apart[0] is next(compared for compared in self._during if compared.of_parameters)
            kind = Kind.STARTED_APART if is_first else Kind.MOVED_APART
            return finding(kind, tensors, BROADCAST if is_first else "Look at what changes parameters on one rank only")
        if log.averaging < (1 - MOST_STEPS_AVERAGED) * log.steps and not log.averaging_after:
            has_ddp = any(reading.ddp_groups for reading in readings)
            is_bypassed = has_ddp and not any(reading.ddp_called for reading in readings)
            return finding(Kind.NOT_AVERAGED, "bypassed" * is_bypassed, CALL_DDP if has_ddp else WRAP)
        if any(self._pattern) and not self._pattern[-1]:
            numbers |= _of_pattern(self._pattern)
            return finding(Kind.NO_SYNC_LATE, tensors, LAST_ONLY)
        if not differing:
            return finding(Kind.MOVED_APART, tensors, AVERAGE_ALL)
        most = max(differing, key=lambda compared: len(compared.gradients))
        if len(most.gradients) < most.of_gradients:
            return finding(Kind.SOME_AVERAGED, names_text(_names(each.gradients for each in differing)), AVERAGE_ALL)
        if log.averaging < MOST_STEPS_AVERAGED * log.steps:
            return finding(Kind.SELDOM_AVERAGED, tensors, AVERAGE_ALL)
        return finding(Kind.AVERAGE_DIFFERS, tensors, AVERAGE_ALL)

    def _factor(self) -> float | None:
        """The number of ranks, or one over it, if the ranks' gradients come out as that multiple of their mean. Not
        with several backwards in a step: a division by their number may look alike."""
        known = [(compared.scale, compared.ranks) for compared in self._during if compared.scale is not None]
        if len(known) < SAME_READINGS or 2 * self._log.several_backwards > self._log.steps:
            return None
        ranks = known[0][1]
        for factor in (float(ranks), 1 / ranks):
            if all(is_near(scale, factor) for scale, _ in known):
                return factor
        return None

    # What the ranks train on

    def _check_samples(self) -> None:
        complete = self._complete_batches()
        if len(complete) < SAME_READINGS:
            self._add(SAMPLES, state="unknown")
            return
        ranks = sorted(complete[0])
        alike = [rank for rank in ranks if self._varies(complete, rank) and self._has_twin(complete, rank)]
        is_meant = any(self._log.kinds[kind] for kind in OF_MODEL_PARALLELISM) or any(
            light.name == IN_SYNC and light.state == "does not apply" for light in self.lights
        )
        if alike and is_meant:
            self._add(SAMPLES, state="does not apply")
        elif alike:
            place = listed([str(rank) for rank in alike])
            # Without a loader, these are a module's arguments, e.g. numbers made up for a benchmark.
            severity: Severity = "critical" if next(iter(complete[0].values())).loader >= 0 else "warning"
            numbers = {"batches": float(len(complete))}
            finding = Finding(
                kind=Kind.SAME_BATCHES, severity=severity, place=place, numbers=numbers, action=OWN_SAMPLES
            )
            self._add(SAMPLES, finding, differs=[str(rank) for rank in alike])
        else:
            numbers = {"overlap_share": _overlap(complete)}
            overlap = Finding(kind=Kind.OVERLAP_OF_SAMPLES, numbers=numbers, action=OWN_SAMPLES)
            self._add(SAMPLES, overlap if numbers["overlap_share"] >= OVERLAPS else None)

    def _complete_batches(self) -> list[dict[int, Batch]]:
        """The batches that all ranks of a group have read at the same place: of loaders, if there are any."""
        batches = self._log.batches
        has_loader = any(loader >= 0 for loader, *_ in batches)
        found = [of_place for (loader, *_), of_place in batches.items() if (loader >= 0) == has_loader]
        return [of_place for of_place in found if len(of_place) == self._log.world_size]

    @staticmethod
    def _varies(complete: Sequence[Mapping[int, Batch]], rank: int) -> bool:
        return len({of_place[rank].rows for of_place in complete}) > len(complete) / 2

    def _has_twin(self, complete: Sequence[Mapping[int, Batch]], rank: int) -> bool:
        own = self._log.last[rank].ddp_groups if rank in self._log.last else ()
        others = [other for other in complete[0] if other != rank and (not own or not own[0] or other in own[0])]
        return any(all(of_place[rank].rows == of_place[other].rows for of_place in complete) for other in others)

    def _check_sizes(self) -> None:
        sizes = [[batch.elements for batch in of_place.values()] for of_place in self._complete_batches()]
        ratio = max((max(of_place) / max(1, min(of_place)) for of_place in sizes), default=1.0)
        uneven = next((finding for finding in self.of_time if finding.kind is Kind.UNEVEN_WORK), None)
        if uneven is not None and ratio >= UNEVEN_SIZES:
            of_sizes = replace(uneven, place=BATCHES, numbers=uneven.numbers | {"size_times": ratio})
            self.of_time[self.of_time.index(uneven)] = of_sizes
            self._add(SIZES, state="doubtful")
        else:
            self._add(SIZES, state="right" if sizes else "unknown")

    def _check_order(self) -> None:
        by_pass: dict[tuple[int, int], dict[int, list[Batch]]] = {}  # by rank and loader, then by pass
        for (loader, passes, _), of_place in sorted(self._log.batches.items()):
            for rank, batch in of_place.items() if loader >= 0 else ():
                by_pass.setdefault((rank, loader), {}).setdefault(passes, []).append(batch)
        pairs = [pair for passes in by_pass.values() for pair in pairwise(passes.values())]
        if not pairs:
            self._add(ORDER, state="unknown")
        elif any(_are_in_one_order(*pair) for pair in pairs):
            self._add(ORDER, Finding(kind=Kind.SAME_ORDER, severity="critical", action=SET_EPOCH))
        else:
            self._add(ORDER)

    def _check_accumulation(self) -> None:
        log, pattern = self._log, self._pattern
        if not pattern:
            self._add(ACCUMULATION, state="does not apply")
            return
        finding = next((each for each in self.findings if each.kind is Kind.NO_SYNC_LATE), None)
        if finding is None and all(pattern):
            numbers = {"saved_share": log.early_ns / max(1, log.steps_ns), "early_s": log.early_ns / S}
            numbers |= _of_pattern(pattern) | {"steps_s": log.steps_ns / S}
            finding = Finding(kind=Kind.NO_SYNC_SAVES, numbers=numbers, action=NO_SYNC)
        self._add(ACCUMULATION, finding)

    def _check_settings(self) -> None:
        differing = {name: texts for name, texts in _settings(self._during).items() if name not in NOT_COMPARED}
        for rank, reading in self._log.last.items():
            asked, found = reading.settings.get(ASKED), reading.settings.get(FOUND)
            if asked and found not in (None, "none", asked):
                differing["world size"] = {rank: f"{found}, of {asked} launched"}
        if any(RANDOM in reading.settings for reading in self._log.last.values()):
            is_same = any(compared.same_random for compared in self._during)
            self._add(DROPOUT, state="doubtful" if is_same else "right")
        if not differing:
            self._add(SETTINGS, state="right" if self._during else "unknown")
        elif self._is_meant():
            self._add(SETTINGS, state="does not apply")
        else:
            place = "; ".join(f"{name} {_by_rank(texts)}" for name, texts in differing.items())
            finding = Finding(kind=Kind.SETTINGS_DIFFER, severity="critical", place=place, action=SETTINGS_ALIKE)
            self._add(SETTINGS, finding, differs=differing)

    def _check_losses(self) -> None:
        losses = {rank: each for rank, each in self._log.losses.items() if each.first_finite is not None or each.times}
        broken = {rank: each.first_not for rank, each in losses.items() if each.first_not is not None}
        if not losses:
            self._add(LOSS, state="unknown")
        elif not broken:
            self._add(LOSS, state="doubtful" if any(each.times for each in losses.values()) else "right")
        elif all(each.first_finite is None for each in losses.values()):
            self._add(LOSS, Finding(kind=Kind.NEVER_FINITE, severity="critical", action=LOOK_AT_INPUTS))
        else:
            step = min(broken.values())
            first = [rank for rank in broken if broken[rank] == step]
            is_one = len(first) < self._log.world_size
            finding = Finding(
                kind=Kind.NOT_FINITE,
                severity="critical",
                rank=first[0] if is_one else None,
                steps=(step,),
                numbers={"later": float(min((at for at in broken.values() if at > step), default=0))},
                action=LOOK_AT_INPUTS,
            )
            self._add(LOSS, finding, differs=[str(rank) for rank in broken], since=step)


def _names(several: Iterable[Iterable[str]]) -> list[str]:
    """The names of tensors in several readings. The first reading may know only their places in the optimizer."""
    names = [*dict.fromkeys(name for names in several for name in names)]
    return [name for name in names if not re.fullmatch(r"(optimizer \d+: )?parameter \d+", name)] or names


def _settings(during: Sequence[ComparedReads]) -> dict[str, Mapping[int, str]]:
    return {name: texts for compared in reversed(during) for name, texts in compared.settings.items()}


def _by_rank(texts: Mapping[int, str]) -> str:
    """As in: 0.1 on rank 0, 0.2 on ranks 1 and 2."""
    ranks = grouped((text or "unknown", str(rank)) for rank, text in texts.items())
    return ", ".join(f"{text} on rank{'s' * (len(who) > 1)} {listed(who)}" for text, who in ranks.items())


def _of_pattern(pattern: Sequence[bool]) -> dict[str, float]:
    last = max(at for at, is_averaged in enumerate(pattern) if is_averaged)
    return {"of": float(len(pattern)), "unaveraged": float(len(pattern) - 1 - last), "early": float(len(pattern) - 1)}


def _overlap(complete: Sequence[Mapping[int, Batch]]) -> float:
    """The part of the samples of a rank that another rank has read as well, in the first pass; 0 if ranks read some
    samples several times themselves, so that samples cannot be told apart."""
    rows: dict[int, list[int]] = {}
    for of_place in complete:
        for rank, batch in of_place.items() if min(batch.passes for batch in of_place.values()) <= 1 else ():
            rows.setdefault(rank, []).extend(batch.rows)
    shares = []
    for rank, own in rows.items():
        others = {row for other, of_other in rows.items() if other != rank for row in of_other}
        twice = 1 - len({*own}) / max(1, len(own))
        share = sum(row in others for row in own) / max(1, len(own))
        shares.append(share if share > 4 * twice else 0.0)
    return min(shares, default=0.0)


def _are_in_one_order(before: Sequence[Batch], after: Sequence[Batch]) -> bool:
    """Whether two passes over shuffled data had the same order."""
    first = before[0]
    if first.sampler == "DistributedSampler":
        return first.epoch is not None and first.epoch == after[0].epoch
    is_shuffled = first.epoch is not None or first.sampler == "RandomSampler"
    rows = [[batch.rows for batch in batches[:4]] for batches in (before, after)]
    return is_shuffled and len(rows[0]) > 1 and rows[0] == rows[1] and len({*rows[0]}) == len(rows[0])
