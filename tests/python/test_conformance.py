"""The scenarios that the libraries for all languages run: docs/contributing/conformance.md says what the steps mean."""

from __future__ import annotations

import asyncio
import gc
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
import redis

import dlock
import dlock.asyncio
from server import PATIENCE, TOP, Server, eventually

SCENARIOS: list[dict[str, Any]] = json.loads((TOP / "tests/conformance/scenarios.json").read_text())[
    "scenarios"
]
ALONE = [scenario for scenario in SCENARIOS if "nodes" not in scenario]
OWN = [scenario for scenario in SCENARIOS if "nodes" in scenario]

Step = dict[str, Any]

KEYED = {"DLOCK.BREAK", "DLOCK.RELEASE", "DLOCK.FENCED", "SET", "GET", "DEL", "LPUSH"}
"""The commands of which the first word is a key."""


@pytest.mark.parametrize("scenario", ALONE, ids=lambda scenario: scenario["name"])
def test_conformance(server: Server, key: str, scenario: Step) -> None:
    asyncio.run(Run([server], PATIENCE, f"{key}:").all(scenario["steps"]))


@pytest.mark.parametrize("scenario", OWN, ids=lambda scenario: scenario["name"])
def test_conformance_with_own_nodes(own_servers: Callable[..., Server], key: str, scenario: Step) -> None:
    options = scenario.get("options", [])
    servers = [own_servers("redis-8.2", *options) for _ in range(scenario["nodes"])]
    timeout = scenario.get("nodeTimeout", PATIENCE * 1000) / 1000
    asyncio.run(Run(servers, timeout, f"{key}:").all(scenario["steps"]))


