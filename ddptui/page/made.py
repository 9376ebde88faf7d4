"""The last sections of a run's page: its preset, the commands of its trials, and the environment."""

from collections.abc import Callable, Iterator, Mapping

from ddptui.analysis.extent import extent
from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.page.tables import table_view
from ddptui.report.preset_columns import facts
from ddptui.report.rows import what_became
from ddptui.store.presets import as_toml
from ddptui.text.argv import shell_line
from ddptui.text.units import size
from ddptui.text.words import count

# Environment entries whose keys need a better name: entry -> (name, format of values). {} stands for the key within
# such an entry.
READABLE: dict[str, tuple[str, Callable[[float], str]]] = {
    "memory_bytes": ("memory", size),
    "load_before": ("load average before the run", lambda load: f"{load:.2f}"),
    "gpu_power_limit_w": ("gpu power limit.{}", lambda limit: f"{limit:.0f} W"),
    "gpu_default_power_limit_w": ("gpu power limit by default.{}", lambda limit: f"{limit:.0f} W"),
}


def kicker(results: Results) -> str:
    """The line above a page's title: the run, its start, status and extent."""
    started = str(results.environment.get("started", ""))[:16].replace("T", " ")
    repeats = f", {count(results.repeats, 'repeat')}{' each' * (len(results.trials) > 1)}" if results.repeats else ""
    return " · ".join(filter(None, [f"Run {results.run}", started, f"{results.status}: {extent(results)}{repeats}"]))


def how_it_was_made(preset: Preset, results: Results) -> dict[str, object]:
    """The variables of the template's last sections."""
    fields = facts(preset)
    return {
        "about": preset.about,
        "preset": preset.name,
        "toml": "" if results.of_two_runs else as_toml(preset),  # no preset has the trials of both
        "fields": table_view("The trials as they are configured", fields, once=[field.key for field in fields[1:]]),
        "commands": [(trial.name, shell_line(trial.command) or what_became(trial)) for trial in results.trials],
        "environment": _environment(results),
    }


def _environment(results: Results) -> list[tuple[str, str]]:
    if not results.of_two_runs:
        return [*_flat(results.environment)]
    both = results.environment.items()
    return [(f"{run}: {name}", value) for run, of_run in both for name, value in _flat(of_run)]


def _flat(value: object, path: str = "") -> Iterator[tuple[str, str]]:
    """Flattens nested tables and lists into (path in words, value)."""
    children: Mapping[object, object]
    match value:
        case dict():
            children = value
        case list():
            children = dict(enumerate(value, start=1))
        case int() | float() if (entry := path.partition("."))[0] in READABLE:
            name, form = READABLE[entry[0]]
            yield name.format(entry[2]), form(value)
            return
        case _:
            name = path.removeprefix("packages.").replace("_", " ")
            yield name, "unknown" if value is None else str(value)
            return
    for key, child in children.items():
        yield from _flat(child, f"{path}.{key}" if path else str(key))
