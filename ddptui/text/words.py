"""Words around numbers: plurals."""


def count(number: int, noun: str, several: str | None = None) -> str:
    return f"{number} {noun if number == 1 else several or noun + 's'}"
