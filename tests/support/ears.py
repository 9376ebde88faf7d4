"""A rank's connection to the console that leads nowhere."""

from typing import Any

from workers.instruments.reporter import Reporter


class Ear(Reporter):
    """Keeps what the rank says; of what was not known yet, the question for it."""

    def __init__(self, rank: int = 0) -> None:
        super().__init__(rank)
        self.heard: list[Any] = []

    def send(self, message: Any) -> None:
        self.heard.append(message)
