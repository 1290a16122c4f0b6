// Locks: what they do, what they tell, what goes wrong.

import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { runInNewContext } from 'node:vm';
import {
  Client,
  DlockError,
  Guard,
  HeldError,
  InternalError,
  LostError,
  NoQuorumError,
  RefusedError,
  UsageError,
} from 'dlock';
import { eventually, PATIENCE } from './server.mjs';
import { newKey, ownServer, testAlone, testWithOneServer, testWithServer, thrown } from './with.mjs';

testWithServer('a lock is held during a function', async ({ server, client, key }) => {
  let kept;
  const done = await client.withLock(key, async (guard) => {
    assert.equal(await server.fence(key), guard.fence);
    assert.ok(Number.isSafeInteger(guard.fence));
    assert.ok(guard.isValid);
    assert.ok(guard.validFor > 0 && guard.validFor <= 30_000);
    assert.equal(guard.key, key);
    guard.check();
    kept = guard;
    return 'done';
  });
  assert.equal(done, 'done');
  assert.ok(await server.isFree(key));
  assert.equal(kept.isValid, false);
  assert.throws(
    () => kept.check(),
    (error) => error instanceof LostError && error.why === 'released' && error.fence === kept.fence,
  );
});

testWithServer('a later holder has a larger fence', async ({ client, key }) => {
  const fences = [];
  for (let turn = 0; turn < 2; turn += 1) {
    await client.withLock(key, ({ fence }) => fences.push(fence));
  }
  assert.ok(fences[1] > fences[0]);
});

testWithServer('a lock that is held is not acquired', async ({ client, key }) => {
  const guard = await client.lock(key, { meta: 'the first' });
  assert.equal(await client.tryAcquire(key), null);
  const held = await thrown(HeldError, client.lock(key, { wait: 0 }));
  assert.ok(held instanceof DlockError && held instanceof Error);
  assert.deepEqual([held.name, held.code, held.key], ['HeldError', 'held', key]);
  assert.deepEqual(
    held.nodes.map(({ state }) => state),
    ['held'],
  );
  assert.deepEqual([held.holder.fence, held.holder.meta], [guard.fence, 'the first']);
  assert.match(held.message, /is held by/);
  // On a busy machine the node may not have answered by then.
  const late = await thrown(DlockError, client.lock(key, { wait: 50 }));
  assert.ok(late instanceof HeldError || late instanceof NoQuorumError);
  await guard.release();
});

testWithServer('an error has the stack of whoever waits', async ({ client, key }) => {
  async function whoeverWaits() {
    await client.lock(key, { wait: 0 });
  }
  await client.withLock(key, async () => {
    assert.match((await thrown(HeldError, whoeverWaits())).stack, /whoeverWaits/);
  });
});

testWithServer('a guard that was released is not released again', async ({ server, client, key }) => {
  await client.withLock(key, async (guard) => {
    await guard.release();
    assert.ok(await server.isFree(key));
    assert.match((await thrown(LostError, guard.release())).message, /it was released/);
    assert.match((await thrown(LostError, guard.extend(60_000))).message, /it was released/);
  });
});

testWithServer('a guard is released where its scope ends', async ({ server, client, key }) => {
  const guard = await client.lock(key);
  await guard[Symbol.asyncDispose]();
  assert.ok(await server.isFree(key));
  await guard[Symbol.asyncDispose]();
  await client[Symbol.asyncDispose]();
});

testWithServer('keys are text or bytes', async ({ server, client, key }) => {
  const odd = Buffer.from(`${key}\xff\x00`, 'latin1');
  for (const [name, shown] of [
    [key, key],
    [Buffer.from(key), key],
    [new TextEncoder().encode(key), key],
    [runInNewContext('Uint8Array.of(...bytes)', { bytes: Buffer.from(key) }), key],
    [`${key}:süß`, `${key}:süß`],
    [odd, odd],
  ]) {
    await client.withLock(name, async (guard) => {
      const there = typeof name === 'string' ? name : Buffer.from(name);
      assert.equal(await server.isFree(there), false);
      assert.deepEqual(guard.key, shown);
    });
  }
});

