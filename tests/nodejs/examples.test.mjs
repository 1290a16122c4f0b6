// The examples of src/nodejs/examples, each with its purpose.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { eventually, freePort, TOP } from './server.mjs';
import { testWithServer } from './with.mjs';

/** Starts an example; it ends with the test. */
function start(t, server, name, env = {}) {
  const program = spawn(process.execPath, [join(TOP, 'src/nodejs/examples', name)], {
    env: { ...process.env, DLOCK_NODES: server.url, ...env },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  t.after(() => program.kill('SIGKILL'));
  return program;
}

async function line(program) {
  const { value, done } = await createInterface(program.stdout)[Symbol.asyncIterator]().next();
  assert.ok(!done, 'it ended');
  return value;
}

testWithServer('example: a job for cron runs on one machine', async ({ t, server }) => {
  const first = start(t, server, 'cron.mjs');
  assert.equal(await line(first), 'runs');
  const second = start(t, server, 'cron.mjs');
  await server.untilWaiting('nightly', 1);
  first.stdin.end();
  assert.equal(await text(second.stdout), 'done already\n');
  assert.equal(second.exitCode ?? (await once(second, 'close'))[0], 0);
});

testWithServer('example: one service leads and another takes over', async ({ t, server }) => {
  const services = [1, 2, 3].map(() => start(t, server, 'service.mjs'));
  await server.untilWaiting('leader', 2);
  const leads = async () => (await server.inspect('leader')).holders[0].join(' ');
  const leader = await leads();
  const first = services.find((service) => leader.includes(`process ${service.pid}`));
  assert.match(await line(first), /^leads \d+$/);
  first.kill('SIGTERM');
  const [code] = await once(first, 'close');
  assert.equal(code, 0);
  await server.untilWaiting('leader', 1);
  assert.ok(!(await leads()).includes(`process ${first.pid}`));
});

testWithServer('example: each request of a web server has the lock of its account', async ({ t, server }) => {
  const port = await freePort();
  start(t, server, 'web.mjs', { PORT: port });
  const ask = async () => {
    const answer = await fetch(`http://127.0.0.1:${port}/7`, { headers: { connection: 'close' } });
    assert.equal(answer.status, 200);
    return (await answer.text()).split(' ');
  };
  const processes = new Set();
  await eventually('two processes answer', async () => {
    const [pid] = await ask().catch(() => []);
    if (pid !== undefined) processes.add(pid);
    return processes.size > 1;
  });
  const answers = await Promise.all(Array.from({ length: 200 }, ask));
  assert.equal(new Set(answers.map(([, fence]) => fence)).size, 200);
  await server.untilFree('account:/7');
});
