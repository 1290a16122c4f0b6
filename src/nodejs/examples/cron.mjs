// A job for cron on several machines: it runs on one of them, and the others wait, in case that one fails.
//
// Run it: DLOCK_NODES=redis://localhost node cron.mjs

import { text } from 'node:stream/consumers';
import { Client, DoneError } from 'dlock';

/** The job. */
async function nightly() {
  console.log('runs');
  await text(process.stdin);
}

try {
  await new Client().lock('nightly').runOnce(12 * 3_600_000, nightly);
} catch (error) {
  if (!(error instanceof DoneError)) throw error;
  console.log('done already');
}
