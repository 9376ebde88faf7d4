"""The formats in which a run leaves for a browser, a paper or a README."""

from collections.abc import Callable

from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.page.picture import picture
from ddptui.page.primitives import primitives_page
from ddptui.page.training import training_page
from ddptui.store.runs import Run


def page(run: Run, preset: Preset, results: Results) -> str:
    """The page of a run. Raises RunError if a journal cannot be read."""
    return primitives_page(preset, results) if preset.kind == "primitives" else training_page(run, preset, results)


FORMATS: dict[str, Callable[[Run, Preset, Results], str]] = {
    "html": page,
    "svg": lambda _, preset, results: picture(preset, results),  # raises PictureError
}
