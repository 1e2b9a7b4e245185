"""Words of other programs become a part of one sentence: one line, printable, cut where a word ends."""

import pytest

from app.infrastructure.sentence import one_line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("it says", "it says"),
        ("", ""),
        ("one\n\n  two\ttabs\r\n", "one two tabs"),
        ("a bell\x07 and \x1b[31mred", "a bell and [31mred"),
        ("a name \udcff in bytes", "a name in bytes"),
        ("exactly twenty chars", "exactly twenty chars"),
        ("exactly twenty chars, and more", "exactly twenty…"),
        ("exactly twenty words of a kind", "exactly twenty…"),
        ("x" * 1_000_000, "x" * 19 + "…"),
    ],
)
def test_a_text_becomes_one_line(text: str, line: str) -> None:
    assert one_line(text, limit=20) == line
    assert len(line) <= 20
