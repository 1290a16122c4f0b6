// The Rust functions that TypeScript calls. Times are in milliseconds. The outcome of a method arrives in the queue,
// under its id.

import type { Key, LockOptions, WaitOptions } from './options';
import type { Failure } from './report';

/**
 * The outcome of work, or an event: a log line with id 0, or a notice.
 *
 * @internal
 */
export interface Completion {
  id: number;
  guard?: Guard;
  value?: unknown;
  failure?: Failure;
}

/** @internal */
export interface OutcomeQueue {
  cancel(id: number): void;
  end(): void;
}

/** @internal */
export interface Client {
  nodes(): string[];
  lock(key: Key, options: LockOptions): Lock | Failure;
  extend(id: number, key: Key, token: string, ttl: number, fence: number): void;
  release(id: number, key: Key, token: string): void;
  inspect(id: number, key: Key): void;
  close(id: number): void;
  panic(id: number): void;
}

/** @internal */
export interface Lock {
  checkOnce(window: number): Failure | null;
  acquire(id: number, given: WaitOptions): void;
  tryAcquire(id: number): void;
}

/** @internal */
export interface Guard {
  readonly key: string | Buffer;
  readonly fence: number;
  readonly token: string;
  ttl(): number;
  validFor(): number;
  isOpen(): boolean;
  loss(): Failure | null;
  extend(id: number, ttl: number): void;
  done(id: number, window: number, outcome: string): void;
  release(id: number): void;
  detach(id: number): void;
  watch(id: number): void;
  drop(): void;
}

interface Native {
  collect(queue: OutcomeQueue): Completion[];
  optionNames(): string[];
  shown(given: unknown): string;
  listen(queue: OutcomeQueue, lines: boolean): void;
  OutcomeQueue: new (wakeUp: () => void) => OutcomeQueue;
  Client: {
    connect(
      queue: OutcomeQueue,
      nodes: string[] | undefined,
      environment: string | undefined,
      given: { nodeTimeout?: number | undefined },
      notify?: number,
    ): Client | Failure;
  };
}

/** @internal */
export const native: Native = require('./native.node');
