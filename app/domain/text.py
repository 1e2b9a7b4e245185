"""What a name and a person's words must be before they may become part of an event."""

from app.domain.errors import RuleBroken

LONGEST_ID = 200
"""Characters; an id ends up in index entries of both databases."""


def checked_id(what: str, value: str) -> str:
    """`value` itself, if it can serve as the id of `what`.

    Raises `RuleBroken` where it is empty, too long, has outer spaces, control characters or lone surrogates.
    """
    if not value:
        raise RuleBroken(f"{what} is empty; give it a name")
    if len(value) > LONGEST_ID:
        raise RuleBroken(f"{what} has {len(value)} characters; at most {LONGEST_ID} are allowed")
    if value != value.strip() or not value.isprintable():
        raise RuleBroken(f"{what} {value!r} has outer spaces or characters that do not print; leave them out")
    return value


def checked_words(what: str, value: str) -> str:
    """`value` itself, byte for byte, if the log can keep it.

    Raises `RuleBroken` for an empty text, NUL (which PostgreSQL cannot store) and lone surrogates (which are no UTF-8).
    """
    if not value:
        raise RuleBroken(f"{what} is empty; write something")
    if "\x00" in value:
        raise RuleBroken(f"{what} contains a NUL character at index {value.index(chr(0))}; remove it")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise RuleBroken(f"{what} has a lone surrogate at index {error.start}; send valid Unicode") from error
    return value
