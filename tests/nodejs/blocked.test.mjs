// The event loop is blocked, and the lock is lost. hazard.test.mjs shows one that is renewed meanwhile.

import assert from 'node:assert/strict';
import { LostError } from 'dlock';
import { testWithServer, thrown } from './with.mjs';

testWithServer(
  'a lock that is lost while the event loop is blocked is told at once afterwards',
  async ({ client, key }) => {
    const guard = await client.lock(key, { maxHold: 100 }).acquire();
    block(200);
    assert.equal(guard.isValid, false);
    assert.equal(guard.signal.aborted, true);
    assert.equal(guard.signal.reason.why, 'max_hold');
    await thrown(LostError, guard.release());
  },
);

testWithServer('a body does not begin if the lock was lost before', async ({ client, key }) => {
  let begun = false;
  const running = client.lock(key, { maxHold: 100 }).run(() => {
    begun = true;
  });
  block(2_000);
  const error = await thrown(LostError, running);
  assert.equal(error.why, 'max_hold');
  assert.equal(begun, false);
});

/** Keeps the event loop from doing anything. */
function block(milliseconds) {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds);
}
