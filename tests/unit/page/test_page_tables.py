"""Tables of a page: which columns there are, and in which order rows come."""

from ddptui.page.tables import table_view
from ddptui.text.tables import Filled, order

NAMES = Filled("trial", ["a", "b", "c"], left=True, key="trial")
TIMES = Filled("train s", ["10.0", "9.0", "failed"], key="train")


def test_rows_are_ordered_as_in_the_console() -> None:
    view = table_view("All", [NAMES, TIMES])
    assert view.headers[1].ascending == " ".join(map(str, order(TIMES.cells))) == "1 0 2"
    assert view.headers[1].descending == "0 1 2"


def test_what_all_rows_have_is_said_once_if_it_may_be() -> None:
    same = Filled("ranks", ["2", "2", "2"], key="ranks")
    view = table_view("All", [NAMES, same, TIMES], once=["ranks"])
    assert view.shared == {"ranks": "2"}
    assert [header.text for header in view.headers] == ["trial", "train s"]
    assert len(table_view("All", [NAMES, same, TIMES]).headers) == 3


def test_of_one_row_what_was_set_is_said_above_and_nothing_sorted() -> None:
    view = table_view("One", [Filled("trial", ["a"]), Filled("ranks", ["2"], key="ranks")], once=["ranks"])
    assert view.shared == {"ranks": "2"}
    assert not view.can_be_sorted
    assert table_view("All", [NAMES, TIMES]).can_be_sorted


def test_columns_without_values_and_those_that_repeat_the_first_are_left_out() -> None:
    view = table_view("All", [NAMES, Filled("strategy", ["a", "b", "c"]), Filled("fault", ["–"] * 3), TIMES])
    assert [header.text for header in view.headers] == ["trial", "train s"]


def test_rows_say_what_they_are() -> None:
    view = table_view("All", [NAMES, TIMES], {0: "baseline", 2: "failed"})
    assert [row.kind for row in view.rows] == ["baseline", "", "failed"]
    assert view.rows[1].cells == ("b", "9.0")
