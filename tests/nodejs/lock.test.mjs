// Locks, guards and errors.

import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { inspect } from 'node:util';
import { runInNewContext } from 'node:vm';
import {
  Client,
  DlockError,
  DoneError,
  HeldError,
  InternalError,
  LostError,
  NoQuorumError,
  RefusedError,
  UsageError,
} from 'dlock';
import { eventually, LEASE, PATIENCE } from './server.mjs';
import { Program, testAlone, testWithEveryServer, testWithServer, thrown } from './with.mjs';

const TOKEN = '0123456789abcdef0123456789abcdef';

testWithServer('a lock is held during a function', async ({ server, client, key }) => {
  let kept;
  const done = await client.lock(key).run(async (guard) => {
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

testWithServer('a lock that is held is not acquired', async ({ client, key }) => {
  const guard = await client.lock(key, { meta: 'the first' }).acquire();
  assert.equal(await client.lock(key).tryAcquire(), null);
  const held = await thrown(HeldError, client.lock(key, { wait: 0 }).acquire());
  assert.ok(held instanceof DlockError && held instanceof Error);
  assert.deepEqual([held.name, held.code, held.key], ['HeldError', 'held', key]);
  assert.deepEqual(
    held.nodes.map(({ state }) => state),
    ['held'],
  );
  assert.deepEqual([held.holder.fence, held.holder.meta], [guard.fence, 'the first']);
  assert.match(held.message, /is held by/);
  // On a busy machine the node may not have answered by then.
  const late = await thrown(DlockError, client.lock(key, { wait: 50 }).acquire());
  assert.ok(late instanceof HeldError || late instanceof NoQuorumError);
  await guard.release();
});

testWithServer('a scope may leave its lock done', async ({ client, key }) => {
  const guard = await client.lock(key).acquire();
  const { signal } = guard;
  await guard.done(60_000, 'exit 0');
  assert.equal(guard.isValid, false);
  await guard[Symbol.asyncDispose]();
  const done = await thrown(DoneError, client.lock(key).tryAcquire());
  assert.deepEqual([done.name, done.code, done.key, done.fence], ['DoneError', 'done', key, guard.fence]);
  assert.ok(done.left > 0 && done.left <= 60_000);
  assert.equal(done.by.outcome, 'exit 0');
  const [{ lock }] = await client.inspect(key);
  assert.deepEqual([lock.mode, lock.done.fence], ['done', guard.fence]);
  await (await client.lock(key, { again: true }).acquire()).release();
  assert.equal(signal.aborted, false);
});

testWithServer('work is done once a window, and tried again if it fails', async ({ server, client, key }) => {
  const lock = client.lock(key);
  const fails = async () => {
    throw new RangeError('no disk');
  };
  await thrown(RangeError, lock.runOnce(60_000, fails));
  await thrown(
    TypeError,
    lock.runOnce(60_000, function* () {}),
  );
  assert.ok(await server.isFree(key));
  assert.equal(await lock.runOnce(60_000, (guard) => guard.key), key);
  await thrown(DoneError, lock.runOnce(60_000, fails));
  await thrown(UsageError, client.lock(`${key}:shared`, { shared: true }).runOnce(60_000, fails));
  await thrown(UsageError, lock.runOnce(0, fails));
  await thrown(UsageError, client.lock(key).runOnce('1 h', fails));
});

testWithServer('an error has the stack of its caller', async ({ client, key }) => {
  async function caller() {
    await client.lock(key, { wait: 0 }).acquire();
  }
  await client.lock(key).run(async () => {
    assert.match((await thrown(HeldError, caller())).stack, /caller/);
  });
});

testWithServer('a guard is released where its scope ends', async ({ server, client, key }) => {
  const guard = await client.lock(key).acquire();
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
    await client.lock(name).run(async (guard) => {
      const there = typeof name === 'string' ? name : Buffer.from(name);
      assert.equal(await server.isFree(there), false);
      assert.deepEqual(guard.key, shown);
    });
  }
});

testWithServer('times are milliseconds', async ({ client, key }) => {
  const guard = await client.lock(key, { ttl: 20_000, wait: Number.POSITIVE_INFINITY }).acquire();
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
    [{ renew: null }, /renew is true or false, not null/],
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
    const refused = (error) => {
      assert.ok(error instanceof UsageError && error.code === 'usage', error);
      assert.match(error.message, words);
      return true;
    };
    assert.throws(() => client.lock('key', options), refused);
    const { wait, signal } = options ?? {};
    // Of the options of a lock, these may be given there as well.
    if (signal !== undefined || (wait !== undefined && wait !== 0)) {
      await assert.rejects(client.lock('key').acquire({ wait, signal }), refused);
    }
  }
  const proxy = new Proxy(Buffer.from('key'), {});
  for (const [name, words] of [
    [42, /a key is text or a Buffer, not 42/],
    [proxy, /a key is text or a Buffer, not object/],
    ['\ud83d!', /half a character is in '.ud83d!'/],
    ['', /the key is empty/],
  ]) {
    assert.throws(() => client.lock(name), words);
    for (const ask of [() => client.inspect(name), () => client.release(name, TOKEN)])
      assert.match((await thrown(UsageError, ask())).message, words);
  }
  const lock = client.lock('key');
  for (const [ask, words] of [
    [() => lock.tryAcquire({ wait: 5 }), /no option wait;/],
    [() => lock.acquire({ ttl: 5 }), /no option ttl;/],
    [() => lock.acquire(null), /options are an object/],
    [() => lock.run(), /body is a function, not undefined/],
    [() => client.extend('key', 'mine', 5_000, { fence: 7 }), /a token is 32 hex digits/],
    [() => client.extend('key', TOKEN, -1, { fence: 7 }), /ttl is a number of milliseconds, not -1/],
    [() => client.extend('key', TOKEN, 0, { fence: 7 }), /between 10 ms and 49 days/],
    [() => client.extend('key', TOKEN, 5_000, { fence: 1.5 }), /a fence is a whole number, not 1.5/],
    [() => client.extend('key', TOKEN, 5_000), /options are an object, not undefined/],
    [() => client.extend('key', TOKEN, 5_000, { fenc: 1 }), /there is no option fenc/],
    [() => client.release('key', Buffer.from('mine')), /a token is a text, not object/],
  ]) {
    assert.match((await thrown(UsageError, ask())).message, words);
  }
  for (const nodes of [null, 5, [5], Buffer.from('redis://a')])
    assert.throws(() => new Client(nodes), /nodes are addresses, each a text, not /);
  assert.throws(() => new Client('redis://a', { notify: 5 }), /notify is a function, not 5/);
  assert.throws(() => new Client('redis://a', null), /options are an object, not null/);
  assert.throws(() => new Client('http://localhost:6379'), /does not begin with redis:/);
  assert.throws(() => new Client(['redis://a', 'redis://a:6379']), /given twice/);
  assert.throws(() => new Client('redis://a', { timeout: 5 }), /there is no option timeout/);
});

testWithEveryServer('a lost lock is thrown at the end of the function', async ({ server, client, key }) => {
  let fence;
  const held = client.lock(key).run(async (guard) => {
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
  const held = client.lock(key).run(async () => {
    await server.run('DLOCK.BREAK', key);
    throw new RangeError('mine');
  });
  assert.equal((await thrown(RangeError, held)).message, 'mine');
});

testWithServer('the signal is aborted by a loss and not by a release', async ({ server, client, key }) => {
  const lost = await client.lock(key, { ttl: LEASE }).acquire();
  const told = new Promise((resolve) => lost.signal.addEventListener('abort', resolve));
  assert.equal(lost.signal.aborted, false);
  await server.run('DLOCK.BREAK', key);
  await told;
  assert.ok(lost.signal.reason instanceof LostError);
  assert.equal(lost.signal.reason.why, 'ended');
  await thrown(LostError, lost.release());

  const released = await client.lock(key).acquire();
  const { signal } = released;
  await released.release();
  await sleep(10);
  assert.equal(signal.aborted, false);

  for (const end of ['release', 'detach']) {
    const ended = await client.lock(`${key}:${end}`).acquire();
    await ended[end]();
    assert.equal(ended.signal.aborted, false);
    // Meanwhile the outcome of a watch would arrive.
    await client.inspect(key);
    assert.equal(ended.signal.aborted, false);
  }
});

testWithServer('garbage collection releases no lock', async ({ server, client, key }) => {
  const collected = new WeakRef(await client.lock(key).acquire());
  // The work under this lock is collected, too: nothing else refers to it.
  client.lock(`${key}:run`).run(() => new Promise(() => {}));
  await eventually('it is held', async () => !(await server.isFree(`${key}:run`)));
  await eventually('it is collected', () => {
    globalThis.gc();
    return collected.deref() === undefined;
  });
  for (let turn = 0; turn < 20; turn += 1) {
    globalThis.gc();
    await sleep(5);
  }
  for (const held of [key, `${key}:run`]) {
    assert.ok(!(await server.isFree(held)));
    await server.run('DLOCK.BREAK', held);
  }
});

testWithServer('a lease without renewal ends by itself', async ({ server, client, key }) => {
  const ended = await client.lock(key, { ttl: 500, renew: false }).acquire();
  await eventually('it has ended', () => !ended.isValid);
  await eventually('it is free', () => server.isFree(key));
  const lost = await thrown(LostError, (async () => ended.check())());
  assert.equal(lost.why, 'expired');
  const { signal } = await client.lock(key, { ttl: 1_000, renew: false }).acquire();
  await eventually('the signal tells, though its guard is collected', () => {
    globalThis.gc();
    return signal.aborted;
  });
  assert.equal(signal.reason.why, 'expired');
  await client.lock(key, { ttl: 60_000, renew: false }).run(async (guard) => {
    await guard.extend(600_000);
    assert.ok(guard.validFor > 300_000);
  });
  assert.ok(await server.isFree(key));
});

testWithServer('a lease without renewal outlives its guard', async ({ server, client, key }) => {
  const warnings = [];
  const listen = (warning) => warnings.push(warning);
  process.on('warning', listen);
  let guard = await client.lock(key, { ttl: 60_000, renew: false }).acquire();
  const collected = new WeakRef(guard);
  guard = undefined;
  await eventually('it is collected', () => {
    globalThis.gc();
    return collected.deref() === undefined;
  });
  await client.close();
  assert.ok(!(await server.isFree(key)));
  await server.run('DLOCK.BREAK', key);
  assert.deepEqual(warnings, []);
  process.off('warning', listen);
});

testWithServer('a request for a longer lease is answered at once each time', async ({ client, key }) => {
  const guard = await client.lock(key).acquire();
  for (let turn = 0; turn < 3; turn += 1) {
    await thrown(RefusedError, guard.extend(48 * 3_600_000));
    // The first extension is under way when the second is asked for.
    await Promise.all([guard.extend(1), guard.extend(1)]);
  }
  assert.match((await thrown(UsageError, guard.extend(1e300))).message, /not without end/);
  assert.equal(guard.ttl, 30_000);
  await guard.release();
});

testWithServer('a panic is an error', async ({ client, key }) => {
  const guard = await client.lock(key).acquire();
  const panicked = await thrown(InternalError, client[Symbol.for('dlock.panic')]());
  assert.match(panicked.message, /a panic for a test/);
  guard.check();
  await guard.release();
});

testWithServer('what is printed tells no secret', async ({ client, key }) => {
  const { inspect } = await import('node:util');
  const guard = await client.lock(key).acquire();
  assert.match(inspect(guard), /^Guard \{ 'key:.*', fence \d+, valid for \d+ ms \}$/);
  assert.ok(!inspect(guard, { depth: 9, showHidden: true }).includes(guard.token));
  await guard.release();
  assert.match(inspect(guard), /not held \}$/);
});

testWithServer(
  'a lock is a recipe, and how long to wait may be said where it is acquired',
  async ({ client, key }) => {
    const lock = client.lock(key, { wait: 0 });
    assert.equal(inspect(lock), `Lock { '${key}' }`);
    const guard = await lock.acquire();
    await thrown(HeldError, lock.acquire());
    const waiting = lock.acquire({ wait: Number.POSITIVE_INFINITY });
    assert.equal(await lock.tryAcquire(), null);
    await guard.release();
    const second = await waiting;
    assert.ok(second.fence > guard.fence);
    await second.release();
    const abort = new AbortController();
    abort.abort();
    await assert.rejects(client.lock(key).acquire({ signal: abort.signal }), { name: 'AbortError' });
    await client.lock(key).run({ wait: 0 }, () => {});
  },
);

testWithServer('a guard that is detached hands on its lease', async ({ server, client, key }) => {
  const guard = await client.lock(key, { ttl: 20_000 }).acquire();
  const { token } = guard;
  const lease = await guard.detach();
  assert.deepEqual([lease.key, lease.token, lease.fence], [key, token, guard.fence]);
  assert.ok(lease.validFor > 0 && lease.validFor <= 20_000);
  const other = new Client(server.url, { nodeTimeout: PATIENCE });
  const longer = await other.extend(key, token, 600_000, { fence: lease.fence });
  assert.ok(longer.validFor > 20_000 && longer.validFor <= 600_000);
  assert.equal(await other.release(key, TOKEN), false);
  assert.equal(await other.release(key, token), true);
});

testWithServer('a lost lock is not handed on', async ({ server, client, key }) => {
  const guard = await client.lock(key, { ttl: 20_000 }).acquire();
  await server.run('DLOCK.BREAK', key);
  await assert.rejects(guard.extend(20_000), { code: 'lost', why: 'ended' });
  await assert.rejects(guard.detach(), { code: 'lost', why: 'ended' });
  assert.throws(() => guard.check(), { code: 'lost', why: 'ended' });
});

testWithServer('the holder and the waiters of a lock are shown', async ({ server, client, key }) => {
  assert.deepEqual(await client.inspect(key), [{ node: server.url }]);
  const guard = await client.lock(key, { meta: 'the first' }).acquire();
  const waiting = client.lock(key, { meta: 'the second', wait: 600_000 }).acquire();
  await server.untilWaiting(key, 1);
  const [{ node, lock, error }] = await client.inspect(key);
  assert.deepEqual([node, error], [server.url, undefined]);
  assert.deepEqual([lock.mode, lock.limit, lock.holding, lock.waiting], ['exclusive', 0, 1, 1]);
  const [holder] = lock.holders;
  assert.deepEqual([holder.fence, holder.meta, holder.ephemeral], [guard.fence, 'the first', false]);
  assert.ok(holder.ttl > 0 && holder.ttl <= 30_000 && holder.held >= 0 && holder.client > 0);
  assert.ok(holder.id !== '' && holder.id !== guard.token);
  const [waiter] = lock.waiters;
  assert.deepEqual([waiter.mode, waiter.meta, waiter.away], ['exclusive', 'the second', false]);
  await guard.release();
  await (await waiting).release();
  await server.run('SET', key, 'of another kind', 'PX', 60_000);
  const foreign = (await client.inspect(key))[0].lock;
  assert.deepEqual([foreign.mode, foreign.holders], ['foreign', []]);
  assert.ok(foreign.expires > 0 && foreign.expires <= 60_000);
  await server.run('DEL', key);
  const away = new Client('redis://127.0.0.1:1');
  const [unknown] = await away.inspect(key);
  assert.equal(unknown.lock, undefined);
  assert.equal(unknown.error.state, 'unreachable');
});

testWithServer('without nodes those of DLOCK_NODES are used', async ({ t, server, key }) => {
  const text = `
    for (const nodes of [undefined, '', ' ']) {
      if (nodes === undefined) delete process.env.DLOCK_NODES;
      else process.env.DLOCK_NODES = nodes;
      try { new Client(); } catch (error) { console.log(error.code, /DLOCK_NODES names none/.test(error.message)); }
    }
    process.env.DLOCK_NODES = url.replace('redis://', '');
    const client = new Client(undefined, { nodeTimeout: 60_000 });
    await client.lock(key).run(() => console.log(client.nodes.join()));`;
  const program = new Program(t, text, [server.url, key]);
  for (let n = 0; n < 3; n += 1) assert.equal(await program.line(), 'usage true');
  assert.equal(await program.line(), server.url);
  await program.end();
});
