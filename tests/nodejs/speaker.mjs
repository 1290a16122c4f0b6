// A program that carries out commands for locks, one a line: tests/languages sends them.

import { createInterface } from 'node:readline';
import { Client } from 'dlock';

const [url, nodeTimeout] = process.argv.slice(2);
const client = new Client(url, { nodeTimeout: Number(nodeTimeout) });
const held = new Map();

async function answer(verb, key) {
  if (verb === 'lock') held.set(key, await client.lock(key, { ttl: 60_000 }).acquire());
  else if (verb === 'try') held.set(key, await client.lock(key, { ttl: 60_000, wait: 0 }).acquire());
  const guard = held.get(key);
  if (verb === 'check') guard.check();
  if (verb !== 'release') return guard.fence;
  held.delete(key);
  await guard.release();
  return 'released';
}

for await (const line of createInterface(process.stdin)) {
  try {
    console.log(await answer(...line.split(' ')));
  } catch (error) {
    console.log(`${error.name} ${error.message.replace(/\s+/g, ' ')}`);
  }
}
