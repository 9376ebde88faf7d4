"""Converts trials and other structs from and to plain values, TOML, command-line arguments and short descriptions.

Schema errors become messages for users.
"""

import re
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from ddptui.config.catalog import COMMAND, ONE_PROCESS
from ddptui.config.checks import check_trial
from ddptui.config.fields import choices, misnamed, remedies
from ddptui.config.fields import kind as kind_of
from ddptui.config.preset import Chinese, EngineOptions, LessonQuestion, Reference
from ddptui.config.trial import LINK, TRIAL_FIELDS, Bottleneck, Fault, Trial, TrialError, in_short, is_own
from ddptui.text.words import NOTHING, did_you_mean, in_a_row

MOST_PARTS = 16  # of a dotted key; presets need three. tomllib's time grows with the square of their number
PART = r"""(?:[\w-]++|"(?:[^"\\\n]|\\.){0,99}+"|'[^'\n]{0,99}+')"""
TOO_DEEP = re.compile(rf"""(?<![\w.-])(?:{PART}[ \t]*+\.[ \t]*+){{{MOST_PARTS}}}""")


def read_toml(text: str) -> dict[str, Any]:
    """The tables of a TOML text. Raises ValueError, or RecursionError if it is nested too deeply."""
    if deep := TOO_DEEP.search(text):
        line = text.count("\n", 0, deep.start()) + 1
        raise ValueError(f"a dotted key of more than {MOST_PARTS} parts (at line {line})")
    return tomllib.loads(text)


def quoted(value: Any) -> str:
    """A value as one line of TOML, cut to LONGEST_QUOTE characters, for an error message."""
    if isinstance(value, str):  # an argument may contain bytes that are not UTF-8, which cannot be encoded
        value = value.encode("utf-8", "replace").decode()
    text = str(value) if isinstance(value, float) else msgspec.json.encode(value, enc_hook=str).decode()
    return text if len(text) <= LONGEST_QUOTE else f"{text[:LONGEST_QUOTE]}…"


Made = TypeVar("Made", bound=msgspec.Struct)

# Bottlenecks and faults in words, as tables and the form show them.
DELAY = re.compile(
    r"(?P<at>\w+|\S+:\w+)( (?P<amount>[\d.]+) ?(?P<unit>ms|Mbit/s))?(?P<pace>/call|/\d+ steps)? "
    r"on (?P<ranks>\d+( ?, ?\d+)*)"
)
FAULT = re.compile(r"(?P<kind>\w+) on (?P<rank>\d+),? step (?P<step>\d+)")
IN_WORDS = {"bottleneck": "backward 20 ms on 1", "fault": "kill on 1, step 5"}  # examples
LONGEST_QUOTE = 40  # characters of a text that an error repeats
NONE_IN_WORDS = ("", "none", NOTHING)


def make_trial(values: dict[str, Any]) -> Trial:
    """Build a trial from plain values. Lists may be words with commas between them, bottlenecks and faults may be in
    words. Raises TrialError if values are invalid."""
    values = {key: _read(key, value) if isinstance(value, str) else value for key, value in values.items()}
    launch = values.get("launch", "spawn")
    fixed: dict[str, Any] = {}  # replaces defaults that do not fit the launch mode
    if launch in (*ONE_PROCESS, COMMAND) or values.get("primitives") is not None:
        fixed["strategy"] = None
    if launch == "single":
        fixed["world_size"] = 1
    for key, value in values.items():
        try:
            msgspec.json.encode(value)  # the value must be writable, since a run keeps its preset
        except UnicodeEncodeError:
            raise TrialError(key, "contains bytes that are not valid UTF-8") from None
    trial = convert(fixed | values, Trial)
    check_trial(trial)
    return trial


def _read(key: str, text: str) -> Any:
    """The value of a field that is not text but was written as text; other fields keep the text."""
    if key in IN_WORDS:
        if text.strip() in NONE_IN_WORDS:
            return []
        # Ranks have commas between them, too, so only a comma before a letter separates.
        parts = re.split(r",\s*(?=[a-z])(?!step )", " ".join(text.split()))
        return [_delay(part) if key == "bottleneck" else _fault(part) for part in parts]
    if key not in TRIAL_FIELDS or not (of := kind_of(key)).startswith("list of "):
        return text
    if of == "list of text":
        try:
            return shlex.split(text)
        except ValueError:
            raise TrialError(key, f"a quotation does not end in {text}") from None
    words = [word.strip() for word in text.split(",") if word.strip()]
    return [int(word) if word.isdecimal() and "integer" in of else word for word in words]


