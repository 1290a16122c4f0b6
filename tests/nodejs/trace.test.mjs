// Locks as programs see them that subscribe to node:diagnostics_channel.

import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import { channel, tracingChannel } from 'node:diagnostics_channel';
import { HeldError, LostError } from 'dlock';
import { eventually, PATIENCE } from './server.mjs';
import { Program, testWithServer, thrown } from './with.mjs';

/** Watches a tracing channel until the test ends: what is told about locks whose names begin so. */
function watch(t, name, key) {
  const told = [];
  const tell = (kind) => (message) => {
    if (String(message.key).startsWith(key)) told.push([kind, message]);
  };
  const subscribers = { start: tell('start'), asyncEnd: tell('end'), error: tell('error') };
  tracingChannel(`dlock:${name}`).subscribe(subscribers);
  t.after(() => tracingChannel(`dlock:${name}`).unsubscribe(subscribers));
  const kinds = () => told.map(([kind]) => kind);
  const first = () => told[0][1];
  return { told, kinds, first };
}

/** Watches what is logged until the test ends. */
function watchLog(t) {
  const lines = [];
  const hear = (line) => lines.push(line);
  channel('dlock:log').subscribe(hear);
  t.after(() => channel('dlock:log').unsubscribe(hear));
  return lines;
}

testWithServer('an acquisition and a hold are traced', async ({ t, server, client, key }) => {
  const [acquire, hold] = [watch(t, 'acquire', key), watch(t, 'hold', key)];
  const guard = await client.lock(key, { ttl: 20_000, wait: 60_000 }).acquire();
  assert.deepEqual(acquire.kinds(), ['start', 'end']);
  const { nodes, options, result } = acquire.first();
  assert.deepEqual(nodes, [server.url]);
  const others = { shared: false, meta: '', again: false, renew: true };
  assert.deepEqual({ ...options }, { ttl: 20_000, wait: 60_000, ...others });
  assert.equal(result, guard.fence);
  assert.deepEqual(hold.kinds(), ['start']);
  await guard.release();
  assert.deepEqual(hold.kinds(), ['start', 'end']);
  assert.equal(hold.first().fence, guard.fence);
  assert.equal(hold.first().acquire, acquire.first());
  assert.ok(!JSON.stringify([acquire.told, hold.told]).includes(guard.token));
});

testWithServer('a wait is traced, with what it waits for', async ({ t, server, client, key }) => {
  const [acquire, wait] = [watch(t, 'acquire', key), watch(t, 'wait', key)];
  const first = await client.lock(key).acquire();
  const waiting = client.lock(key).acquire();
  await eventually('it waits', () => wait.told.length > 0);
  const { waitsFor, waited, acquire: of } = wait.first();
  assert.match(waitsFor, new RegExp(`^${server.url}: .*held`));
  assert.equal(waited, undefined);
  assert.equal(of, acquire.told[2][1]);
  await first.release();
  await (await waiting).release();
  assert.deepEqual(wait.kinds().slice(0, 2), ['start', 'end']);
  assert.ok(wait.first().waited > 0);
});

testWithServer('a lock that is held is no error of tryAcquire', async ({ t, client, key }) => {
  await client.lock(key).run(async () => {
    const acquire = watch(t, 'acquire', key);
    assert.equal(await client.lock(key).tryAcquire(), null);
    assert.deepEqual(acquire.kinds(), ['start', 'end']);
    assert.equal(acquire.first().result, null);
    const error = await thrown(HeldError, client.lock(key, { wait: 0 }).acquire());
    assert.deepEqual(acquire.kinds().slice(2), ['start', 'error', 'end']);
    assert.equal(acquire.told[2][1].error, error);
  });
});

testWithServer('a wait that is given up ends', async ({ t, server, client, key }) => {
  const [acquire, wait] = [watch(t, 'acquire', key), watch(t, 'wait', key)];
  await client.lock(key).run(async () => {
    const abort = new AbortController();
    const waiting = client.lock(key, { signal: abort.signal }).acquire();
    await eventually('it waits', () => wait.told.length > 0);
    abort.abort();
    await assert.rejects(waiting, { name: 'AbortError' });
    await eventually('it is told', () => wait.kinds().includes('end'));
    assert.deepEqual(acquire.kinds(), ['start', 'end', 'start', 'error', 'end']);
    await server.untilWaiting(key, 0);
  });
});

testWithServer('a loss is the error of a hold, at once', async ({ t, server, client, key }) => {
  const hold = watch(t, 'hold', key);
  const guard = await client.lock(key, { ttl: 6_000 }).acquire();
  await server.run('DLOCK.BREAK', key);
  await eventually('it is told', () => hold.kinds().includes('error'));
  assert.ok(hold.first().error instanceof LostError);
  assert.equal(hold.first().error.why, 'ended');
  await thrown(LostError, guard.release());
  assert.deepEqual(hold.kinds(), ['start', 'error', 'end']);
});

