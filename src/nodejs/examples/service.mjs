// A service with several instances, one of them the leader. If it ends or loses the lock, another takes over.
//
// Run it: DLOCK_NODES=redis://localhost node service.mjs

import { setTimeout as sleep } from 'node:timers/promises';
import { Client, LostError } from 'dlock';

const client = new Client();

/** The leader's work, until the lock is lost. */
async function lead(guard) {
  for (;;) {
    console.log(`leads ${guard.fence}`);
    await sleep(1_000, undefined, { signal: guard.signal });
  }
}

// The end of the process releases the lock.
process.once('SIGTERM', () => process.exit(0));

for (;;) {
  const guard = await client.lock('leader', { ttl: 10_000, meta: `process ${process.pid}` }).acquire();
  try {
    await lead(guard);
  } catch (error) {
    if (!(guard.signal.reason instanceof LostError)) throw error;
    console.log(`leads no more: ${guard.signal.reason.message}`);
  }
}