def _delay(text: str) -> dict[str, Any]:
    found = _words_of("bottleneck", DELAY, text)
    amount = "mbit" if found["unit"] == "Mbit/s" else "sleep_ms"
    try:  # a delay of the user's own has no amount
        table: dict[str, Any] = {"at": found["at"], amount: float(found["amount"] or 0)}
    except ValueError:
        raise TrialError(f"bottleneck.{amount}", f"{quoted(found['amount'])} is not a number") from None
    table["ranks"] = [int(rank[:9]) for rank in re.findall(r"\d+", found["ranks"])]
    if found["pace"] == "/call":
        table["per"] = "call"
    elif found["pace"]:
        table["every"] = int(found["pace"][1:10].partition(" ")[0])
    return table


def _fault(text: str) -> dict[str, Any]:
    found = _words_of("fault", FAULT, text)
    return {"kind": found["kind"], "rank": int(found["rank"][:9]), "step": int(found["step"][:9])}


def _words_of(key: str, pattern: re.Pattern[str], text: str) -> dict[str, str]:
    if found := pattern.fullmatch(text):
        return found.groupdict()
    example = f"write it like {quoted(IN_WORDS[key])}, or none"
    raise TrialError(
        key, f"{quoted(text[:LONGEST_QUOTE])} is not understood; {example}; or as tables, [{EXAMPLES[key]}]"
    )


def convert(values: Mapping[str, Any], kind: type[Made], before: str = "") -> Made:
    """Build a struct from plain values. before: the start of each key's path in errors. Raises TrialError."""
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        refused = _explain(error, values, kind)
        raise TrialError(f"{before}{refused.key}".rstrip("."), refused.why) from None


KINDS = {
    "int": "an integer", "float": "a number", "str": "text", "bool": "true or false", "array": "a list",
    "object": "a table",
}  # fmt: skip
BOUNDS = {">=": " of {} or more", "<=": " of {} at most", ">": " above {}"}  # msgspec names the violated bound
PARTS: dict[str, type[msgspec.Struct]] = {  # tables within tables
    "bottleneck": Bottleneck, "fault": Fault, "reference": Reference, "question": LessonQuestion, "zh": Chinese,
    "engine": EngineOptions,
}  # fmt: skip
EXAMPLES = {
    "bottleneck": '{ at = "backward", ranks = [1], sleep_ms = 5 }',
    "fault": '{ kind = "kill", rank = 1, step = 5 }',
}


def _explain(error: msgspec.ValidationError, values: Mapping[str, Any], kind: type[msgspec.Struct]) -> TrialError:
    """A schema error as a message for users: `world_size: expected an integer, got "two"`. values: the input."""
    what, path = str(error), ""  # msgspec: "Expected `int`, got `str` - at `$.world_size`"
    if located := re.fullmatch(r"(.*) - at `\$\.?([\w.\[\]]*)`", what, re.DOTALL):
        what, path = located.groups()
    what = what.replace("`", "").replace(" | null", "")
    value, field, last = _value_at(values, path), re.split(r"[.\[]", path)[0], re.sub(r"\[\d+\]$|.*\.", "", path)
    struct = PARTS.get(field, kind)
    if what.startswith("Object contains unknown field"):
        known = struct.__struct_encode_fields__
        key = next(key for key in value if key not in known)
        listed = "`ddptui presets --fields` lists them" if struct is Trial else f"the keys are {', '.join(known)}"
        why = (misnamed(key) if struct is Trial else "") or f"unknown key; {did_you_mean(key, known, listed)}"
        return TrialError(f"{path}.{key}".lstrip("."), why)
    if missing := re.fullmatch(r"Object missing required field (\w+)", what):
        why = f"needs {missing[1]}" + (f", as in {EXAMPLES[field]}" if field in EXAMPLES else "")
    elif unknown := re.fullmatch(r"Invalid enum value (.+)", what, re.DOTALL):
        why = f"unknown value {unknown[1]}"
    elif not (expected := re.fullmatch(r"Expected (\w+)(?: ([<>]=?) ([-\d.]+))?(?:, got \w+)?", what)):
        why = what[:1].lower() + what[1:]
    elif field in EXAMPLES and path == field:
        why = f"expected a list of tables, e.g. [{EXAMPLES[field]}]"
    elif field in EXAMPLES and path.endswith("]") and last == field:
        why = f"expected a table, e.g. {EXAMPLES[field]}"
    elif expected[1] == "float" and isinstance(value, str):
        why = f"{quoted(value)} is not a number"
    else:
        bound = BOUNDS.get(expected[2] or "", "").format((expected[3] or "").removesuffix(".0"))
        why = f"expected {KINDS.get(expected[1], expected[1])}{bound}, got {quoted(value)}"
    others = []
    if (options := choices(last, struct)) and value not in options:
        is_optional = kind is Trial and path in TRIAL_FIELDS and TRIAL_FIELDS[path].default is None
        others = remedies(value, options, may_be_unset=is_optional)
    elif path == "world_size" and isinstance(value, str):
        others = ['"cores" means one rank for each core of this host']
    return TrialError(path, in_a_row([why, *others], ";"))


