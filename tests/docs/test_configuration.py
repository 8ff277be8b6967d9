"""Every setting is documented, as the program reads it."""

from tests.docs.configuration import PAGE, page


def test_the_page_of_settings_is_what_the_program_reads() -> None:
    """docs/configuration.md is what `python -m tests.docs.configuration --write` would write."""
    assert PAGE.read_text(encoding="utf-8") == page()
