// node-redlock in the fork that is kept up, @sesamecare-oss/redlock, with ioredis: SET if nobody has
// it, by a script on all nodes, asked again every 200 ms, give or take 100.
//
// Its defaults are kept but one: `retryCount` is 10, after which it gives up. It is -1 here, which
// means without limit, so that its waits can be compared with the others'.
//
// Each client has connections of its own, as if it were a process of its own. It does what
// closed_loop.rs does, and prints the same.
'use strict';

const { Redlock } = require('@sesamecare-oss/redlock');
const { Redis } = require('ioredis');

const versions = ['@sesamecare-oss/redlock', 'ioredis'].map(
  (library) => require(`${library}/package.json`).version,
);
const [part, ...words] = process.argv.slice(2);
const given = Object.fromEntries(
  words.flatMap((word, place) => (place % 2 === 0 ? [[word.slice(2), words[place + 1]]] : [])),
);
const ttl = Number(given['ttl-ms']);

function acquire(client, key) {
  return client.acquire([key], ttl, { retryCount: -1 });
}

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
    failed(record, error);
  }
}

async function untilItHas(record) {
  for (;;) {
    try {
      return await acquire(record.client, given.key);
    } catch (error) {
      failed(record, error);
    }
  }
}

function failed(record, error) {
  console.error(String(error));
  record.failures += 1;
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
  // The first half is not counted: a program that has just begun is slower than it will be.
  for (let number = 0; number < 2 * rounds; number += 1) {
    // A key of its own each time, which is free for certain.
    const begun = performance.now();
    const lock = await acquire(client, `${given.key}:${number}`);
    const took = performance.now() - begun;
    await lock.release();
    if (number >= rounds) acquires.push(took * 1e3);
  }
  return { acquire_us: acquires };
}

// A client that has taken a lock before: its connections are open, and its scripts are loaded.
async function connected(ownKey) {
  const nodes = given.nodes.split(',').map((node) => node.split(':'));
  const client = new Redlock(nodes.map(([host, port]) => new Redis(Number(port), host)));
  const lock = await acquire(client, ownKey);
  await lock.release();
  return client;
}

function pause(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

async function main() {
  const parts = { contended, uncontended };
  const figures = { ...(await parts[part]()), library: `node-redlock ${versions.join(' with ioredis ')}` };
  // Clients that still wait end with the process: their waits are counted.
  process.stdout.write(`${JSON.stringify(figures)}\n`, () => process.exit(0));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
