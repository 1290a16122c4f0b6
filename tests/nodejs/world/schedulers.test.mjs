// The examples for schedulers, each with its purpose: docs/schedulers.md.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { eventually, HERE, TOP } from '../server.mjs';
import { testWithServer } from '../with.mjs';

const WORLD = fileURLToPath(new URL('.', import.meta.url));
const example = (name) => readFileSync(join(TOP, 'src/nodejs/examples', name), 'utf8');

/** A host that runs an example, with a clock that goes wrong by so many milliseconds. */
class Host {
  said = [];

  constructor(t, server, text, { late = 0, ...env } = {}) {
    const clock = `const Real = Date; globalThis.Date = class extends Real {
      constructor(...given) { if (given.length === 0) super(Real.now() + ${late}); else super(...given); }
      static now() { return Real.now() + ${late}; } };\n`;
    // Imports are loaded before the program runs, and read no clock yet.
    const node = ['--input-type=module', '--eval', text.replace('\n\nconst ', `\n\n${clock}const `)];
    this.process = spawn(process.execPath, node, {
      cwd: WORLD,
      env: { ...process.env, DLOCK_NODES: server.url, REDIS: server.url, CRON: '* * * * * *', ...env },
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    createInterface(this.process.stdout).on('line', (line) => this.said.push(line));
    t.after(() => this.process.kill('SIGKILL'));
  }

  /** The words that follow this one, line by line. */
  after(word) {
    return this.said.filter((line) => line.startsWith(`${word} `)).map((line) => line.slice(word.length + 1));
  }
}

const FIRES = 6;

testWithServer('world: a job of node-cron runs once on hosts whose clocks differ', async ({ t, server }) => {
  const hosts = [{ late: 1400, DISK: 'full' }, {}, { late: -700 }].map(
    (how) => new Host(t, server, example('node_cron.mjs'), how),
  );
  const all = (word) => hosts.flatMap((host) => host.after(word));
  await eventually('jobs ran', () => all('backs up').length >= FIRES && all('reports').length >= FIRES);
  for (const word of ['backs up', 'reports']) assert.equal(new Set(all(word)).size, all(word).length, word);
  // The host that comes first has the coordinator's jobs; its reports fail, and others make them.
  assert.ok(hosts[0].after('backs up').length > 0);
  assert.deepEqual(hosts[0].after('reports'), []);
});

testWithServer('world: a job of Nest runs once on hosts whose clocks differ', async ({ t, server }) => {
  const folder = mkdtempSync(join(WORLD, 'nest-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const how = ['--module', 'nodenext', '--target', 'es2022', '--strict', '--skipLibCheck', '--types', 'node'];
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
  writeFileSync(join(folder, 'nest.ts'), example('nest.ts'));
  const tsc = join(HERE, 'node_modules/.bin/tsc');
  const { status, stdout } = spawnSync(tsc, [...how, '--experimentalDecorators', 'nest.ts'], {
    cwd: folder,
    encoding: 'utf8',
  });
  assert.equal(status, 0, stdout);
  const text = readFileSync(join(folder, 'nest.js'), 'utf8');
  const asked = async () => {
    const [, calls] = /cmdstat_dlock.acquire:calls=(\d+)/.exec(await server.run('INFO', 'commandstats')) ?? [];
    return Number(calls ?? 0);
  };
  const before = await asked();
  const hosts = [0, 900, -700].map((late) => new Host(t, server, text, { late, WINDOW: '60000' }));
  await eventually('each has come several times', async () => (await asked()) >= before + 4 * hosts.length);
  assert.equal(hosts.flatMap((host) => host.after('reports')).length, 1);
});

testWithServer('world: a job that BullMQ starts again is done once', async ({ t, server }) => {
  const text = example('bullmq.mjs')
    .replace("'0 3 * * *'", "'0 3 * * *', limit: 1")
    .replace('console.log(', 'await new Promise((then) => setTimeout(then, 5000)); console.log(');
  const begin = (how) => new Host(t, server, text.replace('once, { connection', `once, { connection, ${how}`));
  // The first worker sends BullMQ no sign of life: its job counts as stalled, and the second worker gets it.
  const first = begin('lockDuration: 500, skipLockRenewal: true, skipStalledCheck: true');
  const active = () => server.run('LRANGE', 'bull:reports:active', '0', '-1');
  await eventually('the first works', async () => (await active()).length === 1);
  const [id] = await active();
  const second = begin('stalledInterval: 300, concurrency: 2');
  const returned = () => server.run('HGET', `bull:reports:${id}`, 'returnvalue');
  await eventually('the job has ended', async () => (await returned()) !== null);
  assert.match(await returned(), /^"done \d/);
  assert.deepEqual(first.said, [`reports ${id}`]);
  assert.ok(!second.said.includes(`reports ${id}`));
});
