// The messages in node:diagnostics_channel.

import assert from 'node:assert/strict';
import { channel, tracingChannel } from 'node:diagnostics_channel';
import { HeldError } from 'dlock';
import { eventually, PATIENCE } from './server.mjs';
import { Program, testWithServer, thrown } from './with.mjs';

/** Watches what is logged until the test ends. */
function watchLog(t) {
  const lines = [];
  const hear = (line) => lines.push(line);
  channel('dlock:log').subscribe(hear);
  t.after(() => channel('dlock:log').unsubscribe(hear));
  return lines;
}

testWithServer('an acquisition is traced', async ({ t, server, client, key }) => {
  const told = [];
  const tell = (kind) => (message) => message.key === key && told.push([kind, message]);
  const subscribers = { start: tell('start'), asyncEnd: tell('end'), error: tell('error') };
  tracingChannel('dlock:acquire').subscribe(subscribers);
  t.after(() => tracingChannel('dlock:acquire').unsubscribe(subscribers));
  const guard = await client.lock(key).acquire();
  assert.deepEqual(told[0][1], { key, nodes: [server.url], result: guard.fence });
  assert.equal(await client.lock(key).tryAcquire(), null);
  assert.equal(told[2][1].result, null);
  const error = await thrown(HeldError, client.lock(key, { wait: 0 }).acquire());
  assert.equal(told[4][1].error, error);
  const kinds = told.map(([kind]) => kind);
  assert.deepEqual(kinds, ['start', 'end', 'start', 'end', 'start', 'error', 'end']);
  await guard.release();
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

const WORK = `const client = new Client(url, { nodeTimeout: ${PATIENCE} });`;

testWithServer('a process with subscribers ends', async ({ t, server, key }) => {
  const text = `import { subscribe, tracingChannel } from 'node:diagnostics_channel';
    subscribe('dlock:log', () => {});
    tracingChannel('dlock:acquire').subscribe({ start() {} });
    ${WORK} globalThis.guard = await client.lock(key, { ttl: 600_000 }).acquire();
    console.log('held');`;
  const program = new Program(t, text, [server.url, key]);
  assert.equal(await program.line(), 'held');
  await program.end();
  assert.ok(await server.isFree(key));
});

testWithServer('NODE_DEBUG prints what happens', async ({ t, server, key }) => {
  const program = new Program(t, `${WORK} await client.lock(key).run(() => {});`, [server.url, key], [], {
    NODE_DEBUG: 'dlock',
  });
  await program.end();
  assert.match(program.err, new RegExp(`^DLOCK \\d+: debug: acquired .*key=${key} `, 'm'));
});
