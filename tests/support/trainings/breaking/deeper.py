"""An evaluation that fails, three calls deep."""


def evaluate(model):
    return [summarise(part) for part in ({"loss": 1.0}, {})]


def summarise(part):
    return round(best(part), 2)


def best(part):
    return part["loss"]  # mark: deep
