// The event loop is blocked, and the lock is renewed all the same. These tests take long and do nothing: they
// run beside the others.

import assert from 'node:assert/strict';
import { LostError } from 'dlock';
import { LEASE } from './server.mjs';
import { testWithServer, thrown } from './with.mjs';

testWithServer(
  'the event loop is blocked for ten leases, and the lock is still held',
  async ({ server, client, key }) => {
    const ttl = LEASE;
    let guard;
    // On a machine that is paused for most of a lease no renewal is possible; this test is about something
    // else.
    for (let attempt = 0; attempt < 3; attempt += 1) {
      guard = await client.lock(key, { ttl }).acquire();
      const { signal } = guard;
      block(10 * ttl);
      // Before anything else runs.
      if (guard.signal.aborted && guard.signal.reason.why === 'paused') continue;
      guard.check();
      assert.equal(await server.fence(key), guard.fence);
      assert.equal(signal.aborted, false);
      break;
    }
    await guard.release();
  },
);

testWithServer(
  'a lock that is lost while the event loop is blocked is told at once afterwards',
  async ({ client, key }) => {
    const guard = await client.lock(key, { ttl: LEASE, maxHold: 100 }).acquire();
    block(200);
    assert.equal(guard.isValid, false);
    assert.equal(guard.signal.aborted, true);
    assert.equal(guard.signal.reason.why, 'max_hold');
    await thrown(LostError, guard.release());
  },
);

/** Keeps the event loop from doing anything. */
function block(milliseconds) {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds);
}
