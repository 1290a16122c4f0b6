// The examples of the pages run as they stand, and the pages name each option and error.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as dlock from 'dlock';
import { HERE, TOP } from './server.mjs';
import { Program, testAlone, testWithServer } from './with.mjs';

const page = (name) => readFileSync(join(TOP, name), 'utf8');
const examples = (name) => [...page(name).matchAll(/^```js\n(.*?)^```/gms)].map(([, text]) => text);

const PAGES = ['docs/leader-election.md', 'docs/moving-over.md', 'docs/nodejs.md', 'docs/semaphores.md'];

for (const name of PAGES) {
  testWithServer(`examples of ${name} run as they stand`, async ({ t, server }) => {
    const found = examples(name);
    assert.ok(found.length > 0);
    for (const [at, text] of found.entries()) {
      // The program of the tests has imported it already.
      const there = text
        .replaceAll("import { Client } from 'dlock';\n", '')
        .replaceAll('import { Client, ', 'import { ')
        .replaceAll('redis://localhost', server.url)
        .replace('new Redis()', `new Redis(${server.port})`);
      const program = new Program(t, there, []);
      if (at === 0) assert.match(await program.line(), /^held with the fence \d+$/);
      await program.end();
    }
  });
}

testAlone('the examples of the pages have the right types', () => {
  const folder = mkdtempSync(join(tmpdir(), 'dlock-test-'));
  try {
    symlinkSync(join(HERE, 'node_modules'), join(folder, 'node_modules'));
    const pages = [...examples('docs/nodejs.md'), ...examples('docs/moving-over.md')];
    const more = `import { Client } from 'dlock';
      { await using guard = await new Client('redis://a').lock('job:42', { wait: 10_000 }).acquire(); }`;
    const files = [...pages, more].map((text, at) => [`example${at}.mts`, text]);
    for (const [name, text] of files) writeFileSync(join(folder, name), text);
    const strict = ['--strict', '--exactOptionalPropertyTypes', '--noEmit', '--types', 'node'];
    const how = ['--module', 'nodenext', '--target', 'es2022', '--lib', 'es2022,esnext.disposable'];
    const here = { cwd: folder, encoding: 'utf8' };
    const names = files.map(([name]) => name);
    const { status, stdout } = spawnSync('node_modules/.bin/tsc', [...strict, ...how, ...names], here);
    assert.equal(status, 0, stdout);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

testAlone('the first example has five lines', () => {
  const lines = examples('docs/nodejs.md')[0]
    .split('\n')
    .filter((line) => line !== '');
  assert.equal(lines.length, 5);
});

testAlone('each option and error is on the page', () => {
  const text = page('docs/nodejs.md');
  const types = readFileSync(join(HERE, 'node_modules/dlock/lib/options.d.ts'), 'utf8');
  const options = [...types.matchAll(/^ {4}(\w+)\?:/gm)].map(([, name]) => name);
  assert.ok(options.length >= 8);
  for (const option of [...options, 'nodeTimeout', 'notify']) assert.match(text, new RegExp(`\`?${option}\\b`));
  for (const [name, value] of Object.entries(dlock)) {
    if (value.prototype instanceof dlock.DlockError) assert.ok(text.includes(`\`${name}\``), name);
  }
});

testAlone('everything public has a doc comment', () => {
  for (const file of ['client', 'errors', 'guard', 'lock', 'options', 'report']) {
    const lines = readFileSync(join(HERE, `node_modules/dlock/lib/${file}.d.ts`), 'utf8').split('\n');
    for (const [at, line] of lines.entries()) {
      const declares = /^ {4}(get \w+|\w+\(|\[Symbol)|^export (declare class|interface)/.test(line);
      if (!declares || /constructor|private/.test(line)) continue;
      assert.match(lines[at - 1], /(\*\/|[{])$/, `${file}: ${line}`);
    }
  }
});