testWithServer('times are milliseconds', async ({ client, key }) => {
  const guard = await client.lock(key, { ttl: 20_000, wait: Number.POSITIVE_INFINITY });
  assert.equal(guard.ttl, 20_000);
  await guard.extend(60_000);
  assert.equal(guard.ttl, 60_000);
  assert.ok(guard.validFor > 20_000 && guard.validFor <= 60_000);
  await guard.release();
});

testAlone('wrong options, keys and addresses are refused', async () => {
  const client = new Client('redis://127.0.0.1:1');
  for (const [options, words] of [
    [{ ttl: -1 }, /ttl is a number of milliseconds, not -1/],
    [{ ttl: Number.NaN }, /not NaN/],
    [{ ttl: 0 }, /a lease \(ttl\) must be between 10 ms and 49 days long, not 0ns/],
    [{ ttl: Number.POSITIVE_INFINITY }, /\(ttl\) must be .* not without end/],
    [{ ttl: '30s' }, /ttl is a number of milliseconds, not '30s'/],
    [{ ttl: null }, /ttl is a number of milliseconds, not null/],
    [{ wait: null }, /wait is a number of milliseconds, not null/],
    [{ shared: null }, /shared is true or false, not null/],
    [{ meta: null }, /meta is a text, not null/],
    [{ wait: -0.5 }, /wait/],
    [{ meta: 'x'.repeat(2000) }, /meta/i],
    [{ meta: 42 }, /meta is a text, not 42/],
    [{ maxHold: 0 }, /maxHold must be longer than zero/],
    [{ limit: 0 }, /\(limit\) needs at least one permit/],
    [{ limit: 1.5 }, /limit is a whole number of holders, not 1.5/],
    [{ limit: 2, shared: true, wait: 0 }, /not both/],
    [{ shared: 'no', wait: 0 }, /shared is true or false, not 'no'/],
    [{ signal: 5, wait: 0 }, /signal is an AbortSignal, not 5/],
    [{ signal: { throwIfAborted() {} }, wait: 0 }, /signal is an AbortSignal, not object/],
    [{ tll: 5 }, /there is no option tll/],
    [null, /options are an object, not null/],
    [5, /options are an object, not 5/],
  ]) {
    const error = await thrown(UsageError, client.lock('key', options));
    assert.match(error.message, words);
    assert.equal(error.code, 'usage');
  }
  assert.match((await thrown(UsageError, client.lock(42))).message, /a key is text or a Buffer, not 42/);
  const proxy = new Proxy(Buffer.from('key'), {});
  assert.match((await thrown(UsageError, client.lock(proxy))).message, /a key is text or a Buffer, not object/);
  assert.match((await thrown(UsageError, client.lock('\ud83d!'))).message, /half a character is in '.ud83d!'/);
  assert.match((await thrown(UsageError, client.tryAcquire(''))).message, /the key is empty/);
  assert.match((await thrown(UsageError, client.tryAcquire('key', { wait: 5 }))).message, /no option wait;/);
  assert.match((await thrown(UsageError, client.tryAcquire('key', null))).message, /options are an object/);
  assert.match((await thrown(UsageError, client.withLock('key'))).message, /body is a function, not undefined/);
  for (const nodes of [undefined, null, 5, [5], Buffer.from('redis://a')])
    assert.throws(() => new Client(nodes), /nodes are addresses, each a text, not /);
  assert.throws(() => new Client('redis://a', { notify: 5 }), /notify is a function, not 5/);
  assert.throws(() => new Client('redis://a', null), /options are an object, not null/);
  assert.throws(() => new Client('localhost:6379'), /write redis:\/\/localhost:6379/);
  assert.throws(() => new Client(['redis://a', 'redis://a:6379']), /given twice/);
  assert.throws(() => new Client('redis://a', { timeout: 5 }), /there is no option timeout/);
});

testWithServer('readers share and writers do not', async ({ client, key }) => {
  await client.withLock(key, { shared: true }, () =>
    client.withLock(key, { shared: true, wait: 0 }, async () => {
      assert.equal(await client.tryAcquire(key), null);
    }),
  );
});

