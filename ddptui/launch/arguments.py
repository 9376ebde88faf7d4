"""A trial as the arguments of an entry point."""

from ddptui.preset import Trial, to_arguments


def arguments(trial: Trial, *, without: tuple[str, ...] = ()) -> list[str]:
    """`key=value` for each field off its default, but those that the command line says in another way."""
    left_out = ("launch", *without)
    return [argument for argument in to_arguments(trial) if argument.partition("=")[0] not in left_out]
