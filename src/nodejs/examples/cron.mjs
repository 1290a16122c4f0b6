// A job for cron on several machines: it runs on one of them, and the others end at once.
//
// Run it: DLOCK_NODES=redis://localhost node cron.mjs

import { text } from 'node:stream/consumers';
import { Client, HeldError } from 'dlock';

const client = new Client();

/** The job. */
async function nightly() {
  console.log('runs');
  await text(process.stdin);
}

try {
  await client.lock('nightly', { wait: 0, meta: `process ${process.pid}` }).run(nightly);
} catch (error) {
  if (!(error instanceof HeldError)) throw error;
  console.log(`runs elsewhere: ${error.holder?.meta ?? ''}`);
}
