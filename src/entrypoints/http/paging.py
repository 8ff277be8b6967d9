"""What all lists have in common: how long a page may be, and how it leads to the next one."""

from typing import Annotated
from urllib.parse import urlencode

from msgspec import Meta

from entrypoints.http.operation import Call

Limit = Annotated[int, Meta(ge=1, le=200, description="How many there are at most.")]


def link_to_next(call: Call, cursor: str | None) -> dict[str, str]:
    """Return the Link of a page to the next one (RFC 8288), which keeps the filters; none on the last page."""
    if cursor is None:
        return {}
    kept = [
        item for item in call.scope["query_string"].decode("ascii").split("&") if item.partition("=")[0] != "cursor"
    ]
    query = "&".join(item for item in [*kept, urlencode({"cursor": cursor})] if item)
    return {"Link": f'<{call.place.base_url}{call.operation.path}?{query}>; rel="next"'}