testWithServer('a semaphore has its permits', async ({ client, key }) => {
  await client.withLock(key, { limit: 2 }, () =>
    client.withLock(key, { limit: 2, wait: 0 }, async () => {
      assert.equal(await client.tryAcquire(key, { limit: 2 }), null);
    }),
  );
});

testWithServer('a lock is lost after maxHold', async ({ client, key }) => {
  const held = client.withLock(key, { maxHold: 50 }, async ({ signal }) => {
    await eventually('it is lost', () => signal.aborted);
    assert.ok(signal.reason instanceof LostError);
  });
  const lost = await thrown(LostError, held);
  assert.equal(lost.why, 'max_hold');
});

testWithServer('a lost lock is told at the end of the function', async ({ server, client, key }) => {
  let fence;
  const held = client.withLock(key, async (guard) => {
    fence = guard.fence;
    await server.run('DLOCK.BREAK', key);
  });
  const lost = await thrown(LostError, held);
  assert.deepEqual([lost.why, lost.fence, lost.code], ['ended', fence, 'lost']);
  assert.deepEqual(
    lost.nodes.map(({ node }) => node),
    [server.url],
  );
});

testWithServer('an error of the function is not replaced', async ({ server, client, key }) => {
  const held = client.withLock(key, async () => {
    await server.run('DLOCK.BREAK', key);
    throw new RangeError('mine');
  });
  assert.equal((await thrown(RangeError, held)).message, 'mine');
});

testWithServer('the signal is aborted by a loss and not by a release', async ({ server, client, key }) => {
  const lost = await client.lock(key, { ttl: 6_000 });
  const told = new Promise((resolve) => lost.signal.addEventListener('abort', resolve));
  assert.equal(lost.signal.aborted, false);
  await server.run('DLOCK.BREAK', key);
  await told;
  assert.ok(lost.signal.reason instanceof LostError);
  assert.equal(lost.signal.reason.why, 'ended');
  await thrown(LostError, lost.release());

  const released = await client.lock(key);
  const { signal } = released;
  await released.release();
  await sleep(10);
  assert.equal(signal.aborted, false);
});

testWithServer('many wait, and one at a time holds', async ({ server, client, key }) => {
  let [held, most] = [0, 0];
  const work = async () => {
    for (let turn = 0; turn < 5; turn += 1) {
      await client.withLock(key, async () => {
        held += 1;
        most = Math.max(most, held);
        await sleep(1);
        held -= 1;
      });
    }
  };
  await Promise.all(Array.from({ length: 8 }, work));
  assert.equal(most, 1);
  assert.ok(await server.isFree(key));
});

testWithServer('a guard that is collected releases and warns', async ({ server, client, key }) => {
  const warnings = [];
  const listen = (warning) => warnings.push(warning);
  process.on('warning', listen);
  await (async () => {
    const guard = await client.lock(key);
    assert.equal(guard.signal.aborted, false);
  })();
  await eventually('it is collected', async () => {
    globalThis.gc();
    return server.isFree(key);
  });
  await eventually('it is told', () => warnings.some(({ message }) => message.includes(`'${key}'`)));
  assert.equal(warnings[0].name, 'DlockWarning');
  process.off('warning', listen);
});

testAlone('a lock over three nodes survives the loss of one', async (t) => {
  const key = newKey();
  const nodes = [];
  for (const kind of ['redis-7.0', 'redis-8.2', 'valkey-9.1']) nodes.push(await ownServer(t, kind));
  const addresses = nodes.map(({ url }) => url);
  const client = new Client(addresses, { nodeTimeout: PATIENCE });
  assert.deepEqual(client.nodes, addresses);
  await client.withLock(key, async (guard) => {
    await nodes[2].kill();
    await guard.extend(60_000);
    assert.ok(guard.isValid);
  });
  assert.ok(await nodes[0].isFree(key));
  await nodes[1].kill();
  const error = await thrown(NoQuorumError, new Client(addresses, { nodeTimeout: 1000 }).tryAcquire(key));
  assert.deepEqual(
    error.nodes.map(({ node }) => node),
    addresses,
  );
  assert.deepEqual(
    error.nodes.slice(1).map(({ state }) => state),
    ['unreachable', 'unreachable'],
  );
  assert.equal(error.retryAfter, undefined);
});

