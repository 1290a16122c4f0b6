/**
 * A class with the interface of redlock and its fork `@sesamecare-oss/redlock`, for programs that move over.
 *
 * @packageDocumentation
 */

import { EventEmitter } from 'node:events';
import { inspect } from 'node:util';
import { Client, nativeOf } from './client';
import { DlockError, DoneError, HeldError, LostError, made, usage } from './errors';
import { Guard } from './guard';
import { address, type Ioredis, prefix } from './ioredis';
import type * as rust from './native';
import { outcome } from './outcomes';
import { acquiring, watched } from './trace';

export type { Ioredis } from './ioredis';

/** The settings of redlock. Others are accepted, and have no effect. */
export interface Settings {
  /** Number of redlock's retries; -1 is no limit. The wait ends after `retryCount` times `retryDelay`. */
  readonly retryCount?: number;
  /** Milliseconds between redlock's retries. */
  readonly retryDelay?: number;
  readonly retryJitter?: number;
  readonly driftFactor?: number;
  readonly automaticExtensionThreshold?: number;
  /** Replaces the client's database. */
  readonly db?: number;
}

/** The votes of the nodes. A node that was given by an address is that address, without user and password. */
export interface ExecutionStats {
  readonly membershipSize: number;
  readonly quorumSize: number;
  readonly votesFor: Set<Ioredis | string>;
  readonly votesAgainst: Map<Ioredis | string, Error>;
}

/** The outcome of an operation. There is one attempt: waiters queue, and do not retry. */
export interface ExecutionResult {
  readonly attempts: ReadonlyArray<Promise<ExecutionStats>>;
  readonly start: number;
}

/** Somebody else holds a resource. */
export class ResourceLockedError extends Error {
  static {
    ResourceLockedError.prototype.name = 'ResourceLockedError';
  }
}

/** An operation had no majority. Its `cause` is the error of dlock. */
export class ExecutionError extends Error {
  readonly attempts: ReadonlyArray<Promise<ExecutionStats>>;

  constructor(message: string, attempts: ReadonlyArray<Promise<ExecutionStats>>, cause?: unknown) {
    super(message, { cause });
    this.attempts = attempts;
  }

  static {
    ExecutionError.prototype.name = 'ExecutionError';
  }
}

/** A signal whose `error` is the reason of its abort. */
export type RedlockAbortSignal = AbortSignal & { error?: Error };

/** The second argument of the routine of `using`. */
export interface RedlockUsingContext {
  lock: Lock;
  /** Always 0: a thread of its own renews the lock. */
  extensions: number;
}

/** A lock on one or more resources. */
export class Lock {
  readonly redlock: Redlock;
  readonly resources: string[];
  readonly attempts: ReadonlyArray<Promise<ExecutionStats>>;
  readonly settings: Partial<Settings> | undefined;
  /** @internal */
  readonly parts: Part[];
  /** @internal */
  ended = false;

  /** @internal */
  constructor(
    redlock: Redlock,
    resources: string[],
    parts: Part[],
    attempts: ReadonlyArray<Promise<ExecutionStats>>,
    settings?: Partial<Settings>,
  ) {
    this.redlock = redlock;
    this.resources = resources;
    this.parts = parts;
    this.attempts = attempts;
    this.settings = settings;
  }

  /** The token of the first resource. */
  get value(): string {
    return this.parts[0]?.token ?? '';
  }

  /** The fence of each resource. redlock has nothing like it. */
  get fences(): Map<string, number> {
    return new Map(this.parts.map((part, at) => [this.resources[at] ?? '', part.fence]));
  }

  /** @internal */
  [inspect.custom](): string {
    const isHeld = !this.ended && this.parts.every((part) => part.validFor > 0);
    const until = isHeld ? `held until ${new Date(this.expiration).toISOString()}` : 'not held';
    const fences = [...this.fences].map(([resource, fence]) => `${inspect(resource)} with fence ${fence}`);
    return `Lock { ${fences.join(', ')}, ${until} }`;
  }

  /** Time until which the lock is certainly held, as `Date` counts; 0 once it was released or extended. */
  get expiration(): number {
    if (this.ended) return 0;
    return Date.now() + Math.min(...this.parts.map((part) => part.validFor));
  }

  async release(): Promise<ExecutionResult> {
    return this.redlock.release(this);
  }

  async extend(duration: number): Promise<Lock> {
    return this.redlock.extend(this, duration, this.settings);
  }
}

