// Figures of the library for Node.js, beside those for comparison, in one run: scripts/nodejs.sh bench

import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redlock } from '@sesamecare-oss/redlock';
import { Client } from 'dlock';
import { Server } from './server.mjs';

const KIND = process.env.SERVER ?? 'redis-8.2';
const ROUNDS = 2_000;
const GUARDS = 10_000;
const TURNS = 5;
/** A contention is measured this long, in seconds. */
const SECONDS = 3;

/** Times rounds of each of these, in turns, so that all see the same machine. Prints the percentiles in µs. */
async function compare(title, series) {
  const times = Object.entries(series).map(([name, round]) => ({ name, round, taken: [] }));
  for (let turn = 0; turn < ROUNDS * 1.2; turn += 1) {
    for (const { round, taken } of times) {
      const since = performance.now();
      await round(turn);
      if (turn >= ROUNDS * 0.2) taken.push((performance.now() - since) * 1e3);
    }
  }
  console.log(`${title}: µs`);
  for (const { name, taken } of times) {
    taken.sort((a, b) => a - b);
    const at = (part) => taken[Math.floor(taken.length * part)].toFixed(0);
    console.log(`  ${name.padEnd(36)} p50 ${at(0.5)}, p90 ${at(0.9)}, p99 ${at(0.99)}`);
  }
}

async function oneNode(server) {
  const [client, idle, redis] = [new Client(server.url), new Client(server.url), server.redis()];
  await compare('one node', {
    'dlock: tryAcquire and release': async (turn) => {
      await (await client.lock(`pair:${turn}`).tryAcquire()).release();
    },
    'to another thread and back': () => new Promise((resolve) => randomBytes(1, resolve)),
    'through the queue of dlock, no thread': () => idle.close(),
    'ioredis: two requests, one by one': async () => {
      await redis.ping();
      await redis.ping();
    },
  });
  redis.disconnect();
}

/** The time of a turn without its hold, in ms, where this many clients want the same lock. */
async function turns(server, clients, hold) {
  const client = new Client(server.url);
  const [holds, since] = [[], performance.now()];
  const work = async () => {
    while (performance.now() < since + SECONDS * 1e3) {
      await client.lock('contended').run(async () => {
        const begun = performance.now();
        await sleep(hold);
        holds.push(performance.now() - begun);
      });
    }
  };
  await Promise.all(Array.from({ length: clients }, work));
  const took = performance.now() - since;
  await client.close();
  return (took - holds.reduce((sum, one) => sum + one, 0)) / holds.length;
}

async function contention(server, clients, hold) {
  const all = [];
  for (let turn = 0; turn < TURNS; turn += 1) all.push(await turns(server, clients, hold));
  const middle = [...all].sort((a, b) => a - b)[Math.floor(TURNS / 2)];
  console.log(`${clients} clients, each holds for ${hold} ms: turn without the hold, ms`);
  console.log(`  ${middle.toFixed(2)} (${all.map((one) => one.toFixed(2)).join(' ')})`);
}

async function fiveNodes(servers) {
  const redlock = new Redlock(servers.map((server) => server.redis()));
  const client = new Client(servers.map(({ url }) => url));
  await compare('five nodes', {
    'redlock, the fork': async (turn) => {
      await (await redlock.acquire([`five:${turn}`], 30_000)).release();
    },
    'dlock: tryAcquire and release': async (turn) => {
      await (await client.lock(`pair:${turn}`).tryAcquire()).release();
    },
  });
  await redlock.quit();
}

async function manyGuards(server) {
  const client = new Client(server.url);
  await client.lock('warm').run(() => {});
  globalThis.gc();
  const [before, guards] = [process.memoryUsage.rss(), []];
  for (let n = 0; n < GUARDS; n += 1) guards.push(await client.lock(`many:${n}`).acquire());
  globalThis.gc();
  const memory = (process.memoryUsage.rss() - before) / GUARDS / 1024;
  const [cpu, since] = [process.cpuUsage(), performance.now()];
  await sleep(30_000);
  const { user, system } = process.cpuUsage(cpu);
  const part = (user + system) / 10 / (performance.now() - since);
  const held = guards.filter((guard) => guard.isValid).length;
  const each = `${memory.toFixed(1)} KiB each, ${part.toFixed(1)} % of a processor`;
  console.log(`${GUARDS} guards, leases of 30 s: ${each}; ${held} are held after 30 s`);
  await Promise.all(guards.map((guard) => guard.release()));
}

const servers = await Promise.all(Array.from({ length: 5 }, () => Server.start(KIND)));
try {
  await oneNode(servers[0]);
  await contention(servers[0], 16, 5);
  await contention(servers[0], 100, 1);
  await fiveNodes(servers);
  await manyGuards(servers[0]);
} finally {
  await Promise.all(servers.map((server) => server.stop()));
}
process.exit(0);
