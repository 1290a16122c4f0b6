// The channel `dlock:log` of node:diagnostics_channel.

import assert from 'node:assert/strict';
import { channel } from 'node:diagnostics_channel';
import { eventually, PATIENCE } from './server.mjs';
import { Program, testWithServer } from './with.mjs';

/** Watches what is logged until the test ends. */
function watchLog(t) {
  const lines = [];
  const hear = (line) => lines.push(line);
  channel('dlock:log').subscribe(hear);
  t.after(() => channel('dlock:log').unsubscribe(hear));
  return lines;
}

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
  const text = `import { subscribe } from 'node:diagnostics_channel';
    subscribe('dlock:log', () => {});
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