def _value_at(values: Any, path: str) -> Any:
    """The value at a path like `bottleneck[0].sleep_ms`; None if there is none."""
    for key in re.findall(r"\w+", path):
        is_list = isinstance(values, list | tuple)
        values = values[int(key)] if is_list else values.get(key) if isinstance(values, Mapping) else None
    return values


def to_arguments(trial: Trial) -> list[str]:
    """The trial as `key=value` arguments for the entry point of a rank, one for each field that is not its default."""
    return [f"{name}={literal(value, bare=True)}" for name, value in off_default(trial).items() if name != "name"]


def off_default(trial: Trial) -> dict[str, Any]:
    """The fields that are not at their defaults, as plain values."""
    values = msgspec.to_builtins(trial)
    return {
        name: values[name]
        for name, field in TRIAL_FIELDS.items()
        if getattr(trial, name) != field.default and values[name] is not None
    }


def from_arguments(arguments: list[str]) -> Trial:
    """The trial that `to_arguments` has written as arguments. Raises TrialError."""
    return make_trial(dict(parse_assignment(argument) for argument in arguments))


def parse_assignment(text: str) -> tuple[str, Any]:
    """The key and value of `key=value`. The value is TOML or else a bare string. Raises TrialError without a `=`."""
    key, equals, value = text.partition("=")
    if not equals:
        raise TrialError(text, "expected KEY=VALUE")
    try:
        table = read_toml(f"value = {value}")
    except (ValueError, RecursionError):  # RecursionError: many nested brackets
        return key.strip(), value.strip()
    return key.strip(), table["value"] if len(table) == 1 else value.strip()  # a line end in the value added a key


def literal(value: Any, *, bare: bool = False) -> str:
    """A plain value as inline TOML. bare: a string is written without quotes if it reads back as the same string."""
    match value:
        case str():
            spelled = msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")  # TOML requires this escape
            return value if bare and parse_assignment(f"_={value}")[1] == value else spelled
        case bool():
            return str(value).lower()
        case dict():
            return "{" + ", ".join(f"{key} = {literal(item)}" for key, item in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(literal(item) for item in value) + "]"
    return str(value)


def describe_average(trial: Trial) -> str:
    """What is averaged and how often, e.g. `parameters every 4`; empty for the gradients of every step."""
    if trial.every > 1:
        return f"{trial.average} every {trial.every}"
    return trial.average if trial.average == "parameters" else ""


def describe_bottleneck(bottlenecks: Sequence[Bottleneck]) -> str:
    """Delays and slow links in a few words, e.g. `backward 20 ms on 1` (rank 1)."""
    return ", ".join(_describe(bottleneck) for bottleneck in bottlenecks) or NOTHING


def describe_fault(faults: Sequence[Fault]) -> str:
    """Faults in a few words, e.g. `kill on 1, step 5` (rank 1)."""
    return ", ".join(f"{fault.kind} on {fault.rank}, step {fault.step}" for fault in faults) or NOTHING


def _describe(bottleneck: Bottleneck) -> str:
    ranks = ",".join(map(str, bottleneck.ranks))
    if bottleneck.at == LINK:
        return f"link {bottleneck.mbit:g} Mbit/s on {ranks}"
    pace = "/call" if bottleneck.per == "call" else f"/{bottleneck.every} steps" if bottleneck.every > 1 else ""
    if is_own(bottleneck.at):
        return f"{in_short(bottleneck.at)}{pace} on {ranks}"
    mean = "~" if bottleneck.jitter != "none" else ""
    return f"{bottleneck.at} {mean}{bottleneck.sleep_ms:g} ms{pace} on {ranks}"