class Run:
    """One scenario under way. asyncio runs waits beside each other; the rest is as in the other libraries."""

    def __init__(self, servers: list[Server], node_timeout: float, prefix: str) -> None:
        self.servers = servers
        self.prefix = prefix
        self.told: list[dlock.Notice] = []
        addresses = [server.url for server in servers]
        self.client = dlock.asyncio.Client(addresses, node_timeout=node_timeout, notify=self.told.append)
        self.recipes: dict[str, dlock.asyncio.Lock] = {}
        self.leases: dict[str, dlock.Lease] = {}
        self.guards: dict[str, dlock.asyncio.Guard] = {}
        self.fences: dict[str, int] = {}
        self.waits: dict[str, asyncio.Task[dlock.asyncio.Guard]] = {}

    async def all(self, steps: list[Step]) -> None:
        for number, step in enumerate(steps, 1):
            verb = next(iter(step))
            try:
                await getattr(self, f"do_{verb}")(step)
            except BaseException as error:
                error.args = (f"step {number}, {json.dumps(step)}: {error}",)
                raise

    async def do_lock(self, step: Step) -> None:
        await self._outcome(self._acquire(step["lock"], step), step)

    async def do_try(self, step: Step) -> None:
        guard = await self._lock(step["try"], step).try_acquire()
        assert (guard is not None) == step["got"]
        if guard is not None:
            self._keep(step["as"], guard)

    async def do_begin(self, step: Step) -> None:
        self.waits[step["as"]] = asyncio.create_task(self._acquire(step["begin"], step))
        await asyncio.sleep(0)

    async def do_end(self, step: Step) -> None:
        await self._outcome(self.waits.pop(step["end"]), {"as": step["end"], **step})

    async def do_cancel(self, step: Step) -> None:
        wait = self.waits[step["cancel"]]
        wait.cancel()
        with pytest.raises(asyncio.CancelledError):
            await wait

    async def do_recipe(self, step: Step) -> None:
        self.recipes[step["as"]] = self._lock(step["recipe"], step)

    async def do_acquire(self, step: Step) -> None:
        given = {"wait": step["wait"] / 1000} if "wait" in step else {}
        await self._outcome(self.recipes[step["acquire"]].acquire(**given), step)

    async def do_detach(self, step: Step) -> None:
        self.leases[step["as"]] = await self.guards[step["detach"]].detach()

    async def do_extendLease(self, step: Step) -> None:  # noqa: N802
        key, token, fence, _ = self.leases[step["extendLease"]]
        known = fence if step.get("knowsFence") else None
        extended = self.client.extend(key, token, step["ttl"] / 1000, fence=known)
        lease = await self._outcome(extended, step)
        if lease is not None:
            assert lease[:3] == (key, token, fence)
            assert lease.valid_for > 0

    async def do_releaseLease(self, step: Step) -> None:  # noqa: N802
        key, token, *_ = self.leases[step["releaseLease"]]
        was = await self._outcome(self.client.release(key, token), step)
        assert was == step.get("was")

    async def do_inspect(self, step: Step) -> None:
        seen = await self._outcome(self.client.inspect(self._key(step["inspect"])), step)
        for at, (_, lock, error) in enumerate(seen or ()):
            assert (lock and lock.mode) == step["modes"][at]
            counts = (len(lock.holders), lock.waiting) if lock else (0, 0)
            assert (counts if error is None else (None, None)) == (step["holders"][at], step["waiting"][at])
            if "first" in step:
                assert lock.holders[0].meta == step["first"]
            assert (error and error.state) == step.get("states", [None])[at]

    async def do_break(self, step: Step) -> None:
        token = self.guards[step["token"]].token if "token" in step else None
        broken = await self._outcome(self.client.break_lock(self._key(step["break"]), token), step)
        for at, (_, ended, error) in enumerate(broken or ()):
            assert ended == step["ended"][at]
            assert (error and error.state) == step.get("states", [None])[at]

    async def do_hears(self, step: Step) -> None:
        heard = (step["hears"], self._key(step["key"]))

        def is_told() -> bool:
            return any((notice.event, notice.key) == heard for notice in self.told)

        await asyncio.to_thread(eventually, str(step), is_told)

    async def do_release(self, step: Step) -> None:
        await self._outcome(self.guards[step["release"]].release(), step)

    async def do_extend(self, step: Step) -> None:
        await self._outcome(self.guards[step["extend"]].extend(step["ttl"] / 1000), step)

    async def do_done(self, step: Step) -> None:
        done = self.guards[step["done"]].done(step["window"] / 1000, step.get("outcome", ""))
        await self._outcome(done, step)

    async def do_check(self, step: Step) -> None:
        guard = self.guards[step["check"]]

        async def look() -> None:
            guard.check()

        await self._outcome(look(), step)
        assert guard.is_valid == ("fails" not in step)
        assert (guard.valid_for > 0) == ("fails" not in step)

    async def do_lost(self, step: Step) -> None:
        assert (await self.guards[step["lost"]].lost()).why in one_of(step["why"])

    async def do_ttl(self, step: Step) -> None:
        assert self.guards[step["ttl"]].ttl * 1000 == step["is"]

    async def do_grows(self, step: Step) -> None:
        fences = [self.fences[name] for name in step["grows"]]
        assert fences == sorted(set(fences))

    async def do_forget(self, step: Step) -> None:
        with pytest.warns(ResourceWarning):
            del self.guards[step["forget"]]
            gc.collect()

    async def do_block(self, step: Step) -> None:
        time.sleep(step["block"] / 1000)

    async def do_sees(self, step: Step) -> None:
        key = self._key(step["sees"])
        server = self.servers[step.get("node", 1) - 1]

        def seen() -> bool:
            inspection = server.inspect(key) or {b"holders": [], b"waiting": 0}
            holders = inspection[b"holders"]
            assert isinstance(holders, list)
            there = {"holders": len(holders), "waiting": int(str(inspection[b"waiting"]))}
            return all(there[name] == step[name] for name in there if name in step)

        # The wait has a thread of its own: calls that have begun go on meanwhile.
        await asyncio.to_thread(eventually, str(step), seen)

    async def do_run(self, step: Step) -> None:
        command, key, *words = step["run"]
        named = self._key(key) if command in KEYED else key
        server = self.servers[step.get("node", 1) - 1]
        try:
            reply = server.run(command, named, *(self._word(word) for word in words))
        except redis.ResponseError as error:
            reply = {"error": str(error).split()[0]}
        if "gives" in step:
            # redis-py makes True of some OK.
            reply = "OK" if reply is True else reply
            assert (reply.decode() if isinstance(reply, bytes) else reply) == step["gives"]

    async def do_crowd(self, step: Step) -> None:
        held = most = 0

        async def work() -> None:
            nonlocal held, most
            for _ in range(step["turns"]):
                async with self.client.lock(self._key(step["crowd"])):
                    held += 1
                    most = max(most, held)
                    await asyncio.sleep(0.001)
                    held -= 1

        await asyncio.gather(*(work() for _ in range(step["clients"])))
        assert most == 1

    async def do_connect(self, step: Step) -> None:
        with pytest.raises(dlock.Error) as error:
            dlock.Client(step["connect"])
        self._judge(error.value, step["fails"])

    async def do_kill(self, step: Step) -> None:
        self.servers[step["kill"] - 1].kill()

    async def do_start(self, step: Step) -> None:
        self.servers[step["start"] - 1].start()

    async def do_pause(self, step: Step) -> None:
        self.servers[step["pause"] - 1].pause()

    async def do_resume(self, step: Step) -> None:
        self.servers[step["resume"] - 1].resume()

    def _lock(self, key: Any, step: Step) -> dlock.asyncio.Lock:
        given = dict(step.get("options", {}))
        for name in ("ttl", "wait", "maxHold"):
            if name in given:
                given[name] /= 1000
        if "maxHold" in given:
            given["max_hold"] = given.pop("maxHold")
        if isinstance(given.get("meta"), dict):
            given["meta"] = "x" * given["meta"]["length"]
        return self.client.lock(self._key(key), **given)

    async def _acquire(self, key: str, step: Step) -> dlock.asyncio.Guard:
        return await self._lock(key, step).acquire()

    def _keep(self, name: str, guard: dlock.asyncio.Guard) -> None:
        self.guards[name] = guard
        self.fences[name] = guard.fence

    async def _outcome(self, work: Any, step: Step) -> Any:
        if "fails" in step:
            with pytest.raises(dlock.Error) as error:
                await work
            self._judge(error.value, step["fails"])
            return None
        value = await work
        if "as" in step:
            self._keep(step["as"], value)
        return value

    def _judge(self, error: dlock.Error, fails: Step) -> None:
        assert any(isinstance(error, CLASSES[code]) for code in one_of(fails["code"])), repr(error)
        if "why" in fails:
            assert isinstance(error, dlock.LostError)
            assert error.why in one_of(fails["why"])
        if "key" in fails:
            assert error.key == self._key(fails["key"])
        if "states" in fails:
            assert [report.state for report in error.nodes] == fails["states"]
        if "holder" in fails:
            assert isinstance(error, dlock.HeldError)
            assert error.holder is not None
            assert error.holder.fence == self.fences[fails["holder"]]
            assert error.holder.meta == fails["meta"]
        if "by" in fails:
            assert isinstance(error, dlock.DoneError)
            assert error.by is not None
            assert error.fence == error.by.fence == self.fences[fails["by"]]
            assert error.by.outcome == fails["outcome"]
        after: Any = getattr(error, "retry_after", None)
        assert 0 < after <= 60 if "retryAfter" in fails else after is None

    def _key(self, key: Any) -> Any:
        """Each scenario has keys of its own; that without a name is nobody's."""
        if isinstance(key, dict):
            return self.prefix.encode() + bytes.fromhex(key["hex"])
        return self.prefix + key if key else key

    def _word(self, word: Any) -> Any:
        if isinstance(word, dict):
            return self.fences[word["fence"]] if "fence" in word else self.guards[word["token"]]._native.token
        return self._key(word) if word == "data" else word


def one_of(words: str | list[str]) -> list[str]:
    return [words] if isinstance(words, str) else words


CLASSES: dict[str, type[dlock.Error]] = {
    "held": dlock.HeldError,
    "done": dlock.DoneError,
    "no_quorum": dlock.NoQuorumError,
    "refused": dlock.RefusedError,
    "lost": dlock.LostError,
    "usage": dlock.UsageError,
}
