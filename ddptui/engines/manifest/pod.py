"""What is the same on every platform: a pod is a node, which joins the run and starts its ranks itself."""

from ddptui.engines.manifest.options import Options
from ddptui.engines.manifest.yaml_text import Value

TICKET = "DDPTUI_TICKET"
SECRET, KEY = "ddptui-ticket", "ticket"


def command() -> list[Value]:
    """No shell in between, so that the end of a pod reaches it. It finds the ticket in its environment."""
    return ["ddptui", "join"]


def environment() -> list[Value]:
    return [{"name": TICKET, "valueFrom": {"secretKeyRef": {"name": SECRET, "key": KEY}}}]


def resources(options: Options) -> dict[str, Value]:
    """Asked for and not to be exceeded alike: a node that shares its cores with others measures them."""
    asked: dict[str, Value] = {}
    if options.cpus is not None:
        asked["cpu"] = str(options.cpus)
    if options.memory is not None:
        asked["memory"] = options.memory
    if options.gpus:
        asked["nvidia.com/gpu"] = str(options.gpus)
    return {"requests": asked, "limits": asked} if asked else {}


def secret(ticket: str) -> dict[str, Value]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": SECRET},
        "type": "Opaque",
        "stringData": {KEY: ticket},
    }
