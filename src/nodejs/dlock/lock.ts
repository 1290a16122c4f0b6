// A lock and its options.

import { inspect, types } from 'node:util';
import { called, checkSignal, onlyKnown } from './arguments';
import { made } from './errors';
import { Guard } from './guard';
import type * as rust from './native';
import type { Key, WaitOptions } from './options';
import { outcome } from './outcomes';

/**
 * A lock and its options. It can be acquired any number of times. It is not reentrant: a holder that acquires it again
 * waits for itself.
 */
export class Lock {
  readonly #native: rust.Lock;
  readonly #wanted: Wanted;

  /** @internal */
  constructor(native: rust.Lock, wanted: Wanted) {
    this.#native = native;
    this.#wanted = wanted;
  }

  /** The name of the lock. */
  get key(): Key {
    return this.#wanted.key;
  }

  /**
   * Acquires the lock; `wait` and `signal` replace the lock's own. Throws HeldError when the time to wait is over, and
   * the reason of `signal` when that is aborted; both leave nothing behind on any node. Release the
   * guard in a `finally` block, or use `run`.
   */
  async acquire(given: WaitOptions = {}): Promise<Guard> {
    onlyKnown(given, ['wait', 'signal']);
    return (await this.#acquire(given, (id) => this.#native.acquire(id, { wait: given.wait }))) as Guard;
  }

  /** Acquires the lock if it is free; else returns null. */
  async tryAcquire(given: Pick<WaitOptions, 'signal'> = {}): Promise<Guard | null> {
    onlyKnown(given, ['signal']);
    return this.#acquire(given, (id) => this.#native.tryAcquire(id));
  }

  async #acquire(given: WaitOptions, begin: (id: number) => void): Promise<Guard | null> {
    checkSignal(given);
    const { signal = this.#wanted.signal } = given;
    const acquired = (await outcome(begin, signal)).guard;
    if (acquired === undefined) return null;
    const guard = new Guard(acquired);
    clients.set(guard, this.#wanted.client);
    return guard;
  }

  /**
   * Acquires the lock, and holds it until `body` has ended. Returns or throws what `body` does. Throws LostError if the
   * lock was lost meanwhile and `body` did not throw.
   */
  async run<T>(body: (guard: Guard) => T | PromiseLike<T>): Promise<T>;
  async run<T>(given: WaitOptions, body: (guard: Guard) => T | PromiseLike<T>): Promise<T>;
  async run<T>(...given: [Body<T>] | [WaitOptions, Body<T>]): Promise<T> {
    const [wait, body] = given.length === 1 ? [{}, given[0]] : given;
    called('body', body);
    const guard = await this.acquire(wait);
    let done: T;
    try {
      // This thread may have been blocked since the grant.
      guard.check();
      done = ended(await body(guard));
    } catch (error) {
      // The body's own error is more specific.
      await guard[Symbol.asyncDispose]().catch(() => {});
      throw error;
    }
    await guard[Symbol.asyncDispose]();
    return done;
  }

  /**
   * Runs a job once per window: acquires the lock, runs `body`, and leaves the lock done until `window` after it was
   * acquired. If `body` throws, the lock is released, and another client may try. Throws DoneError if the work of
   * this window has been done already.
   */
  async runOnce<T>(window: number, body: Body<T>): Promise<T> {
    const wrong = this.#native.checkOnce(window);
    if (wrong !== null) throw made(wrong);
    called('body', body);
    return this.run(async (guard) => {
      const done = ended(await body(guard));
      await guard.done(window);
      return done;
    });
  }

  /** @internal */
  [inspect.custom](): string {
    return `Lock { ${inspect(this.key)} }`;
  }
}

/** Returns the result of work. Throws if that is work still to be done, without the lock. */
function ended<T>(result: T): T {
  if (types.isGeneratorObject(result)) throw new TypeError('the work has not begun: it is a generator');
  return result;
}

/** The parts of a lock. */
interface Wanted {
  key: Key;
  signal: AbortSignal | undefined;
  /** A reference to the client, so that its `notify` is called as long as the lock exists. */
  client: object;
}

/** References to clients, so that `notify` is called as long as a guard exists. */
const clients = new WeakMap<Guard, object>();

type Body<T> = (guard: Guard) => T | PromiseLike<T>;
