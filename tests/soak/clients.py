"""Clients that follow the documented loop whatever happens to the service, and an account of what they were told."""

import asyncio
from collections import Counter, defaultdict
from hashlib import sha256
from random import Random
from typing import Any, Final

import httpx

# Answers that say "not now": the same request is sent again.
LATER: Final = frozenset({408, 429, 502, 503, 504})
NO_ANSWER_PAUSE_SECONDS: Final = 0.2
# Far more than any export of these runs takes: its deadline is shorter.
LOOP_WITHIN_SECONDS: Final = 120.0
TIMEOUT_SECONDS: Final = 30.0


class Ledger:
    """What all clients asked for and were told, which rare ways exports went, and each fault in words.

    The owner who `may_be_disabled` takes the refusal of the token for "later", and not for an error.
    """

    def __init__(self, *, may_be_disabled: str | None = None) -> None:
        self.may_be_disabled = may_be_disabled
        self.answers: Counter[str] = Counter()
        self.ends: Counter[str] = Counter()
        self.refused_connections = 0
        self.keys: set[tuple[str, str]] = set()
        self.accepted: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        self.downloaded: dict[str, str] = {}
        self.loops = 0
        self.paths: Counter[str] = Counter()
        self.faults: list[str] = []


def connected(url: str, token: str) -> httpx.AsyncClient:
    """Return a session with the service; to be entered."""
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.AsyncClient(base_url=url, headers=headers, timeout=TIMEOUT_SECONDS, trust_env=False)


class Client:
    """One owner's program."""

    def __init__(self, http: httpx.AsyncClient, owner: str, *, ledger: Ledger, chance: Random) -> None:
        self._http = http
        self._owner = owner
        self._ledger = ledger
        self._chance = chance
        self._later = LATER | {401} if owner == ledger.may_be_disabled else LATER

    async def export(self, wanted: dict[str, object], *, cancel_after: float | None = None) -> None:
        """Go once from the wish to the proven file, or to the end without one; what goes wrong stands in the ledger."""
        key = f"{self._chance.getrandbits(64):016x}"
        self._ledger.keys.add((self._owner, key))
        try:
            async with asyncio.timeout(LOOP_WITHIN_SECONDS):
                await self._follow(key, wanted, cancel_after)
        except TimeoutError:
            self._ledger.faults.append(f"{self._owner} was not done with {key} within {LOOP_WITHIN_SECONDS} seconds")
        except httpx.HTTPStatusError as error:
            self._ledger.faults.append(f"{self._owner}, {key}: {error}")
        else:
            self._ledger.loops += 1

    async def _follow(self, key: str, wanted: dict[str, object], cancel_after: float | None) -> None:
        headers = {"Idempotency-Key": key}
        accepted = self._ledger.accepted[self._owner, key]
        answer = await self._send("POST", "/v1/exports", json=wanted, headers=headers)
        accepted.add(answer.json()["id"])
        if self._chance.random() < 0.2:
            # As one does who lost the answer.
            accepted.add((await self._send("POST", "/v1/exports", json=wanted, headers=headers)).json()["id"])
        url = answer.headers["Location"]
        if cancel_after is not None:
            await asyncio.sleep(cancel_after)
            await self._send("POST", f"{url}/cancel", also=409)
        answer = await self._send("GET", url)
        while (pause := answer.headers.get("Retry-After")) is not None:
            await asyncio.sleep(float(pause))
            answer = await self._send("GET", url)
        export = answer.json()
        self._ledger.ends[export["error"]["code"] if export["error"] else export["status"]] += 1
        if export["status"] == "succeeded":
            file = await self._send("GET", export["result"]["url"])
            self._ledger.downloaded[export["id"]] = found = sha256(file.content).hexdigest()
            if found != export["result"]["sha256"]:
                self._ledger.faults.append(f"what {self._owner} downloaded of {export['id']} is not what was stored")

    async def _send(self, method: str, url: str, *, also: int | None = None, **more: Any) -> httpx.Response:  # noqa: ANN401 - httpx checks them
        """Send until the answer is not "later"; `also` is a refusal that is an answer like another."""
        while True:
            pause = NO_ANSWER_PAUSE_SECONDS
            try:
                answer = await self._http.request(method, url, **more)
            except httpx.ConnectError:
                self._ledger.refused_connections += 1
                self._ledger.answers["refused connection"] += 1
            except httpx.TransportError as error:
                self._ledger.answers[f"no answer ({type(error).__name__})"] += 1
            else:
                self._ledger.answers[str(answer.status_code)] += 1
                if answer.status_code not in self._later:
                    return answer if answer.status_code == also else answer.raise_for_status()
                pause = float(answer.headers.get("Retry-After", pause))
            await asyncio.sleep(pause)
