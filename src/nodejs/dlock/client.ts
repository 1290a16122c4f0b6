// A client: its nodes and locks.

import { inspect } from 'node:util';
import { addresses, called, checkSignal, fence, key, NAMES, onlyKnown, token } from './arguments';
import { made } from './errors';
import { Lock } from './lock';
import type * as rust from './native';
import { native } from './native';
import type { Key, LockOptions } from './options';
import { expect, forget, outcome, queue, value } from './outcomes';
import type { Lease, NodeInspection, Notice } from './report';

/** The options of a client. */
export interface ClientOptions {
  /**
   * Time-out of a request to a node in milliseconds, connecting included: by default a twentieth of the lease, but at
   * least 50 ms and at most a second. For a lock it is never longer than a quarter of the lease.
   */
  nodeTimeout?: number | undefined;
  /** Receives each event for an operator: an outage or a promotion, for example. */
  notify?: ((notice: Notice) => void) | undefined;
}

/**
 * A client of one node, or of several that make a majority together. It connects at its first use.
 *
 * ```js
 * const client = new Client('redis://localhost');
 * await client.lock('job:42', { wait: 10_000 }).run(async (guard) => {
 *   await work(guard.fence, guard.signal);
 * });
 * ```
 */
export class Client {
  readonly #native: rust.Client;
  readonly #notify: ClientOptions['notify'];

  /**
   * `nodes` is a comma-separated list of addresses, or an iterable of them: `redis://host:port/db`,
   * `rediss://` with TLS, `unix://path`; `redis+sentinel://s1,s2,s3/NAME`, the primary that these Sentinels watch under
   * this name; `redis+cluster://h1,h2,h3`, a Redis Cluster, which is one node; also with TLS, `rediss+sentinel://` and
   * `rediss+cluster://`. A name without a scheme is a host. Without `nodes` the client takes them from the environment
   * variable `DLOCK_NODES`.
   */
  constructor(nodes?: string | Iterable<string>, given: ClientOptions = {}) {
    onlyKnown(given, ['nodeTimeout', 'notify']);
    const list = nodes === undefined ? undefined : addresses(nodes);
    if (given.notify !== undefined) called('notify', given.notify);
    this.#notify = given.notify;
    const id = given.notify && Client.#expect(new WeakRef(this));
    const client = native.Client.connect(queue(), list, process.env.DLOCK_NODES, given, id);
    if (id !== undefined) collected.register(this, id);
    if ('code' in client) throw made(client);
    this.#native = client;
  }

  // A weak reference: an unused client must be collected, though its listener is registered.
  static #expect(client: WeakRef<Client>): number {
    return expect(({ value }) => {
      const known = client.deref();
      const notify = known === undefined ? undefined : known.#notify;
      // If it throws, the other outcomes still arrive.
      if (notify !== undefined) queueMicrotask(() => notify(value as Notice));
    });
  }

  /** The addresses of the nodes, without user and password. */
  get nodes(): string[] {
    return this.#native.nodes();
  }

  /** Returns a lock to acquire. Nothing is sent yet. Throws UsageError if an option is wrong. */
  lock(name: Key, given: LockOptions = {}): Lock {
    const wanted = key(name);
    onlyKnown(given, NAMES);
    checkSignal(given);
    const native = this.#native.lock(wanted, given);
    if ('code' in native) throw made(native);
    return new Lock(native, { key: wanted, signal: given.signal, client: this });
  }

  /**
   * Extends a lock by its token and fence: the lease ends `ttl` milliseconds from now, or later if it does so
   * anyway. Throws LostError if the token does not hold the lock.
   */
  async extend(name: Key, by: string, ttl: number, given: { fence: number }): Promise<Lease> {
    onlyKnown(given, ['fence']);
    const [lock, held, known] = [key(name), token(by), fence(given.fence)];
    return value<Lease>((id) => this.#native.extend(id, lock, held, ttl, known));
  }

  /** Releases a lock by its token. Returns true if the token held it at any node. */
  async release(name: Key, by: string): Promise<boolean> {
    const [lock, held] = [key(name), token(by)];
    return value<boolean>((id) => this.#native.release(id, lock, held));
  }

  /** Returns each node's report about a lock: its holders and waiters. */
  async inspect(name: Key): Promise<NodeInspection[]> {
    const lock = key(name);
    return value<NodeInspection[]>((id) => this.#native.inspect(id, lock));
  }

  /**
   * Waits until releases in the background are done, for one node time-out at most, and closes the idle
   * connections. Guards stay valid, and the client can still be used.
   */
  async close(): Promise<void> {
    await outcome((id) => this.#native.close(id));
  }

  /** Closes the client, for `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /**
   * Panics in the library, for tests.
   *
   * @internal
   */
  async [Symbol.for('dlock.panic')](): Promise<void> {
    await outcome((id) => this.#native.panic(id));
  }

  /** @internal */
  [inspect.custom](): string {
    return `Client { ${this.nodes.join(', ')} }`;
  }
}

const collected = new FinalizationRegistry<number>(forget);
