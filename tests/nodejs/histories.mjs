// Programs with the fork of node-redlock that write a history, as docs/contributing/histories.md describes it: tests/hazards
// runs them.
//
// Usage: histories.mjs PORT,PORT,… CLIENTS TTL LONGEST_HOLD ROUND, in milliseconds; it ends with its input.

import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redlock } from '@sesamecare-oss/redlock';
import { Redis } from 'ioredis';

const ports = process.argv[2].split(',').map(Number);
const [clients, ttl, longestHold, round] = process.argv.slice(3).map(Number);
/** The time on the machine's monotonic clock, in microseconds. */
const now = () => Number(process.hrtime.bigint() / 1000n);
const begun = now();
const write = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
const upTo = (most) => Math.random() * most;

async function contend(name) {
  const redlock = new Redlock(ports.map(connect), { retryCount: 0 });
  redlock.on('error', () => {});
  for (;;) {
    const key = `job:${Math.floor((now() - begun) / (round * 1000))}`;
    await takeATurn(redlock, { process: name, key, who: randomUUID() });
  }
}

function connect(port) {
  const redis = new Redis(port, { commandTimeout: 200, maxRetriesPerRequest: 0, retryStrategy: () => 20 });
  redis.on('error', () => {});
  return redis;
}

async function takeATurn(redlock, names) {
  const asked = { ...names, asked: 'acquire', mode: 'exclusive', invoke: now() };
  let lock;
  try {
    lock = await redlock.acquire([names.key], ttl);
  } catch {
    write({ ...asked, return: now(), heard: 'nothing' });
    return sleep(5 + upTo(25));
  }
  const left = () => lock.expiration - Date.now();
  write({ ...asked, return: now(), heard: 'done', until: now() + Math.max(0, left()) * 1000 });
  await sleep(Math.max(0, Math.min(upTo(longestHold), left())));
  const gives = { ...names, asked: 'release', invoke: now() };
  const heard = await lock.release().then(
    () => 'done',
    () => 'nothing',
  );
  write({ ...gives, return: now(), heard });
}

for (let number = 0; number < clients; number += 1) contend(`redlock ${number}`);
process.stdin.on('end', () => process.exit(0)).resume();
