// The scenarios that the libraries for all languages run: docs/contributing/conformance.md says what the steps mean.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import { Client, DlockError, LostError } from 'dlock';
import { eventually, PATIENCE, TOP } from './server.mjs';
import { newKey, ownServer, testAlone, testWithServer } from './with.mjs';

const { scenarios } = JSON.parse(readFileSync(join(TOP, 'tests/conformance/scenarios.json'), 'utf8'));

for (const { name, nodes, options = [], nodeTimeout = PATIENCE, steps } of scenarios) {
  if (nodes === undefined) {
    testWithServer(`conformance: ${name}`, async ({ server, key }) => {
      await new Run([server], nodeTimeout, `${key}:`).all(steps);
    });
    continue;
  }
  testAlone(`conformance: ${name}`, async (t) => {
    const servers = [];
    for (let node = 0; node < nodes; node += 1) servers.push(await ownServer(t, 'redis-8.2', ...options));
    await new Run(servers, nodeTimeout, `${newKey()}:`).all(steps);
  });
}

class Run {
  guards = new Map();
  waits = new Map();
  recipes = new Map();
  leases = new Map();
  told = [];

  constructor(servers, nodeTimeout, prefix) {
    this.servers = servers;
    this.prefix = prefix;
    this.client = new Client(
      servers.map(({ url }) => url),
      { nodeTimeout, notify: (notice) => this.told.push(notice) },
    );
  }

  async all(steps) {
    for (const [at, step] of steps.entries()) {
      const verb = Object.keys(step)[0];
      try {
        await this[verb](step);
      } catch (error) {
        throw new Error(`step ${at + 1}, ${JSON.stringify(step)}: ${error.message}`, { cause: error });
      }
    }
  }

