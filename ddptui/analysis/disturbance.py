"""Detects and describes other programs that disturb a launch. Pure."""

from ddptui.analysis.cautions import Caution, Evidence
from ddptui.analysis.results import OtherLoad, RepeatResult
from ddptui.wire.records import Load


def takes_cores(load: OtherLoad | None) -> bool:
    """Whether other programs took cores that the ranks needed."""
    return load is not None and Caution.OTHER_LOAD.applies(Evidence(other_load=load.cores, idle=load.idle))


def of_reading(load: Load) -> OtherLoad:
    """Converts a single reading of this host's load."""
    return OtherLoad(cores=load.busy - load.own, idle=load.idle, stolen=load.stolen, by=load.by)


def busy_now(load: Load) -> str:
    """Says which other programs would disturb a run that starts now; empty if none would."""
    other = of_reading(load)
    return f"{describe(other)}; figures will be disturbed" if takes_cores(other) else ""


def is_disturbed(repeat: RepeatResult) -> bool:
    """Whether other programs kept enough cores busy to distort the repeat's figures."""
    return Caution.OTHER_LOAD in repeat.warnings


def disturbance_of(repeat: RepeatResult) -> str:
    """Says what disturbed a repeat, e.g. "other programs kept 0.8 cores busy, most of all python (process 4711)";
    empty if nothing did."""
    return describe(repeat.other_load) if is_disturbed(repeat) and repeat.other_load else ""


def describe(load: OtherLoad) -> str:
    """Says in a clause how busy other programs were."""
    if load.stolen > load.cores / 2:
        return f"other virtual machines of this host took {load.stolen:.1f} cores (steal time)"
    return f"other programs kept {load.cores:.1f} cores busy" + (f", most of all {load.by}" if load.by else "")
