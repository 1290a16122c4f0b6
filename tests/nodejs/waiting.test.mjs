// Waits: aborts and outages.

import assert from 'node:assert/strict';
import { setImmediate } from 'node:timers/promises';
import { Client, HeldError } from 'dlock';
import { eventually, LEASE, PATIENCE } from './server.mjs';
import { newKey, ownServer, Program, testAlone, testWithEveryServer, testWithServer, thrown } from './with.mjs';

testWithEveryServer('an abort ends a wait and leaves nothing', async ({ server, client, key }) => {
  const guard = await client.lock(key).acquire();
  const abort = new AbortController();
  const waiting = client.lock(key, { signal: abort.signal }).acquire();
  await server.untilWaiting(key, 1);
  abort.abort(new RangeError('enough'));
  assert.equal((await thrown(RangeError, waiting)).message, 'enough');
  await server.untilWaiting(key, 0);
  await guard.release();
  assert.ok(await server.isFree(key));
});

testWithServer('a signal may end many waits, and Node.js warns of none', async ({ t, server, client, key }) => {
  const [abort, warnings] = [new AbortController(), []];
  const listen = (warning) => warnings.push(warning.message);
  process.on('warning', listen);
  t.after(() => process.off('warning', listen));
  await client.lock(key).run(async () => {
    // The first to end does not end the others.
    await thrown(HeldError, client.lock(key, { signal: abort.signal, wait: 0 }).acquire());
    const waits = Array.from({ length: 20 }, () => client.lock(key, { signal: abort.signal }).acquire());
    await thrown(HeldError, client.lock(key, { signal: abort.signal, wait: 0 }).acquire());
    await server.untilWaiting(key, 20);
    abort.abort();
    for (const { reason } of await Promise.allSettled(waits)) assert.equal(reason.name, 'AbortError');
    await server.untilWaiting(key, 0);
  });
  assert.deepEqual(warnings, []);
});

testWithServer('a signal that was aborted before asks for nothing', async ({ server, client, key }) => {
  await assert.rejects(client.lock(key, { signal: AbortSignal.abort() }).acquire(), { name: 'AbortError' });
  await assert.rejects(
    client.lock(key, { signal: AbortSignal.abort() }).run(() => {}),
    { name: 'AbortError' },
  );
  assert.ok(await server.isFree(key));
});

testWithServer('a time-out of a signal ends a wait', async ({ client, key }) => {
  await client.lock(key).run(async () => {
    const waiting = client.lock(key, { signal: AbortSignal.timeout(30) }).acquire();
    await assert.rejects(waiting, { name: 'TimeoutError' });
  });
});

testWithServer(
  'a thousand aborts in the moment of the grant leave nothing',
  async ({ server, client, key }) => {
    let granted = 0;
    for (let step = 0; step < 1000; step += 1) {
      const abort = new AbortController();
      const waiting = client.lock(key, { ttl: 600_000, signal: abort.signal }).acquire();
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
  const guard = await client.lock(key, { signal: abort.signal }).acquire();
  abort.abort();
  guard.check();
  await guard.release();
});

testAlone('a wait goes on through an outage, with notices', async (t) => {
  const [server, key, told] = [await ownServer(t), newKey(), []];
  const client = new Client(server.url, { nodeTimeout: 10_000, notify: (notice) => told.push(notice) });
  // The quarantine after the crash is as long as the server's longest lease.
  await client.lock(key, { ttl: LEASE }).run(() => {});
  await server.kill();
  const waiting = client.lock(key, { ttl: LEASE }).acquire();
  await eventually('it is told', () => told.length > 0);
  const [{ event, message, key: lock, needed, nodes, ...rest }] = told;
  assert.deepEqual([event, lock, needed, rest], ['outage', key, 1, {}]);
  assert.ok(message.startsWith(`waiting for lock '${key}'`));
  assert.deepEqual(
    nodes.map((report) => report.node),
    [server.url],
  );
  await server.start();
  await (await waiting).release();
  await eventually('its end, too', () => told.some((notice) => notice.event === 'back' && notice.key === key));
});

testWithServer('a listener that throws takes no outcome along', async ({ t, server, key }) => {
  const text = `process.on('uncaughtException', (error) => console.log(error.message));
    const notify = () => { throw new Error('mine'); };
    const away = new Client('redis://127.0.0.1:1', { notify });
    const abort = new AbortController();
    const waiting = away.lock(key, { signal: abort.signal }).acquire().catch(({ name }) => console.log(name));
    const client = new Client(url, { nodeTimeout: ${PATIENCE} });
    await client.lock(key).run(async () => {
      const second = client.lock(key, { wait: 3_000 }).acquire();
      // The notice and the end of the wait arrive in one turn of the event loop.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 4_000);
      await second.catch(({ name }) => console.log(name));
    });
    abort.abort();
    await waiting;`;
  const program = new Program(t, text, [server.url, key]);
  const said = [await program.line(), await program.line(), await program.line()];
  assert.deepEqual(said.sort(), ['AbortError', 'HeldError', 'mine']);
  await program.end();
});

testWithServer('a client with a listener is collected', async ({ server, key }) => {
  const freed = new Set();
  const registry = new FinalizationRegistry((n) => freed.add(n));
  for (let n = 0; n < 50; n += 1) {
    // The function that it notifies may refer to it.
    const known = { client: undefined };
    known.client = new Client(server.url, { nodeTimeout: PATIENCE, notify: () => known.client });
    registry.register(known.client, n);
    await known.client.lock(`${key}:${n}`).run(() => {});
    await known.client.close();
  }
  await eventually('all are freed', () => {
    globalThis.gc();
    // The loop may have the last one in its hands.
    return freed.size >= 49;
  });
});
