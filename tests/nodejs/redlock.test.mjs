// `dlock/redlock`: what programs with redlock and its fork @sesamecare-oss/redlock expect, and what differs.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { inspect } from 'node:util';
import { Redlock as Fork } from '@sesamecare-oss/redlock';
import { Client, UsageError } from 'dlock';
import { ExecutionError, Redlock, ResourceLockedError } from 'dlock/redlock';
import { Cluster, Redis } from 'ioredis';
import { eventually, LEASE } from './server.mjs';
import { newKey, ownServer, testAlone, testWithEveryServer, testWithServer, thrown } from './with.mjs';

const { address } = createRequire(import.meta.url)('./node_modules/dlock/lib/ioredis.js');

/** The same for a program with the fork and for one that has moved. */
for (const Class of [Fork, Redlock]) {
  const which = Class === Fork ? 'redlock' : 'dlock';

  testWithServer(`${which}: acquires, extends, and releases a lock`, async ({ server, key }) => {
    const redis = server.redis();
    const redlock = new Class([redis]);
    const lock = await redlock.acquire([key], 600_000);
    assert.equal(typeof lock.value, 'string');
    assert.deepEqual(lock.resources, [key]);
    assert.ok(lock.expiration > Date.now() && lock.expiration <= Date.now() + 600_000);
    const longer = await lock.extend(1_200_000);
    assert.equal(lock.expiration, 0);
    assert.equal(longer.value, lock.value);
    assert.ok(longer.expiration > Date.now() + 600_000);
    const { attempts } = await longer.release();
    assert.equal(longer.expiration, 0);
    assert.equal((await attempts[0]).votesFor.size, 1);
    await (await redlock.acquire([key], 600_000)).release();
    await redlock.quit();
  });

  testWithServer(`${which}: a lock over several resources excludes each of them`, async ({ server, key }) => {
    const redlock = new Class([server.redis()], { retryCount: 0 });
    const [a, b] = [`{${key}}:a`, `{${key}}:b`];
    const lock = await redlock.acquire([b, a], 600_000);
    for (const resources of [[a], [b], [a, `{${key}}:c`]]) {
      const error = await redlock.acquire(resources, 600_000).catch((refused) => refused);
      assert.equal(error.name, 'ExecutionError');
      const [reason] = (await error.attempts.at(-1)).votesAgainst.values();
      assert.equal(reason.name, 'ResourceLockedError');
    }
    await (await redlock.acquire([`{${key}}:c`], 600_000)).release();
    await lock.release();
    await redlock.quit();
  });

  testWithServer(
    `${which}: a lock that has ended is neither extended nor released`,
    async ({ server, key }) => {
      const redlock = new Class([server.redis()], { retryCount: 0 });
      const lock = await redlock.acquire([key], 600_000);
      await lock.release();
      await assert.rejects(lock.extend(600_000), /Cannot extend an already-expired lock/);
      await assert.rejects(lock.release(), { name: 'ExecutionError' });
      await assert.rejects(redlock.acquire([key], 0.5), /must be an integer/);
      await redlock.quit();
    },
  );

  testWithServer(`${which}: using holds a lock until the routine has ended`, async ({ server, key }) => {
    const redlock = new Class([server.redis()], { retryCount: 0 });
    const done = await redlock.using([key], 60_000, async (signal, { lock }) => {
      assert.equal(signal.aborted, false);
      assert.ok(lock.expiration > Date.now());
      await assert.rejects(redlock.acquire([key], 60_000), { name: 'ExecutionError' });
      return 'done';
    });
    assert.equal(done, 'done');
    await assert.rejects(
      redlock.using([key], 60_000, { retryCount: 0 }, async () => {
        throw new RangeError('mine');
      }),
      { message: 'mine' },
    );
    await (await redlock.acquire([key], 60_000)).release();
    await redlock.quit();
  });
}

