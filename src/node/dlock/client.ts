// A client: the nodes, and the locks that are wanted of them.

import { inspect } from 'node:util';
import { made } from './errors';
import { Lock } from './lock';
import { expect, forget, outcome, post } from './mail';
import type * as rust from './native';
import { native } from './native';
import {
  addresses,
  called,
  fence,
  type Key,
  key,
  type LockOptions,
  millis,
  onlyKnown,
  options,
  patience,
  token,
} from './options';
import type { Lease, NodeBreak, NodeInspection, Notice } from './report';

/**
 * For what is made of clients here.
 *
 * @internal
 */
export let nativeOf: (client: Client) => rust.Client;

/** The options of a client. */
export interface ClientOptions {
  /**
   * How many milliseconds a node may take to answer, connecting included: by default a twentieth of the lease, but at least 50 ms
   * and at most a second.
   */
  nodeTimeout?: number | undefined;
  /** Is told what an operator should know while the work goes on: outages and promotions, for example. */
  notify?: ((notice: Notice) => void) | undefined;
}

/**
 * A client of one node, or of several that make a majority together. It connects when it is first used.
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

  static {
    nativeOf = (client) => client.#native;
  }

  /**
   * `nodes` is a comma-separated list of addresses, or an iterable of them: `redis://host:port/db`,
   * `rediss://` with TLS, `unix://path`; `redis+sentinel://s1,s2,s3/NAME`, the primary that these Sentinels watch under
   * this name; `redis+cluster://h1,h2,h3`, a Redis Cluster, which is one node; also with TLS, `rediss+sentinel://` and
   * `rediss+cluster://`. Without `nodes` they are those of the environment variable `DLOCK_NODES`, where a name
   * without a scheme is a host.
   */
  constructor(nodes?: string | Iterable<string>, given: ClientOptions = {}) {
    onlyKnown(given, ['nodeTimeout', 'notify']);
    const list = nodes === undefined ? undefined : addresses(nodes);
    const timeout = given.nodeTimeout === undefined ? undefined : millis('nodeTimeout', given.nodeTimeout);
    if (given.notify !== undefined) called('notify', given.notify);
    this.#notify = given.notify;
    const ticket = given.notify && Client.#told(new WeakRef(this));
    const client = native.Client.connect(post(), list, process.env.DLOCK_NODES, timeout, ticket);
    if (ticket !== undefined) collected.register(this, ticket);
    if ('code' in client) throw made(client);
    this.#native = client;
  }

  // What is expected knows its client only weakly: nothing else keeps one that is not used any more.
  static #told(client: WeakRef<Client>): number {
    return expect(({ notice }) => {
      const known = client.deref();
      if (known === undefined) return;
      const notify = known.#notify;
      // If it throws, what has arrived with this is told all the same.
      if (notify !== undefined && notice !== undefined) queueMicrotask(() => notify(notice));
    });
  }

  /** The addresses of the nodes, without user and password. */
  get nodes(): string[] {
    return this.#native.nodes();
  }

  /** A lock, to be acquired. By itself this does nothing. Throws UsageError if the options make no sense. */
  lock(name: Key, given: LockOptions = {}): Lock {
    const [wanted, how, wait] = [key(name), options(given), patience(given)];
    const native = this.#native.lock(wanted, how);
    if ('code' in native) throw made(native);
    const { renews: _, ...shown } = how;
    return new Lock(native, { key: wanted, options: shown, wait, nodes: () => this.nodes, client: this });
  }

  /**
   * Extends a lock by its token: it is valid for `ttl` milliseconds from now on, also where that is less than before.
   * Without `fence` the nodes are asked for it first. Throws LostError if the token does not hold the lock.
   */
  async extend(name: Key, by: string, ttl: number, given: { fence?: number | undefined } = {}): Promise<Lease> {
    onlyKnown(given, ['fence']);
    const [lock, held, length] = [key(name), token(by), millis('ttl', ttl)];
    const known = given.fence === undefined ? undefined : fence(given.fence);
    const { lease } = await outcome((ticket) => this.#native.extend(ticket, lock, held, length, known));
    return lease as Lease;
  }

  /** Releases a lock by its token. Whether the token held it at any node. */
  async release(name: Key, by: string): Promise<boolean> {
    const [lock, held] = [key(name), token(by)];
    return (await outcome((ticket) => this.#native.release(ticket, lock, held))).was === true;
  }

  /** What each node knows about a lock: who holds it, and who waits for it. */
  async inspect(name: Key): Promise<NodeInspection[]> {
    const lock = key(name);
    return (await outcome((ticket) => this.#native.inspect(ticket, lock))).inspections ?? [];
  }

  /**
   * Ends a lock on all nodes, or only the lease of this token, whoever holds it. A guard learns of it when it next
   * renews its lease.
   */
  async breakLock(name: Key, by?: string): Promise<NodeBreak[]> {
    const [lock, held] = [key(name), by === undefined ? undefined : token(by)];
    return (await outcome((ticket) => this.#native.breakLock(ticket, lock, held))).breaks ?? [];
  }

  /**
   * Waits until releases in the background are done, and closes the connections that are not in use. Guards
   * stay valid, and the client can still be used.
   */
  async close(): Promise<void> {
    await outcome((ticket) => this.#native.close(ticket));
  }

  /** Closes the client, for `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /**
   * For tests: what a panic in the library does.
   *
   * @internal
   */
  async [Symbol.for('dlock.panic')](): Promise<void> {
    await outcome((ticket) => this.#native.panic(ticket));
  }

  /** @internal */
  [inspect.custom](): string {
    return `Client { ${this.nodes.join(', ')} }`;
  }
}

const collected = new FinalizationRegistry<number>(forget);
