// A lock of dlock from ioredis, over the one connection that all of a program share.
//
// Tried with ioredis 6.0 and Node 20. Run it: node ioredis.mjs redis://localhost

import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { Redis, ReplyError } from "ioredis";

/** The lock is lost: another client may hold it. */
export class Lost extends Error {}

/**
 * Calls `work` while the lock is held, with the fence, with a signal that is aborted when the lock is
 * lost or the caller's `signal` is, and with a `check` that throws then. Times are in milliseconds.
 */
export async function withLock(redis, key, work, options = {}) {
  const { wait = 60_000, ttl = 30_000, keep = 5_000, signal } = options;
  const token = randomBytes(16).toString("hex");
  const deadline = performance.now() + wait;
  const lease = Math.min(ttl, keep); // a waiter may ask for no more; the first renewal makes it longer
  let stray = false; // whether an earlier request may still be on its way
  let holding;
  try {
    for (;;) {
      signal?.throwIfAborted();
      const [sent, earlier] = [performance.now(), stray];
      const left = deadline - sent;
      stray = true;
      try {
        // Without WAIT, which would hold up everybody on this connection. KEEP keeps the place.
        const fence = await redis.call("DLOCK.ACQUIRE", key, token, lease, "KEEP", keep);
        // ioredis sends it once more on a new connection, which it makes after 50 ms at least.
        stray = earlier || performance.now() - sent >= 50;
        // It asks again if the lease may be over.
        if (fence !== null && performance.now() < sent + 0.99 * lease) {
          holding = hold(redis, key, token, fence, ttl, lease, sent);
          const signals = [holding.lost, signal].filter(Boolean);
          const result = await work({ fence, signal: AbortSignal.any(signals), check: holding.check });
          holding.check();
          return result;
        }
      } catch (error) {
        if (holding || left <= 0 || !mayPass(error)) throw error;
      }
      if (left <= 0) throw new Error(`${key} was not free within ${wait} ms`);
      await sleep(25 + 50 * Math.random(), null, { signal });
    }
  } finally {
    holding?.stop();
    await release(redis, key, token, stray, keep);
  }
}

/** Renews the lease until it is told to stop, and says when the lock is lost. */
function hold(redis, key, token, fence, ttl, lease, sent) {
  const lost = new AbortController();
  const lose = () => lost.abort(new Lost(key));
  // The lease counts from the sending. Clocks differ by less than a hundredth.
  let until = sent + 0.99 * lease;
  let timer;
  const watch = () => {
    const left = until - performance.now();
    if (left > 0) timer = setTimeout(watch, left);
    else lose();
  };
  watch();
  let renewal;
  const renew = async () => {
    const sent = performance.now();
    renewal = setTimeout(renew, lease / 3);
    const renewed = await redis.call("DLOCK.EXTEND", key, token, ttl, "FENCE", fence).catch(() => null);
    if (renewed === 0) lose();
    if (renewed === 1) [until, lease] = [sent + 0.99 * ttl, ttl]; // null: the next turn asks again
  };
  renew();
  const check = () => {
    if (performance.now() >= until) lose();
    lost.signal.throwIfAborted();
  };
  const stop = () => {
    clearTimeout(renewal);
    clearTimeout(timer);
  };
  return { lost: lost.signal, check, stop };
}

async function release(redis, key, token, stray, patience) {
  // A stray request that arrives after FINAL takes no lock.
  const final = stray ? ["FINAL"] : [];
  const until = performance.now() + patience; // later the lease ends by itself
  while (performance.now() < until) {
    try {
      return await redis.call("DLOCK.RELEASE", key, token, ...final);
    } catch (error) {
      if (error instanceof ReplyError) return null;
      await sleep(50);
    }
  }
}

function mayPass(error) {
  return !(error instanceof ReplyError) || error.message.startsWith("QUARANTINE");
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const redis = new Redis(process.argv[2]);
  await withLock(redis, "job:42", async ({ fence, check }) => {
    console.log("held with the fence", fence);
    check();
    // The server refuses this if a later holder has been here.
    await redis.call("DLOCK.FENCED", "{job:42}:mark", fence, "INCR", "{job:42}:runs");
  });
  redis.disconnect();
}
