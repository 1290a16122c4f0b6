// A server with the module, on a free port of the loopback, in a folder of its own.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Redis } from 'ioredis';

export const TOP = fileURLToPath(new URL('../..', import.meta.url));
/** This folder; Node.js 18 has no import.meta.dirname. */
export const HERE = fileURLToPath(new URL('.', import.meta.url));
/** Tests that need only one run with the first. */
export const KINDS = ['redis-8.2', 'redis-7.0', 'valkey-8.1', 'valkey-9.1'];

/** Tests wait this many milliseconds for an event that must happen, on a machine that may be busy. */
export const PATIENCE = 60_000;

/** A lease that is renewed in time on such a machine, and yet ends while a test waits. */
export const LEASE = 9_000;

let ports = 0;
/** The first ports of the blocks that are ours. */
const blocks = [];

/** Waits until it is so. */
export async function eventually(what, check) {
  const until = performance.now() + PATIENCE;
  while (!(await check())) {
    assert.ok(performance.now() < until, `not within ${PATIENCE} ms: ${what}`);
    await sleep(5);
  }
}

/** A running server. Its process ends with `stop`. */
export class Server {
  port = 0;

  static async start(kind, ...options) {
    const server = new Server(kind, options);
    await server.start();
    return server;
  }

  constructor(kind, options) {
    this.kind = kind;
    this.options = options;
    // In memory, where there is room: a node that waits long for its disk refuses to grant.
    this.folder = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'dlock-test-'));
  }

  /** Starts it, on the port that it had before or on a free one. */
  async start() {
    for (let attempt = 0; attempt < 50; attempt += 1) {
      const port = this.port || (await freePort());
      const [program, ...words] = this.#command(port);
      this.process = spawn(program, words, { stdio: 'ignore' });
      this.ended = new Promise((resolve) => this.process.once('exit', resolve));
      if (await this.#answers(port)) {
        this.port = port;
        return;
      }
      // Another process has taken the port.
      await this.kill();
    }
    assert.fail(`${this.kind} does not start: ${this.log()}`);
  }

  #command(port) {
    const module = process.env.DLOCK_MODULE ?? join(TOP, 'target/release/libdlock.so');
    assert.ok(existsSync(module), `${module} is missing: run \`make build\``);
    const program = join(TOP, '.servers', this.kind);
    assert.ok(existsSync(program), `${program} is missing: run \`make setup\``);
    const fixed = ['--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--dir', this.folder];
    const log = ['--logfile', join(this.folder, 'log'), '--enable-debug-command', 'yes'];
    const dlock = ['--loadmodule', module, '--dlock.newborn-quarantine', 0];
    return [program, '--port', port, ...fixed, ...log, ...this.options, ...dlock].map(String);
  }

  async #answers(port) {
    const until = performance.now() + PATIENCE;
    while (performance.now() < until && this.process.exitCode === null) {
      const client = new Redis(port, { lazyConnect: true, retryStrategy: null });
      client.on('error', () => {});
      try {
        const info = await client.info('server');
        if (info.includes(`process_id:${this.process.pid}\r`)) return true;
      } catch {
        // Not yet.
      } finally {
        client.disconnect();
      }
      await sleep(10);
    }
    return false;
  }

  get url() {
    return `redis://127.0.0.1:${this.port}`;
  }

  /** A client of ioredis. */
  redis(options = {}) {
    return new Redis(this.port, { ...options });
  }

  /** Runs a command. */
  async run(command, ...words) {
    const client = this.redis();
    try {
      return await client.call(command, ...words);
    } finally {
      client.disconnect();
    }
  }

  /** The fields of DLOCK.INSPECT; null if the lock is free. */
  async inspect(key) {
    return fields(await this.run('DLOCK.INSPECT', key));
  }

  /** True if the lock has no holder and no waiter. */
  async isFree(key) {
    return (await this.inspect(key)) === null;
  }

  /** The fence of the first holder. */
  async fence(key) {
    const holder = (await this.inspect(key))?.holders[0];
    return holder === undefined ? null : Number(fields(holder).fence);
  }

  async waiting(key) {
    return Number((await this.inspect(key))?.waiting ?? 0);
  }

  async untilFree(key) {
    await eventually(`${key} is free`, () => this.isFree(key));
  }

  async untilWaiting(key, count) {
    await eventually(`${count} wait for ${key}`, async () => (await this.waiting(key)) === count);
  }

  log() {
    const file = join(this.folder, 'log');
    return existsSync(file) ? readFileSync(file, 'utf8') : '';
  }

  /** Pauses it at once. */
  pause() {
    this.process.kill('SIGSTOP');
  }

  /** Lets it go on. */
  resume() {
    this.process.kill('SIGCONT');
  }

  /** Kills it, as a crash would. */
  async kill() {
    this.process.kill('SIGKILL');
    await this.ended;
  }

  /** Ends it, and removes its folder. */
  async stop() {
    await this.kill();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

function fields(reply) {
  if (reply === null) return null;
  return Object.fromEntries(reply.flatMap((word, at) => (at % 2 === 0 ? [[word, reply[at + 1]]] : [])));
}

export async function freePort() {
  for (let attempt = 0; attempt < 10_000; attempt += 1) {
    const port = await nextPort();
    const probe = await listen(port);
    if (probe === undefined) continue;
    await new Promise((resolve) => probe.close(resolve));
    return port;
  }
  assert.fail('no free port');
}

// As tests/harness/servers/ports.rs: the process that listens on the first port of a block has the block.
async function nextPort() {
  const at = ports++;
  const block = Math.floor(at / 49);
  blocks[block] ??= anotherBlock();
  return (await blocks[block]) + 1 + (at % 49);
}

async function anotherBlock() {
  for (let step = 0; step < 200; step += 1) {
    const first = 11_000 + ((process.pid * 7 + step) % 200) * 50;
    const listener = await listen(first);
    if (listener === undefined) continue;
    listener.unref();
    return first;
  }
  assert.fail('other runs have all blocks of ports');
}

function listen(port) {
  const server = createServer();
  return new Promise((resolve) => {
    server.once('error', () => resolve(undefined));
    server.listen(port, '127.0.0.1', () => resolve(server));
  });
}
