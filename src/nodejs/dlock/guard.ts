// A lock that is held.

import { inspect } from 'node:util';
import { type LostError, made } from './errors';
import type * as rust from './native';
import { expect, forget, outcome, value } from './outcomes';
import type { Failure, Lease } from './report';

/**
 * A lock that is held, and renewed until it is released, or until the process ends. Garbage collection releases nothing:
 * the work under the lock may go on.
 */
export class Guard {
  readonly #native: rust.Guard;
  #watch: Watch | undefined;

  /** @internal */
  constructor(native: rust.Guard) {
    this.#native = native;
  }

  /** The lock; text where its name is UTF-8. */
  get key(): string | Buffer {
    return this.#native.key;
  }

  /**
   * The number of this acquisition: larger than the fence of any earlier one of the same lock. Show it to
   * services that can refuse a smaller one. It is a safe integer: fences are smaller than 2 ** 53.
   */
  get fence(): number {
    return this.#native.fence;
  }

  /** The token of this holder at the nodes. A secret: any client that has it can release the lock. */
  get token(): string {
    return this.#native.token;
  }

  /** Length of lease that it asks for, in milliseconds. A node may grant a shorter one. */
  get ttl(): number {
    return this.#native.ttl();
  }

  /**
   * Milliseconds until the validity ends if no renewal succeeds; 0 once the lock is lost.
   * The clock goes on while the machine sleeps.
   */
  get validFor(): number {
    return this.#native.validFor();
  }

  /** True if the lock is certainly held at this moment. */
  get isValid(): boolean {
    return this.#native.validFor() > 0;
  }

  /**
   * A signal that is aborted when the lock is lost, with a LostError as its reason; neither a release nor `done` nor
   * `detach` aborts it.
   * Reading this property after the event loop was blocked gives the present state at once.
   */
  get signal(): AbortSignal {
    this.#watch ??= new Watch(this.#native);
    return this.#watch.signal();
  }

  /** Throws LostError unless the lock is certainly held at this moment. */
  check(): void {
    const loss = this.#native.loss();
    if (loss !== null) throw made(loss);
  }

  /**
   * Renews the lease now, and from now on, with this length or the present one, whichever is longer. Throws
   * LostError, or RefusedError if the nodes refuse a lease of this length; then the lock is held as before.
   */
  async extend(ttl: number): Promise<void> {
    await outcome((id) => this.#native.extend(id, ttl));
  }

  /**
   * Leaves the lock done until `window` after it was acquired: until then every request for it throws DoneError at once,
   * with this text about the outcome. From this call on the guard is not valid, and its release does not throw. Waits
   * until a majority of the nodes has answered. Throws UsageError if the lock is shared or has a limit; then it is held
   * as before. Throws LostError if the lock was lost before, or too few nodes have answered: another client may do the
   * work again.
   */
  async done(window: number, words = ''): Promise<void> {
    await outcome((id) => this.#native.done(id, window, words));
  }

  /**
   * Releases the lock, and waits until a majority of the nodes has answered. Throws LostError if the lock
   * was lost before.
   */
  async release(): Promise<void> {
    this.#watch?.end();
    await outcome((id) => this.#native.release(id));
  }

  /**
   * Hands the lock over to the owner of its token, for example another process, which extends and releases it by token.
   * This process stops renewing it, and does not release it. Waits until all nodes that answer have the lock. Rejects
   * with LostError if the lock was lost before.
   */
  async detach(): Promise<Lease> {
    this.#watch?.end();
    return value<Lease>((id) => this.#native.detach(id));
  }

  /** Releases the lock unless that was done already, for `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#native.isOpen()) await this.release();
  }

  /** @internal */
  [inspect.custom](): string {
    const state = this.isValid ? `valid for ${this.validFor.toFixed()} ms` : 'not held';
    return `Guard { ${inspect(this.key)}, fence ${this.fence}, ${state} }`;
  }
}

/** Aborts a signal when a lock is lost. It has no reference to its guard, which may be collected. */
class Watch {
  readonly #native: rust.Guard;
  readonly #controller = new AbortController();
  readonly #id: number;

  constructor(native: rust.Guard) {
    this.#native = native;
    this.#id = expect((completion) => {
      this.end();
      this.#abort(completion.failure);
    });
    // After a release there is nothing to watch.
    if (native.isOpen()) native.watch(this.#id);
    else this.end();
  }

  signal(): AbortSignal {
    if (this.#native.isOpen()) this.#abort(this.#native.loss());
    return this.#controller.signal;
  }

  end(): void {
    forget(this.#id);
  }

  #abort(loss: Failure | null | undefined): void {
    // Whether the lock can be left done may still be open.
    if (loss === null || loss === undefined || loss.why === 'done' || this.#controller.signal.aborted) return;
    this.end();
    this.#controller.abort(made(loss) as LostError);
  }
}
