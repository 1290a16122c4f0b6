// A hazard of the usual recipe in Node.js that dlock does not have.

import assert from 'node:assert/strict';
import { Redlock } from '@sesamecare-oss/redlock';
import { LEASE } from './server.mjs';
import { testWithServer } from './with.mjs';

testWithServer('the event loop is busy and renewal comes too late', async ({ server, client, key }) => {
  const redis = server.redis();
  const redlock = new Redlock([redis], { retryCount: 0 });
  const recipe = redlock.using([`${key}:recipe`], LEASE, async () => {
    await client.lock(`${key}:dlock`, { ttl: LEASE }).run(async (guard) => {
      // One call that takes two leases, as a large document or a regular expression may.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2 * LEASE);
      guard.check();
      assert.equal(guard.signal.aborted, false);
      assert.equal(await server.fence(`${key}:dlock`), guard.fence);
    });
    // Meanwhile any client could have acquired the recipe's lock.
    assert.equal(await redis.exists(`${key}:recipe`), 0);
  });
  // The recipe's lock was gone before its release.
  await assert.rejects(recipe, { name: 'ExecutionError' });
  redis.disconnect();
});
