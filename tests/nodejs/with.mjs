// Common parts of all tests of the library for Node.js: servers, clients of them, programs.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { basename } from 'node:path';
import { createInterface } from 'node:readline';
import { after, describe, test } from 'node:test';
import { Client } from 'dlock';
import { HERE, KINDS, PATIENCE, Server } from './server.mjs';

const tests = [];
const servers = new Map();
let names = 0;

/** A test that needs no server, or starts its own. */
export function testAlone(name, body) {
  tests.push([name, body]);
}

/** A test with a server. Tests share it: each has keys of its own. */
export function testWithServer(name, body) {
  testWith(KINDS.slice(0, 1), name, body);
}

/** A test with a server of each kind, of what depends on the server. */
export function testWithEveryServer(name, body) {
  testWith(KINDS, name, body);
}

function testWith(kinds, name, body) {
  for (const kind of kinds.filter((kind) => !process.env.SERVER || kind === process.env.SERVER)) {
    const withServer = async (t) => {
      const server = await (servers.get(kind) ?? begin(kind));
      const client = new Client(server.url, { nodeTimeout: PATIENCE });
      await body({ t, server, client, key: newKey() });
    };
    tests.push([`${name} [${kind}]`, withServer]);
  }
}

function begin(kind) {
  servers.set(kind, Server.start(kind));
  return servers.get(kind);
}

// All tests of a file are in a suite, because its `after` runs at its end. In Node.js 18.18 that of the file runs only
// once the process has nothing else to do, which servers prevent.
queueMicrotask(() =>
  describe(basename(process.argv[1]), () => {
    for (const [name, body] of tests) test(name, body);
    after(async () => {
      for (const server of servers.values()) await (await server).stop();
    });
  }),
);

/** A key that no other test has. */
export function newKey() {
  names += 1;
  return `key:${process.pid}:${names}`;
}

/** Starts a server that the test may stop; it ends with it. */
export async function ownServer(t, kind = KINDS[0], ...options) {
  const server = await Server.start(kind, ...options);
  t.after(() => server.stop());
  return server;
}

/** The error with which this ends, which is of this class. */
export async function thrown(Class, promise) {
  try {
    await promise;
  } catch (error) {
    assert.ok(error instanceof Class, error);
    return error;
  }
  return assert.fail(`it should throw ${Class.name}`);
}

/** A program in a process of its own, which prints a line for each step. */
export class Program {
  err = '';

  constructor(t, text, words, flags = [], env = {}) {
    const begin = "import { Client } from 'dlock'; const [url, key] = process.argv.slice(1);";
    const args = ['--input-type=module', ...flags, '--eval', `${begin}${text}`, '--', ...words];
    this.process = spawn(process.execPath, args, { cwd: HERE, env: { ...process.env, ...env } });
    this.process.stderr.on('data', (data) => {
      this.err += data;
    });
    this.lines = createInterface(this.process.stdout)[Symbol.asyncIterator]();
    this.ended = new Promise((resolve) => this.process.once('close', (code) => resolve(code)));
    t.after(() => this.process.kill('SIGKILL'));
  }

  /** The next line of its output. */
  async line() {
    const { value, done } = await this.lines.next();
    assert.ok(!done, `it ended: ${this.err}`);
    return value;
  }

  /** Waits for its end. */
  async end(code = 0) {
    assert.equal(await this.ended, code, this.err);
  }
}