/** One resource of a lock: a guard, which is renewed, or a lease, which is not. */
interface Part {
  readonly token: string;
  readonly fence: number;
  readonly validFor: number;
  extend(ttl: number): Promise<void>;
  release(): Promise<void>;
}

/**
 * The interface of redlock over dlock. It takes addresses, or clients of ioredis, whose addresses it uses.
 */
export class Redlock extends EventEmitter {
  readonly clients: Set<Ioredis | string>;
  readonly settings: Required<Pick<Settings, 'retryCount' | 'retryDelay'>> & Settings;
  readonly #client: Client;
  // Kept here, because asking for them takes longer.
  readonly #nodes: string[];
  readonly #prefix: string;

  constructor(clients: Iterable<Ioredis | string>, settings: Settings = {}) {
    super();
    // Without a listener, an emitted error would be thrown.
    this.on('error', () => {});
    this.clients = new Set(clients);
    if (this.clients.size === 0)
      throw new Error('Redlock must be instantiated with at least one redis client.');
    const { retryCount = 10, retryDelay = 200 } = settings;
    this.settings = { ...settings, retryCount, retryDelay };
    const given = [...this.clients];
    const nodes = given.map((one) => (typeof one === 'string' ? one : address(one, settings.db)));
    const prefixes = new Set(given.map((one) => (typeof one === 'string' ? '' : prefix(one))));
    if (prefixes.size > 1) throw usage('the clients have different key prefixes');
    this.#prefix = [...prefixes][0] ?? '';
    this.#client = new Client(nodes);
    this.#nodes = this.#client.nodes;
  }

