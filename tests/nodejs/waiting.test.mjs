// Waits: aborts and outages.

import assert from 'node:assert/strict';
import { setImmediate } from 'node:timers/promises';
import { Client, HeldError } from 'dlock';
import { eventually, LEASE, PATIENCE } from './server.mjs';
import { newKey, ownServer, Program, testAlone, testWithOneServer, testWithServer, thrown } from './with.mjs';

testWithServer('an abort ends a wait and leaves nothing', async ({ server, client, key }) => {
  const guard = await client.lock(key);
  const abort = new AbortController();
  const waiting = client.lock(key, { signal: abort.signal });
  await server.untilWaiting(key, 1);
  abort.abort(new RangeError('enough'));
  assert.equal((await thrown(RangeError, waiting)).message, 'enough');
  await server.untilWaiting(key, 0);
  await guard.release();
  assert.ok(await server.isFree(key));
});

testWithServer('a signal may end many waits, and Node warns of none', async ({ t, server, client, key }) => {
  const [abort, warnings] = [new AbortController(), []];
  const listen = (warning) => warnings.push(warning.message);
  process.on('warning', listen);
  t.after(() => process.off('warning', listen));
  await client.withLock(key, async () => {
    // The first to end does not end the others.
    await thrown(HeldError, client.lock(key, { signal: abort.signal, wait: 0 }));
    const waits = Array.from({ length: 20 }, () => client.lock(key, { signal: abort.signal }));
    await thrown(HeldError, client.lock(key, { signal: abort.signal, wait: 0 }));
    await server.untilWaiting(key, 20);
    abort.abort();
    for (const { reason } of await Promise.allSettled(waits)) assert.equal(reason.name, 'AbortError');
    await server.untilWaiting(key, 0);
  });
  assert.deepEqual(warnings, []);
});

testWithServer('a signal that was aborted before asks for nothing', async ({ server, client, key }) => {
  await assert.rejects(client.lock(key, { signal: AbortSignal.abort() }), { name: 'AbortError' });
  await assert.rejects(
    client.withLock(key, { signal: AbortSignal.abort() }, () => {}),
    { name: 'AbortError' },
  );
  assert.ok(await server.isFree(key));
});

testWithServer('a time-out of a signal ends a wait', async ({ client, key }) => {
  await client.withLock(key, async () => {
    const waiting = client.lock(key, { signal: AbortSignal.timeout(30) });
    await assert.rejects(waiting, { name: 'TimeoutError' });
  });
});

testWithOneServer(
  'a thousand aborts in the moment of the grant leave nothing',
  async ({ server, client, key }) => {
    let granted = 0;
    for (let step = 0; step < 1000; step += 1) {
      const abort = new AbortController();
      const waiting = client.lock(key, { ttl: 600_000, signal: abort.signal });
      // A request takes some turns of the loop: each step aborts at another one.
      for (let turn = 0; turn < step % 12; turn += 1) await setImmediate();
      const until = performance.now() + (step % 10) * 0.05;
      while (performance.now() < until);
      abort.abort();
      try {
        await (await waiting).release();
        granted += 1;
      } catch (error) {
        assert.equal(error.name, 'AbortError');
      }
    }
    await server.untilFree(key);
    assert.ok(granted < 1000);
  },
);

testWithServer('an abort after the grant does not end the lock', async ({ client, key }) => {
  const abort = new AbortController();
  const guard = await client.lock(key, { signal: abort.signal });
  abort.abort();
  guard.check();
  await guard.release();
});

testAlone('a wait goes on through an outage and says so', async (t) => {
  const [server, key, told] = [await ownServer(t), newKey(), []];
  const client = new Client(server.url, { nodeTimeout: 10_000, notify: (message) => told.push(message) });
  // The longest lease of the server is how long its quarantine is after the crash.
  await client.withLock(key, { ttl: LEASE }, () => {});
  await server.kill();
  const waiting = client.lock(key, { ttl: LEASE });
  await eventually('it is told', () => told.some((text) => text.includes(`waiting for lock '${key}'`)));
  await server.start();
  await (await waiting).release();
  await eventually('its end, too', () => told.some((text) => text.includes('answers again')));
});

testWithOneServer('a listener that throws takes no outcome along', async ({ t, server, key }) => {
  const text = `process.on('uncaughtException', (error) => console.log(error.message));
    const notify = () => { throw new Error('mine'); };
    const away = new Client('redis://127.0.0.1:1', { notify });
    const abort = new AbortController();
    const waiting = away.lock(key, { signal: abort.signal }).catch(({ name }) => console.log(name));
    const client = new Client(url, { nodeTimeout: ${PATIENCE} });
    await client.withLock(key, async () => {
      const second = client.lock(key, { wait: 3_000 });
      // Both are told at once: what the listener hears after a second, and that the time is over.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 4_000);
      await second.catch(({ name }) => console.log(name));
    });
    abort.abort();
    await waiting;`;
  const program = new Program(t, text, [server.url, key]);
  const said = [await program.line(), await program.line(), await program.line()];
  assert.deepEqual(said, ['mine', 'HeldError', 'AbortError']);
  await program.end();
});
