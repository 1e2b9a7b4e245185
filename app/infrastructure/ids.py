"""Where new ids come from: UUID version 7, which grows with time and so keeps the index of ids compact."""

from uuid import UUID

from uuid_utils.compat import uuid7 as make_uuid7


def uuid7() -> UUID:
    return make_uuid7()