testWithServer('a guard that is watched can be collected, which ends the hold', async ({ t, client, key }) => {
  const hold = watch(t, 'hold', key);
  await (async () => void (await client.lock(key).acquire()))();
  await eventually('it is told', () => {
    globalThis.gc();
    return hold.kinds().includes('end');
  });
});

testWithServer('a wait is traced where its acquisition was begun', async ({ t, client, key }) => {
  const [requests, seen] = [new AsyncLocalStorage(), {}];
  for (const name of ['acquire', 'wait', 'hold']) {
    const subscribers = {
      start: () => {
        seen[name] = requests.getStore();
      },
    };
    tracingChannel(`dlock:${name}`).subscribe(subscribers);
    t.after(() => tracingChannel(`dlock:${name}`).unsubscribe(subscribers));
  }
  const first = await client.lock(key).acquire();
  const second = requests.run('a request', () => client.lock(key).acquire());
  await eventually('it waits', () => seen.wait);
  await first.release();
  await (await second).release();
  assert.deepEqual(seen, { acquire: 'a request', wait: 'a request', hold: 'a request' });
});

testWithServer('what happens is logged, without secrets', async ({ t, client, key }) => {
  const lines = watchLog(t);
  const find = (message) => lines.find((line) => line.message === message && line.fields.key === key)?.fields;
  const before = Date.now();
  const guard = await client.lock(key).acquire();
  await eventually('it is told', () => find('acquired'));
  assert.equal(find('acquired').fence, String(guard.fence));
  const waiting = client.lock(key).acquire();
  await eventually('the wait, too', () => find('waits for its turn'));
  assert.match(find('waits for its turn').waits_for, /held/);
  await guard.release();
  await (await waiting).release();
  await eventually('the end, too', () => find('not held any more'));
  for (const { level, time } of lines) {
    assert.ok(['debug', 'info', 'warn'].includes(level), level);
    assert.ok(time >= before - 1 && time <= Date.now() + 1);
  }
  assert.ok(!JSON.stringify(lines).includes(guard.token));
});

testWithServer('nothing is logged for who has stopped listening', async ({ t, client, key }) => {
  const lines = [];
  const hear = ({ fields }) => lines.push(fields.key);
  channel('dlock:log').subscribe(hear);
  await client.lock(`${key}:1`).run(() => {});
  await eventually('it is told', () => lines.includes(`${key}:1`));
  channel('dlock:log').unsubscribe(hear);
  await client.lock(`${key}:2`).run(() => {});
  const later = watchLog(t);
  await client.lock(`${key}:3`).run(() => {});
  await eventually('it is told', () => later.some(({ fields }) => fields.key === `${key}:3`));
  assert.ok(!later.some(({ fields }) => fields.key === `${key}:2`));
});

const WORK = `const client = new Client(url, { nodeTimeout: ${PATIENCE} });`;

testWithServer('who listens does not keep the process alive', async ({ t, server, key }) => {
  const text = `import { subscribe, tracingChannel } from 'node:diagnostics_channel';
    subscribe('dlock:log', () => {});
    for (const name of ['acquire', 'wait', 'hold']) tracingChannel('dlock:' + name).subscribe({ start() {} });
    ${WORK} globalThis.guard = await client.lock(key, { ttl: 600_000 }).acquire();
    console.log('held');`;
  const program = new Program(t, text, [server.url, key]);
  assert.equal(await program.line(), 'held');
  await program.end();
  assert.ok(await server.isFree(key));
});

testWithServer('NODE_DEBUG prints what happens, once in a process', async ({ t, server, key }) => {
  const text = `import { Worker } from 'node:worker_threads';
    ${WORK}
    await client.lock(key + ':0').run(() => {});
    for (const n of [1, 2]) {
      const worker = new Worker('./worker.cjs', { workerData: [url, key + ':' + n, ${PATIENCE}] });
      const ended = new Promise((resolve) => worker.once('exit', resolve));
      worker.once('message', () => worker.postMessage('release'));
      await ended;
    }
    await client.close();`;
  const program = new Program(t, text, [server.url, key], [], { NODE_DEBUG: 'dlock' });
  await program.end();
  for (const n of [0, 1, 2]) {
    const lines = program.err.split('\n').filter((line) => `${line} `.includes(` key=${key}:${n} `));
    const acquired = lines.filter((line) => /^DLOCK \d+: debug: acquired /.test(line));
    assert.equal(acquired.length, 1, program.err);
  }
});
