// @sesamecare-oss/redlock, the maintained fork of node-redlock, with ioredis: SET if the lock is free, by a
// script on all nodes, asked again every 200 ms, give or take 100.
//
// Its defaults are kept: it gives up after ten retries, with an ExecutionError, and is then asked again at
// once, so that its waits can be compared with the others'. That is not counted as a failure. Its option to
// retry without limit is not used: it releases a minority of the nodes only when it gives up, so that after a
// split vote no client would have the lock until the leases end.
//
// Each client has connections of its own; all are in one process, with one event loop. It does what
// closed_loop.rs does, and prints the same.
'use strict';

const { ExecutionError, Redlock, ResourceLockedError } = require('@sesamecare-oss/redlock');
const { Redis } = require('ioredis');

const versions = ['@sesamecare-oss/redlock', 'ioredis'].map(
  (library) => require(`${library}/package.json`).version,
);
const [part, ...words] = process.argv.slice(2);
const given = Object.fromEntries(
  words.flatMap((word, place) => (place % 2 === 0 ? [[word.slice(2), words[place + 1]]] : [])),
);
const ttl = Number(given['ttl-ms']);

async function contended() {
  const records = [];
  for (let number = 0; number < Number(given.clients); number += 1) {
    const client = await connected(`${given.key}:${number}`);
    records.push({ client, waits: [], holds: [], asked: null, failures: 0 });
  }
  const begin = performance.now();
  for (const record of records) goOn(record);
  await pause(Number(given.seconds) * 1e3);
  return summary(records, begin);
}

async function goOn(record) {
  for (;;) await round(record);
}

async function round(record) {
  record.asked = performance.now();
  const lock = await untilItHas(record);
  const won = performance.now();
  record.waits.push(won - record.asked);
  record.asked = null;
  await pause(Number(given['hold-us']) / 1e3);
  record.holds.push(performance.now() - won);
  try {
    await lock.release();
  } catch (error) {
    await failed(record, error);
  }
}

async function untilItHas(record) {
  for (;;) {
    try {
      return await record.client.acquire([given.key], ttl);
    } catch (error) {
      if (!(await gaveUp(error))) await failed(record, error);
    }
  }
}

// True if another client had the lock at each try, ten times and once more, and nothing else failed.
async function gaveUp(error) {
  if (!(error instanceof ExecutionError)) return false;
  const last = await error.attempts[error.attempts.length - 1];
  return [...last.votesAgainst.values()].every((reason) => reason instanceof ResourceLockedError);
}

async function failed(record, error) {
  console.error(String(error).split('\n')[0]);
  record.failures += 1;
  // Otherwise a server that is down would keep the processor busy.
  await pause(10);
}

function summary(records, begin) {
  const now = performance.now();
  const holds = records.flatMap((record) => record.holds);
  const waiting = records.filter((record) => record.asked !== null);
  return {
    waits_ms: records.map((record) => record.waits),
    cut_off_ms: waiting.map((record) => now - record.asked),
    hold_ms_mean: holds.reduce((sum, hold) => sum + hold, 0) / Math.max(1, holds.length),
    seconds: (now - begin) / 1e3,
    failures: records.reduce((sum, record) => sum + record.failures, 0),
  };
}

async function uncontended() {
  const client = await connected(given.key);
  const rounds = Number(given.rounds);
  const acquires = [];
  const warm = performance.now() + Number(given['warm-up-ms']);
  for (let number = 0; acquires.length < rounds; number += 1) {
    // A key of its own each time, which is free for certain.
    const begun = performance.now();
    const lock = await client.acquire([`${given.key}:${number}`], ttl);
    const took = performance.now() - begun;
    await lock.release();
    if (begun >= warm) acquires.push(took * 1e3);
  }
  return { acquire_us: acquires };
}

// A client that has taken a lock before: its connections are open, and its scripts are loaded.
async function connected(ownKey) {
  const nodes = given.nodes.split(',').map((node) => node.split(':'));
  const client = new Redlock(nodes.map(([host, port]) => new Redis(Number(port), host)));
  const lock = await client.acquire([ownKey], ttl);
  await lock.release();
  return client;
}

function pause(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

async function main() {
  const parts = { contended, uncontended };
  const library = versions.join(' with ioredis ');
  const figures = { ...(await parts[part]()), library: `@sesamecare-oss/redlock ${library}` };
  // Clients that still wait end with the process: their waits are counted.
  process.stdout.write(`${JSON.stringify(figures)}\n`, () => process.exit(0));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
