// The ends of processes and worker threads, and how the package is imported and installed.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import * as imported from 'dlock';
import { HERE, PATIENCE, TOP } from './server.mjs';
import { Program, testAlone, testWithServer } from './with.mjs';

const BEGIN = `const client = new Client(url, { nodeTimeout: ${PATIENCE} });`;

testWithServer('a process with nothing else to do ends, and releases', async ({ t, server, key }) => {
  const text = `${BEGIN}
    for (let n = 0; n < 20; n += 1) globalThis[n] = await client.lock(key + ':' + n, { ttl: 600_000 }).acquire();
    globalThis[0].signal.onabort = () => {};
    console.log('held');`;
  const program = new Program(t, text, [server.url, key]);
  assert.equal(await program.line(), 'held');
  await program.end();
  // Nothing is left when the process has ended.
  for (let n = 0; n < 20; n += 1) assert.ok(await server.isFree(`${key}:${n}`));
});

testWithServer('a process that calls exit or throws releases', async ({ t, server, key }) => {
  for (const [end, code] of [
    ['process.exit(3)', 3],
    ['throw new Error("enough")', 1],
  ]) {
    const program = new Program(
      t,
      `${BEGIN} globalThis.g = await client.lock(key, { ttl: 600_000 }).acquire(); ${end}`,
      [server.url, key],
    );
    await program.end(code);
    assert.ok(await server.isFree(key));
  }
});

testWithServer(
  'a process ends, and releases, when its guards are collected in the end',
  async ({ t, server, key }) => {
    const text = `${BEGIN}
      process.once('exit', () => globalThis.gc());
      for (let n = 0; n < 20; n += 1) await client.lock(key + ':' + n, { ttl: 600_000 }).acquire();`;
    await new Program(t, text, [server.url, key], ['--expose-gc']).end();
    for (let n = 0; n < 20; n += 1) assert.ok(await server.isFree(`${key}:${n}`));
  },
);

testWithServer('a process that waits does not end', async ({ t, server, client, key }) => {
  const guard = await client.lock(key).acquire();
  const text = `${BEGIN} await client.lock(key).run(() => console.log('held'));`;
  const program = new Program(t, text, [server.url, key]);
  await server.untilWaiting(key, 1);
  await guard.release();
  assert.equal(await program.line(), 'held');
  await program.end();
});

testWithServer('a process that exits while it waits leaves the queue', async ({ t, server, client, key }) => {
  const guard = await client.lock(key).acquire();
  const text = `${BEGIN} client.lock(key).acquire(); process.stdin.on('data', () => process.exit(0));`;
  const program = new Program(t, text, [server.url, key]);
  await server.untilWaiting(key, 1);
  program.process.stdin.write('end\n');
  await program.end();
  // The place is not reserved after the end.
  assert.equal(await server.waiting(key), 0);
  await guard.release();
});

testWithServer('a release that is under way at the exit arrives', async ({ t, server, key }) => {
  const text = `${BEGIN}
    const guard = await client.lock(key, { ttl: 600_000, renew: false }).acquire();
    guard.release();
    process.exit(0);`;
  for (let turn = 0; turn < 5; turn += 1) {
    const program = new Program(t, text, [server.url, key]);
    await program.end();
    assert.ok(await server.isFree(key));
  }
});

function worker(t, ...data) {
  const started = new Worker(join(HERE, 'worker.cjs'), { workerData: [...data, PATIENCE] });
  const said = () => new Promise((resolve, reject) => started.once('message', resolve).once('error', reject));
  const ended = new Promise((resolve) => started.once('exit', resolve));
  t.after(() => started.terminate());
  return { started, said, ended };
}

testWithServer('worker threads have locks of their own', async ({ t, server, key }) => {
  const { started, said, ended } = worker(t, server.url, key);
  const fence = await said();
  assert.equal(await server.fence(key), fence);
  started.postMessage('release');
  assert.equal(await said(), 'done');
  assert.ok(await server.isFree(key));
  assert.equal(await ended, 0);
});

testWithServer('a worker thread that ends releases, however it ends', async ({ t, server, key }) => {
  for (const end of [(started) => started.postMessage('leave'), (started) => started.terminate()]) {
    const { started, said, ended } = worker(t, server.url, key);
    await said();
    await end(started);
    await ended;
    assert.ok(await server.isFree(key));
  }
});

testWithServer(
  'a worker thread that is terminated while it waits leaves nothing',
  async ({ t, server, client, key }) => {
    for (let turn = 0; turn < 20; turn += 1) {
      const guard = await client.lock(key).acquire();
      const { started } = worker(t, server.url, key);
      await server.untilWaiting(key, 1);
      // The grant and the end are under way at once.
      await Promise.all([guard.release(), started.terminate()]);
      await server.untilFree(key);
    }
  },
);

testAlone('it can be imported and required, and is the same', () => {
  const required = createRequire(import.meta.url)('dlock');
  for (const [name, value] of Object.entries(required)) assert.equal(Reflect.get(imported, name), value);
  assert.ok(imported.Client && imported.LostError);
});

testAlone('importing it starts nothing', () => {
  const tasks = "console.log(require('node:fs').readdirSync('/proc/self/task').length)";
  const count = (begin) => {
    const words = ['--eval', `${begin};${tasks}`];
    return Number(execFileSync(process.execPath, words, { cwd: HERE, encoding: 'utf8' }));
  };
  assert.equal(count("require('dlock')"), count(''));
});

testAlone('the package installs where there is nothing else, and runs no scripts', () => {
  const folder = mkdtempSync(join(tmpdir(), 'dlock-test-'));
  try {
    const [file] = readdirSync(join(TOP, 'dist')).filter((name) => name.endsWith('.tgz'));
    const words = [
      'install',
      '--offline',
      '--no-audit',
      '--no-fund',
      '--loglevel=error',
      join(TOP, 'dist', file),
    ];
    // A folder of headers, which some machines name, means nothing to npm.
    const { npm_config_nodedir: _, ...env } = process.env;
    execFileSync('npm', words, { cwd: folder, env });
    const there = join(folder, 'node_modules/dlock');
    const { scripts, dependencies, gypfile } = JSON.parse(readFileSync(join(there, 'package.json'), 'utf8'));
    assert.deepEqual([scripts, dependencies, gypfile], [undefined, undefined, undefined]);
    const said = execFileSync(process.execPath, ['-p', "new (require('dlock').Client)('redis://a').nodes[0]"], {
      cwd: folder,
      encoding: 'utf8',
    });
    assert.equal(said, 'redis://a:6379\n');
    const licences = readFileSync(join(there, 'THIRD-PARTY.txt'), 'utf8');
    assert.match(licences, /^dlock for Node.js: made of these packages/);
    for (const name of ['tokio', 'redis', 'rustls', 'ring', 'napi'])
      assert.ok(licences.includes(`\n${name} `), name);
    assert.ok(readFileSync(join(there, 'LICENSE'), 'utf8').length > 500);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
