"""The formats for a browser, a paper or a README: HTML and SVG."""

from collections.abc import Callable

from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.page.picture import picture
from ddptui.page.primitives import primitives_page
from ddptui.page.training import training_page
from ddptui.store.runs import Run


def page(run: Run, preset: Preset, results: Results) -> str:
    """Renders a run as an HTML page. Raises RunError if a journal cannot be read."""
    return primitives_page(preset, results) if preset.kind == "primitives" else training_page(run, preset, results)


FORMATS: dict[str, Callable[[Run, Preset, Results], str]] = {
    "html": page,
    "svg": lambda _, preset, results: picture(preset, results),  # raises PictureError
}
