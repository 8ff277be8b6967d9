"""What one owner may ask for, and how much of it they use."""

from typing import Final

from domain.account import Scope
from domain.policies import Policies
from domain.ports import Bulkhead
from domain.use_cases.admission import active_count
from entrypoints.http.answers import Answer, json_answer
from entrypoints.http.operation import Call, Operation, Reply
from entrypoints.http.schemas import ActiveExports, DeadlineBounds, Limits, RequestRate
from entrypoints.settings import Settings


async def show(call: Call) -> Answer:
    """Show the owner's limits and use."""
    policies = call.application.policies
    rate = policies.requests.share(call.application.settings.api_processes)
    used = await call.application.store.read(Bulkhead.EXPORTS, active_count, call.owner_id, policies.admission)
    requests = RequestRate(rate.quota, rate.window_seconds, call.requests_left)
    return json_answer(200, limits_body(policies, requests, used=used))


def limits_body(policies: Policies, requests: RequestRate, *, used: int) -> Limits:
    """Return the body: the rules as they are configured, and what is used of them."""
    deadline, result = policies.deadline, policies.result
    return Limits(
        active_exports=ActiveExports(policies.admission.active_per_owner, used),
        requests=requests,
        result_rows=result.max_rows,
        result_bytes=result.max_bytes,
        result_retention_seconds=round(result.retention.total_seconds()),
        # A key stands in the row of what it made, and goes with it.
        key_lifetime_seconds=round(policies.maintenance.retention.total_seconds()),
        deadline=DeadlineBounds(
            round(deadline.default.total_seconds()),
            round(deadline.shortest.total_seconds()),
            round(deadline.longest.total_seconds()),
        ),
    )


_DEFAULTS: Final = Settings().policies
_EXAMPLE: Final = limits_body(
    _DEFAULTS,
    RequestRate(_DEFAULTS.requests.quota, _DEFAULTS.requests.window_seconds, _DEFAULTS.requests.quota - 1),
    used=2,
)

OPERATIONS: Final = (
    Operation(
        id="getLimits",
        method="GET",
        path="/v1/limits",
        tag="exports",
        scope=Scope.EXPORTS,
        bulkhead=Bulkhead.EXPORTS,
        summary="Read the limits",
        description="What the owner may ask for, and how much of it is used now. Past a limit there are 429 and 503.",
        handler=show,
        replies=(Reply(status=200, description="The limits and their use.", content=Limits, example=_EXAMPLE),),
    ),
)