testWithEveryServer('both exclude each other on the same key', async ({ server, key }) => {
  // Without a setting the fork takes database 0, whatever that of the client.
  for (const [client, settings] of [
    [{}, {}],
    [{ db: 2 }, { db: 0 }],
  ]) {
    const redis = server.redis(client);
    const old = new Fork([redis], { retryCount: 0 });
    const moved = new Redlock([redis], { retryCount: 0, ...settings });
    for (const [holder, other] of [
      [old, moved],
      [moved, old],
    ]) {
      const lock = await holder.acquire([key], 60_000);
      await assert.rejects(other.acquire([key], 60_000), { name: 'ExecutionError' });
      await lock.release();
    }
    redis.disconnect();
  }
});

testWithServer('it waits for as long as redlock would ask again', async ({ server, client, key }) => {
  const redlock = new Redlock([server.url], { retryCount: 300, retryDelay: 200 });
  const guard = await client.lock(key).acquire();
  const waiting = redlock.acquire([key], 60_000);
  await server.untilWaiting(key, 1);
  await guard.release();
  const lock = await waiting;
  assert.ok(lock.fences.get(key) > guard.fence);
  await lock.release();
  const unset = new Redlock([server.url], { retryCount: undefined, retryDelay: undefined });
  assert.deepEqual([unset.settings.retryCount, unset.settings.retryDelay], [10, 200]);
  for (const settings of [{ retryCount: undefined }, { retryCount: Number.POSITIVE_INFINITY, retryDelay: 0 }])
    await (await unset.acquire([key], 60_000, settings)).release();
  const hurried = new Redlock([server.url], { retryCount: 0 });
  await client.lock(key).run(async () => {
    const error = await thrown(ExecutionError, hurried.acquire([key], 60_000));
    assert.equal(error.cause.code, 'held');
    const told = [];
    hurried.on('error', (reason) => told.push(reason));
    await thrown(ExecutionError, hurried.acquire([key], 60_000));
    assert.ok(told[0] instanceof ResourceLockedError);
  });
});

testWithServer('the routine of using is renewed, and what was acquired is not', async ({ server, key }) => {
  const redlock = new Redlock([server.url]);
  const lock = await redlock.acquire([`${key}:ending`], LEASE);
  await redlock.using([`${key}:renewed`], LEASE, async (signal) => {
    await eventually('it ends', () => server.isFree(`${key}:ending`));
    assert.equal(await server.isFree(`${key}:renewed`), false);
    assert.equal(signal.aborted, false);
  });
  await thrown(ExecutionError, lock.extend(LEASE));
});

testWithServer('a lock that is lost aborts the routine of using', async ({ server, key }) => {
  const redlock = new Redlock([server.url]);
  let why;
  const using = redlock.using([key], 6_000, async (signal) => {
    await server.run('DLOCK.BREAK', key);
    await eventually('it is told', () => signal.aborted);
    why = signal.error.why;
  });
  await thrown(ExecutionError, using);
  assert.equal(why, 'ended');
});

testWithServer(
  'resources of which one was lost meanwhile are not acquired',
  async ({ server, client, key }) => {
    const redlock = new Redlock([server.url], { retryCount: 300, retryDelay: 200 });
    const [a, b] = [`${key}:a`, `${key}:b`];
    let hasBegun = false;
    const routine = async () => {
      hasBegun = true;
    };
    for (const [acquire, lose] of [
      [() => redlock.acquire([a, b], 500), () => {}],
      [() => redlock.using([a, b], 60_000, routine), () => server.run('DLOCK.BREAK', a)],
    ]) {
      const first = await client.lock(b).acquire();
      const acquiring = thrown(ExecutionError, acquire());
      await server.untilWaiting(b, 1);
      await lose();
      const other = await client.lock(a).acquire();
      await first.release();
      const { cause } = await acquiring;
      assert.deepEqual([cause.code, cause.key], ['lost', a]);
      assert.equal(hasBegun, false);
      assert.ok(await server.isFree(b));
      await other.release();
    }
  },
);