  /** The addresses of the nodes, without user and password. redlock has nothing like it. */
  get nodes(): string[] {
    return [...this.#nodes];
  }

  /** Quits the connections of the clients, as redlock does, and those of dlock. */
  async quit(): Promise<void> {
    const clients = [...this.clients].filter((client) => typeof client !== 'string');
    await Promise.all([this.#client.close(), ...clients.map((client) => client.quit())]);
  }

  /** Locks all of these resources for this long, without renewal. */
  async acquire(resources: string[], duration: number, settings?: Partial<Settings>): Promise<Lock> {
    whole(duration);
    const take = async (key: string, wait: number) => {
      const lock = nativeOf(this.#client).lock(key, { ttl: duration, wait, renew: false });
      if ('code' in lock) throw made(lock);
      const asked = watched(() => ({ key, nodes: this.nodes, options: lock.options() }));
      const guard = await acquiring(asked, async (waits) => {
        const completion = await outcome((id) => lock.acquire(id, {}), undefined, waits);
        return completion.guard as rust.Guard;
      });
      return new Leased(guard);
    };
    return this.#take(resources, duration, settings, take);
  }

  /** Releases a lock. Throws ExecutionError if it did not hold one of its resources any more. */
  async release(lock: Lock, _settings?: Partial<Settings>): Promise<ExecutionResult> {
    lock.ended = true;
    return this.#each(lock.parts, (part) => part.release());
  }

  /** Extends a lock to this long from now. The returned lock replaces the other. */
  async extend(existing: Lock, duration: number, settings?: Partial<Settings>): Promise<Lock> {
    whole(duration);
    if (existing.expiration <= Date.now())
      throw new ExecutionError('Cannot extend an already-expired lock.', []);
    const { attempts } = await this.#each(existing.parts, (part) => part.extend(duration));
    existing.ended = true;
    return new Lock(this, existing.resources, existing.parts, attempts, settings);
  }

  /**
   * Holds a lock until the routine has ended. A thread of its own renews it; if it is lost all the same, the signal is
   * aborted.
   */
  async using<T>(
    resources: string[],
    duration: number,
    settings: Partial<Settings>,
    routine?: Routine<T>,
  ): Promise<T>;
  async using<T>(resources: string[], duration: number, routine: Routine<T>): Promise<T>;
  async using<T>(
    resources: string[],
    duration: number,
    given: Partial<Settings> | Routine<T>,
    last?: Routine<T>,
  ): Promise<T> {
    whole(duration);
    const routine = last ?? given;
    if (typeof routine !== 'function') throw new Error('INVARIANT: routine is not a function.');
    const settings = typeof given === 'function' ? undefined : given;
    const take = (key: string, wait: number) => this.#client.lock(key, { ttl: duration, wait }).acquire();
    const lock = await this.#take(resources, duration, settings, take);
    const controller = new AbortController();
    const signal: RedlockAbortSignal = controller.signal;
    for (const part of lock.parts) {
      if (!(part instanceof Guard)) continue;
      const lost = part.signal;
      const abort = () => {
        signal.error ??= lost.reason;
        controller.abort(lost.reason);
      };
      if (lost.aborted) abort();
      else lost.addEventListener('abort', abort);
    }
    try {
      return await routine(signal, { lock, extensions: 0 });
    } finally {
      await lock.release();
    }
  }

  /**
   * Locks the resources one by one, always in the same order, so that no deadlock can arise. Fails if one was lost
   * while the next ones were waited for.
   */
  async #take(
    resources: string[],
    duration: number,
    settings: Partial<Settings> | undefined,
    take: (key: string, wait: number) => Promise<Part>,
  ): Promise<Lock> {
    // A text would lock each of its letters.
    if (!Array.isArray(resources)) throw usage('resources are an array of names');
    const { retryCount = this.settings.retryCount, retryDelay = this.settings.retryDelay } = settings ?? {};
    const isEndless = retryCount === -1 || retryCount === Number.POSITIVE_INFINITY;
    const until = performance.now() + (isEndless ? Number.POSITIVE_INFINITY : retryCount * retryDelay);
    const sorted = [...new Set(resources)].sort();
    if (sorted.length === 0) throw usage('there is nothing to lock');
    const parts: Part[] = [];
    try {
      for (const resource of sorted) {
        parts.push(await take(this.#prefix + resource, Math.max(0, until - performance.now())));
      }
      await Promise.all(parts.slice(0, -1).map((part) => part.extend(duration)));
    } catch (error) {
      await Promise.allSettled(parts.map((part) => part.release()));
      throw this.#failed(error);
    }
    return new Lock(this, sorted, parts, [this.#stats([])], settings);
  }

  async #each(parts: Part[], act: (part: Part) => Promise<void>): Promise<ExecutionResult> {
    const start = Date.now();
    const done = await Promise.allSettled(parts.map(act));
    const failed = done.find((one) => one.status === 'rejected');
    if (failed?.status === 'rejected') throw this.#failed(failed.reason);
    return { attempts: [this.#stats([])], start };
  }

  #failed(error: unknown): unknown {
    if (!(error instanceof DlockError) || error.code === 'usage') return error;
    const words = 'The operation was unable to achieve a quorum during its retry window.';
    return new ExecutionError(words, [this.#stats(error.nodes, error)], error);
  }

  /** Sorts the nodes by their votes, as far as these are known. */
  async #stats(nodes: DlockError['nodes'], error?: DlockError): Promise<ExecutionStats> {
    const clients = [...this.clients].map((client, at) =>
      typeof client === 'string' ? (this.#nodes[at] ?? '') : client,
    );
    const stats: ExecutionStats = {
      membershipSize: clients.length,
      quorumSize: Math.floor(clients.length / 2) + 1,
      votesFor: new Set(),
      votesAgainst: new Map(),
    };
    for (const [at, client] of clients.entries()) {
      const state = nodes[at]?.state;
      if (error === undefined || state === 'granted') {
        stats.votesFor.add(client);
        continue;
      }
      const locked = [HeldError, DoneError, LostError].some((known) => error instanceof known);
      const message = nodes[at]?.message ?? error.message;
      const against = locked ? new ResourceLockedError(message) : new Error(message);
      stats.votesAgainst.set(client, against);
      this.emit('error', against);
    }
    return stats;
  }

  /** @internal */
  [inspect.custom](): string {
    return `Redlock { ${this.nodes.join(', ')} }`;
  }
}

export default Redlock;

type Routine<T> = (signal: RedlockAbortSignal, context: RedlockUsingContext) => Promise<T>;

/** A lock without renewal. Its lease goes on when this object is collected. */
class Leased implements Part {
  readonly #native: rust.Guard;

  constructor(native: rust.Guard) {
    this.#native = native;
  }

  get token(): string {
    return this.#native.token;
  }

  get fence(): number {
    return this.#native.fence;
  }

  get validFor(): number {
    return this.#native.validFor();
  }

  async extend(ttl: number): Promise<void> {
    await outcome((id) => this.#native.extend(id, ttl));
  }

  async release(): Promise<void> {
    await outcome((id) => this.#native.release(id));
  }
}

function whole(duration: number): void {
  if (Math.floor(duration) !== duration) throw new Error('Duration must be an integer value in milliseconds.');
  if (duration < 0) throw usage(`duration is a number of milliseconds, not ${duration}`);
}
