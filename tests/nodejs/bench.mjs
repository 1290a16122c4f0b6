// Figures of the library for Node, beside what they are to be compared with, in one run: scripts/node.sh bench

import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redlock as Fork } from '@sesamecare-oss/redlock';
import { Client } from 'dlock';
import { Redlock } from 'dlock/redlock';
import { Server } from './server.mjs';

const KIND = process.env.SERVER ?? 'redis-8.2';
const ROUNDS = 2_000;
const GUARDS = 10_000;

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
      await (await client.tryAcquire(`pair:${turn}`)).release();
    },
    'to another thread and back': () => new Promise((resolve) => randomBytes(1, resolve)),
    'through the post of dlock, no thread': () => idle.close(),
    'ioredis: two requests, one by one': async () => {
      await redis.ping();
      await redis.ping();
    },
  });
  redis.disconnect();
}

async function fiveNodes(servers) {
  const clients = () => servers.map((server) => server.redis());
  const [fork, ours] = [new Fork(clients()), new Redlock(clients())];
  const client = new Client(servers.map(({ url }) => url));
  const pair = (redlock) => async (turn) => {
    await (await redlock.acquire([`five:${turn}`], 30_000)).release();
  };
  await compare('five nodes', {
    'redlock, the fork': pair(fork),
    'dlock/redlock': pair(ours),
    'dlock: tryAcquire and release': async (turn) => {
      await (await client.tryAcquire(`pair:${turn}`)).release();
    },
  });
  await Promise.all([fork.quit(), ours.quit()]);
}

async function manyGuards(server) {
  const client = new Client(server.url);
  await client.withLock('warm', () => {});
  globalThis.gc();
  const [before, guards] = [process.memoryUsage.rss(), []];
  for (let n = 0; n < GUARDS; n += 1) guards.push(await client.lock(`many:${n}`));
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
  await fiveNodes(servers);
  await manyGuards(servers[0]);
} finally {
  await Promise.all(servers.map((server) => server.stop()));
}
process.exit(0);