  async lock({ lock, as, options, fails }) {
    // Options that make no sense are refused where the lock is made.
    const acquired = (async () => this.client.lock(this.#key(lock), read(options)).acquire())();
    await this.#outcome(acquired, as, fails);
  }

  async try({ try: key, as, options, got }) {
    const guard = await this.client.lock(this.#key(key), read(options)).tryAcquire();
    assert.equal(guard !== null, got);
    if (guard !== null) this.guards.set(as, guard);
  }

  begin({ begin, as, options }) {
    const abort = new AbortController();
    const given = { ...read(options), signal: abort.signal };
    const wait = this.client.lock(this.#key(begin), given).acquire();
    // Nobody listens yet.
    wait.catch(() => {});
    this.waits.set(as, { wait, abort });
  }

  async end({ end, fails }) {
    await this.#outcome(this.waits.get(end).wait, end, fails);
  }

  async cancel({ cancel }) {
    const { wait, abort } = this.waits.get(cancel);
    abort.abort();
    await assert.rejects(wait, { name: 'AbortError' });
  }

  recipe({ recipe, as, options }) {
    this.recipes.set(as, this.client.lock(this.#key(recipe), read(options)));
  }

  async acquire({ acquire, as, wait, fails }) {
    await this.#outcome(this.recipes.get(acquire).acquire({ wait }), as, fails);
  }

  async detach({ detach, as }) {
    this.leases.set(as, await this.guards.get(detach).detach());
  }

  async extendLease({ extendLease, ttl, knowsFence, fails }) {
    const { key, token, fence } = this.leases.get(extendLease);
    const given = knowsFence ? { fence } : {};
    const lease = await this.#outcome(this.client.extend(key, token, ttl, given), undefined, fails);
    if (lease === undefined) return;
    assert.deepEqual([lease.key, lease.token, lease.fence], [key, token, fence]);
    assert.ok(lease.validFor > 0);
  }

  async releaseLease({ releaseLease, was, fails }) {
    const { key, token } = this.leases.get(releaseLease);
    assert.equal(await this.#outcome(this.client.release(key, token), undefined, fails), was);
  }

  async inspect({ inspect, modes, holders, waiting, first, states = [null], fails }) {
    const seen = await this.#outcome(this.client.inspect(this.#key(inspect)), undefined, fails);
    for (const [at, { lock, error }] of (seen ?? []).entries()) {
      assert.equal(lock?.mode ?? null, modes[at]);
      const none = error === undefined ? 0 : null;
      assert.deepEqual([lock?.holders.length ?? none, lock?.waiting ?? none], [holders[at], waiting[at]]);
      if (first !== undefined) assert.equal(lock.holders[0].meta, first);
      assert.equal(error?.state ?? null, states[at]);
    }
  }

  async break({ break: key, token, ended, states = [null], fails }) {
    const of = token === undefined ? undefined : this.guards.get(token).token;
    const broken = await this.#outcome(this.client.breakLock(this.#key(key), of), undefined, fails);
    for (const [at, each] of (broken ?? []).entries()) {
      assert.equal(each.ended ?? null, ended[at]);
      assert.equal(each.error?.state ?? null, states[at]);
    }
  }

  async hears({ hears, key }) {
    const heard = (notice) => notice.event === hears && notice.key === this.#key(key);
    await eventually(`it hears of ${hears}`, () => this.told.some(heard));
  }

  async release({ release, fails }) {
    await this.#outcome(this.guards.get(release).release(), undefined, fails);
  }

  async extend({ extend, ttl, fails }) {
    await this.#outcome(this.guards.get(extend).extend(ttl), undefined, fails);
  }

  async done({ done, window, outcome, fails }) {
    await this.#outcome(this.guards.get(done).done(window, outcome), undefined, fails);
  }

  async check({ check, fails }) {
    const guard = this.guards.get(check);
    const looked = new Promise((resolve) => resolve(guard.check()));
    await this.#outcome(looked, undefined, fails);
    assert.equal(guard.isValid, fails === undefined);
    assert.equal(guard.validFor > 0, fails === undefined);
  }

  async lost({ lost, why }) {
    const { signal } = this.guards.get(lost);
    await eventually('it is lost', () => signal.aborted);
    assert.ok(signal.reason instanceof LostError);
    assert.ok([why].flat().includes(signal.reason.why), signal.reason.why);
  }

  ttl({ ttl, is }) {
    assert.equal(this.guards.get(ttl).ttl, is);
  }

  grows({ grows }) {
    const fences = grows.map((name) => this.guards.get(name).fence);
    for (let at = 1; at < fences.length; at += 1) assert.ok(fences[at] > fences[at - 1], fences);
  }

  /** A guard that is collected releases; that another test looks at. */
  async forget({ forget }) {
    this.guards.delete(forget);
    await setImmediate();
    globalThis.gc();
  }

  block({ block }) {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, block);
  }

  async sees({ sees, node = 1, holders, waiting }) {
    const key = this.#key(sees);
    await eventually(`holders ${holders}, waiting ${waiting}`, async () => {
      globalThis.gc();
      const seen = await this.servers[node - 1].inspect(key);
      const there = { holders: seen?.holders.length ?? 0, waiting: Number(seen?.waiting ?? 0) };
      return (holders ?? there.holders) === there.holders && waiting === there.waiting;
    });
  }

  async run({ run, node = 1, gives, ...rest }) {
    const [command, key, ...words] = run;
    const named = KEYED.has(command) ? this.#key(key) : key;
    const told = this.servers[node - 1].run(command, named, ...words.map((word) => this.#word(word)));
    if (gives?.error !== undefined)
      return assert.rejects(told, (error) => error.message.startsWith(gives.error));
    const reply = await told;
    if (gives !== undefined) assert.equal(reply, gives, rest);
  }

  async crowd({ crowd, clients, turns }) {
    let [held, most] = [0, 0];
    const work = async () => {
      for (let turn = 0; turn < turns; turn += 1) {
        await this.client.lock(this.#key(crowd)).run(async () => {
          held += 1;
          most = Math.max(most, held);
          await sleep(1);
          held -= 1;
        });
      }
    };
    await Promise.all(Array.from({ length: clients }, work));
    assert.equal(most, 1);
  }

  connect({ connect, fails }) {
    try {
      new Client(connect);
    } catch (error) {
      return this.#judge(error, fails);
    }
    assert.fail('it connects');
  }

  async kill({ kill }) {
    await this.servers[kill - 1].kill();
  }

  async start({ start }) {
    await this.servers[start - 1].start();
  }

  pause({ pause }) {
    this.servers[pause - 1].pause();
  }

  resume({ resume }) {
    this.servers[resume - 1].resume();
  }

  async #outcome(promise, as, fails) {
    try {
      const value = await promise;
      assert.equal(fails, undefined, 'it should fail');
      if (as !== undefined) this.guards.set(as, value);
      return value;
    } catch (error) {
      if (fails === undefined) throw error;
      this.#judge(error, fails);
      return undefined;
    }
  }

  #judge(error, { code, why, key, states, holder, meta, by, outcome, retryAfter }) {
    assert.ok(error instanceof DlockError, error);
    assert.ok([code].flat().includes(error.code), `${error.code}: ${error.message}`);
    if (why !== undefined) assert.ok([why].flat().includes(error.why), error.why);
    if (key !== undefined) assert.deepEqual(error.key, this.#key(key));
    const said = error.nodes.map(({ state }) => state);
    if (states !== undefined) assert.deepEqual(said, states);
    if (holder !== undefined) assert.equal(error.holder.fence, this.guards.get(holder).fence);
    if (meta !== undefined) assert.equal(error.holder.meta, meta);
    if (by !== undefined) {
      const { fence } = this.guards.get(by);
      assert.deepEqual([error.fence, error.by.fence, error.by.outcome], [fence, fence, outcome]);
    }
    if (!retryAfter) assert.equal(error.retryAfter, undefined);
    else assert.ok(error.retryAfter > 0 && error.retryAfter <= 60_000);
  }

  /** Each scenario has keys of its own; that without a name is nobody's. */
  #key(key) {
    if (typeof key === 'object') return Buffer.concat([Buffer.from(this.prefix), Buffer.from(key.hex, 'hex')]);
    return key === '' ? key : this.prefix + key;
  }

  #word(word) {
    if (typeof word !== 'object') return word === 'data' ? this.#key(word) : word;
    return word.token === undefined ? this.guards.get(word.fence).fence : this.guards.get(word.token).token;
  }
}

/** The commands of which the first word is a key. */
const KEYED = new Set(['DLOCK.BREAK', 'DLOCK.RELEASE', 'DLOCK.FENCED', 'SET', 'GET', 'DEL', 'LPUSH']);

function read(options = {}) {
  return options.meta?.length === 2000 ? { ...options, meta: 'x'.repeat(2000) } : options;
}
