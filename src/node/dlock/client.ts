// A client: the nodes, and the locks that are wanted of them.

import { inspect } from 'node:util';
import { HeldError, made } from './errors';
import { Guard } from './guard';
import { expect, outcome, post } from './mail';
import type * as rust from './native';
import { native } from './native';
import {
  addresses,
  called,
  type Key,
  key,
  type LockOptions,
  millis,
  onlyKnown,
  options,
  type TryOptions,
  tryOptions,
} from './options';
import { acquiring, holding, watched } from './trace';

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
  /**
   * Is told what an operator should know while the work goes on: that a wait goes on though no majority of
   * the nodes answers, for example.
   */
  notify?: ((message: string) => void) | undefined;
}

/**
 * A client of one node, or of several that make a majority together. It connects when it is first used.
 *
 * ```js
 * const client = new Client('redis://localhost');
 * await client.withLock('job:42', { wait: 10_000 }, async (guard) => {
 *   await work(guard.fence, guard.signal);
 * });
 * ```
 */
export class Client {
  readonly #native: rust.Client;

  static {
    nativeOf = (client) => client.#native;
  }

  /**
   * `nodes` is a comma-separated list of addresses, or an iterable of them: `redis://host:port/db`,
   * `rediss://` with TLS, `unix://path`, `redis+sentinel://`, `redis+cluster://`.
   */
  constructor(nodes: string | Iterable<string>, given: ClientOptions = {}) {
    onlyKnown(given, ['nodeTimeout', 'notify']);
    const list = addresses(nodes);
    const timeout = given.nodeTimeout === undefined ? undefined : millis('nodeTimeout', given.nodeTimeout);
    const { notify } = given;
    if (notify !== undefined) called('notify', notify);
    // If it throws, what has arrived with this is told all the same.
    const ticket = notify && expect((told) => queueMicrotask(() => notify(told.notice ?? '')));
    const client = native.Client.connect(post(), list, timeout, ticket);
    if ('code' in client) throw made(client);
    this.#native = client;
  }

  /** The addresses of the nodes, without user and password. */
  get nodes(): string[] {
    return this.#native.nodes();
  }

  /**
   * Acquires a lock. Throws HeldError when the time to wait is over, and the reason of `signal` when that is
   * aborted; both leave nothing behind on any node. Release the guard in a `finally` block, or use
   * `withLock`.
   */
  async lock(name: Key, given: LockOptions = {}): Promise<Guard> {
    return this.#acquire(name, given, (error) => {
      throw error;
    });
  }

  /** Acquires a lock if it is free; else null. */
  async tryAcquire(name: Key, given: TryOptions = {}): Promise<Guard | null> {
    return this.#acquire(name, tryOptions(given), (error) => {
      if (error instanceof HeldError) return null;
      throw error;
    });
  }

  async #acquire<T extends null>(
    name: Key,
    given: LockOptions,
    failed: (error: unknown) => T,
  ): Promise<Guard | T> {
    const [wanted, how] = [key(name), options(given)];
    const asked = watched(() => ({ key: wanted, nodes: this.nodes, options: how }));
    const acquired = await acquiring(asked, async (waits) => {
      const begin = (ticket: number) => this.#native.acquire(ticket, wanted, how);
      return outcome(begin, given.signal, waits).then(({ guard }) => guard as rust.Guard, failed);
    });
    return acquired && new Guard(acquired, holding(asked, acquired.fence));
  }

  /**
   * Acquires a lock, and holds it until `body` has ended. Whatever `body` returns or throws is passed on. If
   * the lock was lost meanwhile, LostError is thrown, unless `body` itself has thrown.
   */
  async withLock<T>(name: Key, body: (guard: Guard) => T | PromiseLike<T>): Promise<T>;
  async withLock<T>(name: Key, given: LockOptions, body: (guard: Guard) => T | PromiseLike<T>): Promise<T>;
  async withLock<T>(name: Key, ...rest: [Body<T>] | [LockOptions, Body<T>]): Promise<T> {
    const [given, body] = rest.length === 1 ? [{}, rest[0]] : rest;
    called('body', body);
    const guard = await this.lock(name, given);
    let done: T;
    try {
      done = await body(guard);
    } catch (error) {
      // What the body has thrown says more than a loss.
      await guard[Symbol.asyncDispose]().catch(() => {});
      throw error;
    }
    await guard[Symbol.asyncDispose]();
    return done;
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

type Body<T> = (guard: Guard) => T | PromiseLike<T>;
