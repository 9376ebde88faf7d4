"""What the worker processes of a rank's DataLoader do, over many heartbeats. Pure."""

import msgspec

from ddptui.wire.messages import Heartbeat


class Loaders(msgspec.Struct):
    """The workers of one rank, while it trained."""

    workers: int = 0  # in the last heartbeat that saw any
    seen: int = 0  # workers over all heartbeats
    busy: float = 0.0  # of these: their share of a core, or 1 if they were ready to run, summed
    disk: int = 0  # of these: how many waited for a disk

    def add(self, heartbeat: Heartbeat) -> None:
        """Take a heartbeat; one without workers changes nothing."""
        if heartbeat.loaders:
            self.workers = len(heartbeat.loaders)
        for worker in heartbeat.loaders:
            self.seen += 1
            self.busy += max((worker.cpu_percent or 0.0) / 100, worker.state == "running")
            self.disk += worker.state == "disk"

    @property
    def numbers(self) -> dict[str, float]:
        """Numbers of a finding about data; empty if the rank has no workers."""
        if not self.seen:
            return {}
        shares = {"busy_share": min(1.0, self.busy / self.seen), "disk_share": self.disk / self.seen}
        return {"workers": float(self.workers)} | {f"workers_{name}": share for name, share in shares.items()}