testWithServer('what was acquired first is held as long as what was last', async ({ server, client, key }) => {
  const redlock = new Redlock([server.url], { retryCount: 300, retryDelay: 200 });
  const [a, b] = [`${key}:a`, `${key}:b`];
  const left = async (name) => (await client.inspect(name))[0].lock.holders[0].ttl;
  const first = await client.lock(b).acquire();
  const acquiring = redlock.acquire([a, b], 60_000);
  await server.untilWaiting(b, 1);
  await eventually('time passes', async () => (await left(a)) < 59_500);
  await first.release();
  const lock = await acquiring;
  const leftFirst = await left(a);
  assert.ok((await left(b)) <= leftFirst);
  await lock.release();
});

testAlone('a lock over three nodes survives the loss of one, with redlock as with dlock', async (t) => {
  const [key, nodes] = [newKey(), []];
  for (const kind of ['redis-7.0', 'valkey-8.1', 'valkey-9.1']) nodes.push(await ownServer(t, kind));
  const clients = nodes.map((node) => node.redis());
  for (const client of clients) client.on('error', () => {});
  const redlock = new Redlock(clients);
  await nodes[0].kill();
  const lock = await redlock.acquire([key], 60_000);
  assert.ok((await lock.release()).start > 0);
  await nodes[1].kill();
  const error = await thrown(ExecutionError, new Redlock(clients, { retryCount: 0 }).acquire([key], 60_000));
  const stats = await error.attempts[0];
  assert.deepEqual([stats.membershipSize, stats.quorumSize, stats.votesAgainst.size], [3, 2, 2]);
  for (const client of clients) client.disconnect();
});

testAlone('addresses are derived from clients of ioredis', () => {
  const lazy = { lazyConnect: true };
  const sentinels = [{ host: 's1', port: 26380 }, { host: 's2' }];
  const login = { username: 'me', password: 'p@ss,w' };
  const behind = { sentinels, name: 'main', sentinelPassword: 'x y', ...login, ...lazy };
  for (const [client, expected, db] of [
    [new Redis(lazy), 'redis://localhost:6379/0'],
    [new Redis(7000, '10.0.0.1', lazy), 'redis://10.0.0.1:7000/0'],
    [new Redis({ host: '::1', db: 3, ...lazy }), 'redis://[::1]:6379/3'],
    [new Redis({ host: '::1', db: 3, ...lazy }), 'redis://[::1]:6379/5', 5],
    [new Redis('redis://me:p%40ss@host/2', lazy), 'redis://me:p%40ss@host:6379/2'],
    [new Redis({ password: 'p@ss,w', ...lazy }), 'redis://:p%40ss%2Cw@localhost:6379/0'],
    [
      new Redis({ path: '/run/a b.sock', db: 1, ...login, ...lazy }),
      'unix:///run/a%20b.sock?user=me&pass=p%40ss%2Cw&db=1',
    ],
    [new Redis({ host: 'host', tls: {}, ...lazy }), 'rediss://host:6379/0'],
    ...[
      [{ tls: {} }, 'redis', ''],
      [{ tls: {}, enableTLSForSentinelMode: true }, 'rediss', '&sentinel-tls=no'],
      [{ sentinelTLS: {} }, 'redis', '&sentinel-tls=yes'],
      [{ tls: {}, enableTLSForSentinelMode: true, sentinelTLS: {} }, 'rediss', ''],
    ].map(([tls, scheme, end]) => [
      new Redis({ ...behind, ...tls }),
      `${scheme}+sentinel://me:p%40ss%2Cw@s1:26380,s2:26379/main/0?sentinel-pass=x%20y${end}`,
    ]),
    [
      new Cluster(['a', { host: 'b', port: 7001 }, 'redis://c:7002'], { redisOptions: login, ...lazy }),
      'redis+cluster://me:p%40ss%2Cw@a:6379,b:7001,c:7002',
    ],
    [
      new Cluster(['rediss://me:p%40ss%2Cw@a', 'rediss://me:p%40ss%2Cw@[::1]:7001'], lazy),
      'rediss+cluster://me:p%40ss%2Cw@a:6379,[::1]:7001',
    ],
  ]) {
    assert.equal(address(client, db), expected);
    // dlock can read this address.
    new Client(expected);
    client.disconnect();
  }
});

