// Drives docs/examples/ioredis.mjs: PORT, the task, and its arguments. An agent at the socket AGENT has the locks.

import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { withLock, Lost } from "./ioredis.mjs";

const [port, action, ...args] = process.argv.slice(2);
const timeout = process.env.READ_TIMEOUT && 1000 * Number(process.env.READ_TIMEOUT);

function connect(at) {
  const client = new Redis({ ...at, ...(timeout && { commandTimeout: timeout }) });
  client.on("error", () => {});
  return client;
}

const client = connect(process.env.AGENT ? { path: process.env.AGENT } : { port });
const data = connect({ port });
const ask = (...words) => client.call(...words);

async function count(key, times, tasks) {
  const work = async () => {
    for (let i = 0; i < Number(times); i++) {
      const add = async () => {
        const seen = Number(await data.get("counter"));
        await sleep(1);
        await data.set("counter", seen + 1);
      };
      await withLock(client, key, add, { wait: 600_000 });
    }
  };
  await Promise.all(Array.from({ length: Number(tasks) }, work));
}

async function turn(key, name) {
  await withLock(client, key, () => ask("RPUSH", "order", name), { wait: 600_000, keep: 60_000 });
}

async function hold(key, ttl) {
  try {
    await withLock(
      client,
      key,
      async ({ fence, signal }) => {
        console.log("held", fence);
        const line = ["data", "end"].map((event) => once(process.stdin, event, { signal }));
        await Promise.race(line).catch(() => {});
      },
      { ttl: 1000 * Number(ttl) },
    );
    console.log("released");
  } catch (error) {
    console.log(error instanceof Lost ? "lost" : error);
  }
  process.stdin.destroy();
}

async function fail(key) {
  try {
    await withLock(client, key, () => console.log("held"), { wait: 1000 });
  } catch (error) {
    console.log(error.message);
  }
}

/** Cancels waiting tasks at the moment when the lock becomes free. */
async function cancel(name, times, tasks) {
  let [granted, left] = [0, 0];
  const work = async (key) => {
    for (let i = 0; i < Number(times); i++) {
      await ask("DLOCK.ACQUIRE", key, "before", 600_000);
      const cancelled = new AbortController();
      const hold = async ({ signal }) => {
        granted++;
        await sleep(600_000, null, { signal });
      };
      const waiting = withLock(client, key, hold, { signal: cancelled.signal }).catch(() => {});
      while (!(await waits(key)));
      await ask("DLOCK.RELEASE", key, "before");
      await sleep(75 * Math.random()); // it asks again within 75 ms
      cancelled.abort();
      await waiting;
      if ((await ask("DLOCK.INSPECT", key)) !== null) left++;
    }
  };
  await Promise.all(Array.from({ length: Number(tasks) }, (_, task) => work(`${name}:${task}`)));
  console.log("granted", granted, "left", left);
}

async function waits(key) {
  const found = await ask("DLOCK.INSPECT", key);
  const names = Array.isArray(found) ? found : Object.entries(found).flat();
  return Number(names[names.indexOf("waiting") + 1]) >= 1;
}

await { count, turn, hold, fail, cancel }[action](...args);
client.disconnect();
data.disconnect();