testAlone('quarantine says when to ask again', async (t) => {
  const server = await ownServer(t, 'redis-8.2', '--dlock.quarantine', '60000');
  const client = new Client(server.url, { nodeTimeout: PATIENCE });
  const error = await thrown(NoQuorumError, client.tryAcquire(newKey()));
  assert.equal(error.nodes[0].state, 'quarantine');
  assert.ok(error.retryAfter > 0 && error.retryAfter <= 60_000);
});

testWithServer('who asks for a longer lease hears at once each time', async ({ client, key }) => {
  const guard = await client.lock(key);
  const begun = performance.now();
  for (let turn = 0; turn < 3; turn += 1) {
    await thrown(RefusedError, guard.extend(48 * 3_600_000));
    // When the second is asked for, the first is under way.
    await Promise.all([guard.extend(1), guard.extend(1)]);
  }
  assert.ok(performance.now() - begun < 5_000);
  assert.match((await thrown(UsageError, guard.extend(1e300))).message, /not without end/);
  assert.equal(guard.ttl, 30_000);
  await guard.release();
});

testWithServer('only the fence of an exclusive lock is shown to a mark', async ({ server, client, key }) => {
  for (const options of [{ shared: true }, { limit: 2 }]) {
    await client.withLock(key, options, (guard) => {
      assert.throws(() => guard.fenced(server, key), UsageError);
    });
  }
  const guard = await client.lock(key);
  assert.throws(() => guard.fenced(server, 5), /a key is text or a Buffer, not 5/);
  for (const other of [server, null]) assert.throws(() => guard.fenced(other, key), /ioredis or node-redis/);
  await guard.release();
  assert.throws(() => guard.fenced(server, key), LostError);
});

testWithServer('fenced commands are refused once a later holder was there', async ({ server, client, key }) => {
  const [mark, data] = [`${key}:mark`, `${key}:data`];
  const redis = server.redis();
  let early;
  await client.withLock(key, async (guard) => {
    early = guard.fenced(redis, mark);
    assert.equal(await early.call('SET', data, 'early'), 'OK');
  });
  await client.withLock(key, (guard) => guard.fenced(redis, mark).call('SET', data, 'late'));
  await assert.rejects(early.call('SET', data, 'too late'), /STALE/);
  assert.equal(await redis.get(data), 'late');
  redis.disconnect();
});

testWithOneServer('fenced commands are sent by what node-redis has', async ({ client, key }) => {
  const [one, cluster] = [
    { sendCommand: async (...sent) => sent },
    { slots: [], sendCommand: async (...sent) => sent },
  ];
  await client.withLock(key, async (guard) => {
    const words = ['DLOCK.FENCED', 'mark', String(guard.fence), 'SET', 'data', '5'];
    assert.deepEqual(await guard.fenced(one, 'mark').call('SET', 'data', 5), [words]);
    assert.deepEqual(await guard.fenced(cluster, 'mark').call('SET', 'data', 5), ['mark', false, words]);
  });
});

testWithServer(
  'a panic is an error, and the guards of that client count as lost',
  async ({ server, client, key }) => {
    const other = new Client(server.url, { nodeTimeout: PATIENCE });
    const [guard, unhurt] = [await client.lock(`${key}:1`), await other.lock(`${key}:2`)];
    const { signal } = guard;
    const panicked = await thrown(InternalError, client[Symbol.for('dlock.panic')]());
    assert.match(panicked.message, /a panic for a test/);
    assert.deepEqual([guard.isValid, guard.validFor], [false, 0]);
    assert.equal(signal.reason.why, 'panicked');
    assert.throws(() => guard.check(), /its client has panicked/);
    unhurt.check();
    await unhurt.release();
  },
);

testWithServer('what is printed tells no secret', async ({ client, key }) => {
  const { inspect } = await import('node:util');
  const guard = await client.lock(key);
  assert.match(inspect(guard), /^Guard \{ 'key:.*', fence \d+, valid for \d+ ms \}$/);
  assert.ok(!inspect(guard, { depth: 9, showHidden: true }).includes(guard.token));
  await guard.release();
  assert.match(inspect(guard), /not held \}$/);
  assert.ok(guard instanceof Guard);
});