testWithServer('login, database and prefix of the client are kept', async ({ server, client, key }) => {
  await server.run('ACL', 'SETUSER', 'mover', 'on', '>p@ss,w:/', '~*', '+@all');
  const redis = server.redis({ username: 'mover', password: 'p@ss,w:/', keyPrefix: 'mine:', db: 2 });
  const redlock = new Redlock([redis], { retryCount: 0 });
  const lock = await redlock.acquire([key], 60_000);
  assert.equal(await redis.exists(key), 1);
  await client.lock(`mine:${key}`, { wait: 0 }).run(() => {});
  const there = new Client(`redis://mover:p%40ss%2Cw%3A%2F@127.0.0.1:${server.port}/2`);
  assert.equal(await there.lock(`mine:${key}`).tryAcquire(), null);
  await lock.release();
  redis.disconnect();
});

testWithServer('what is printed tells no secret of redlock', async ({ server, key }) => {
  await server.run('ACL', 'SETUSER', 'printer', 'on', '>secret', '~*', '+@all');
  const redlock = new Redlock([`redis://printer:secret@127.0.0.1:${server.port}`], { retryCount: 0 });
  const lock = await redlock.acquire([key], 60_000);
  const error = await thrown(ExecutionError, redlock.acquire([key], 60_000));
  const printed = inspect([redlock, lock, error], { depth: 9 });
  assert.ok(!printed.includes('secret') && !printed.includes(lock.value), printed);
  assert.ok(printed.includes(`Redlock { ${server.url} }`));
  assert.match(inspect(lock), /^Lock \{ 'key:.*' with fence \d+, held until \d{4}-.*Z \}$/);
  await lock.release();
  assert.match(inspect(lock), /, not held \}$/);
});

testWithServer('nonsense for redlock is refused in words', async ({ server, key }) => {
  const redlock = new Redlock([server.url]);
  assert.match((await thrown(UsageError, redlock.acquire(key, 60_000))).message, /resources are an array/);
  assert.match((await thrown(UsageError, redlock.acquire([], 60_000))).message, /nothing to lock/);
  const lock = await redlock.acquire([key], 60_000);
  assert.match((await thrown(UsageError, lock.extend(-5))).message, /duration is .* not -5/);
  await lock.release();
});

testAlone('what cannot be derived is refused in words', () => {
  const lazy = { lazyConnect: true, host: 'host' };
  const refused = (client, words) =>
    assert.throws(
      () => new Redlock([client]),
      (error) => error instanceof UsageError && words.test(error.message),
    );
  refused(new Redis({ ...lazy, tls: { rejectUnauthorized: false } }), /always checks certificates/);
  refused(new Redis({ ...lazy, tls: { ca: 'PEM' } }), /rediss:\/\/host\?ca=FILE/);
  refused(
    new Redis({ sentinels: [{ host: 's' }], name: 'main', role: 'slave', lazyConnect: true }),
    /a replica/,
  );
  refused(new Redis({ ...lazy, keyPrefix: Buffer.from('mine:') }), /a key prefix is a text/);
  // As one of node-redis, which does not name its server there.
  for (const other of [{ options: {}, sendCommand() {} }, {}, null, 5, [new Redis(lazy)]])
    refused(other, /a client is of ioredis, or an address, not /);
  assert.throws(() => new Redlock([]), /at least one/);
});
