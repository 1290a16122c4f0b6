// The options of locks, which Rust reads and checks, and the checks of other arguments.

import { inspect, types } from 'node:util';
import { usage } from './errors';
import { native } from './native';

/** The name of a lock: text or bytes. */
export type Key = string | Uint8Array;

/** The limits of a wait for a lock. */
export interface WaitOptions {
  /** Limit of the wait in milliseconds; by default there is none, and 0 is no wait. */
  wait?: number | undefined;
  /** Ends the wait when it is aborted, and leaves nothing behind on any node. */
  signal?: AbortSignal | undefined;
}

/** The options of a lock. Times are in milliseconds. */
export interface LockOptions extends WaitOptions {
  /**
   * The lease: 30,000 by default. If this process dies, the lock is free again after this time. While
   * the process lives, the client renews the lease each time a third of it has passed.
   */
  ttl?: number | undefined;
  /** For readers: any number of them hold the lock together, and no writer beside them. */
  shared?: boolean | undefined;
  /** For a semaphore: this many clients hold it together, on a single node only. */
  limit?: number | undefined;
  /** A text about the holder, which anybody who inspects the lock sees. */
  meta?: string | undefined;
  /** Limit of the hold: after this time the lock is lost, even if every renewal succeeds. */
  maxHold?: number | undefined;
  /** Takes the lock even if its last holder left it done. */
  again?: boolean | undefined;
  /**
   * False asks for one lease without renewal: the lock ends with it, unless the guard extends or releases it before.
   * Then a guard that is garbage-collected leaves the lease to its end.
   */
  renew?: boolean | undefined;
}

/** @internal */
export const NAMES = ['signal', ...native.optionNames()];

/** @internal */
export function checkSignal({ signal }: WaitOptions): void {
  // Accepts signals of other realms and libraries, too.
  const { throwIfAborted, addEventListener } = (signal ?? {}) as Partial<AbortSignal>;
  if (signal === undefined || (typeof throwIfAborted === 'function' && typeof addEventListener === 'function'))
    return;
  throw usage(`signal is an AbortSignal, not ${native.shown(signal)}`);
}

/** @internal */
export function key(given: unknown): Key {
  // Bytes may come from another realm, as in Jest.
  if (types.isUint8Array(given)) return given;
  if (typeof given === 'string' && !/\p{Surrogate}/u.test(given)) return given;
  if (typeof given === 'string') throw usage(`a key is Unicode; half a character is in ${inspect(given)}`);
  throw usage(`a key is text or a Buffer, not ${native.shown(given)}`);
}

/** @internal */
export function token(given: unknown): string {
  if (typeof given === 'string') return given;
  throw usage(`a token is a text, not ${typeof given}`);
}

/** @internal */
export function fence(given: unknown): number {
  if (Number.isSafeInteger(given) && (given as number) >= 0) return given as number;
  throw usage(`a fence is a whole number, not ${native.shown(given)}`);
}

/** @internal */
export function addresses(given: unknown): string[] {
  const isMany = typeof given === 'object' && given !== null && Symbol.iterator in given;
  const list: unknown[] = isMany && !ArrayBuffer.isView(given) ? [...(given as Iterable<unknown>)] : [given];
  return list.map((each) => {
    if (typeof each === 'string') return each;
    throw usage(`nodes are addresses, each a text, not ${native.shown(each)}`);
  });
}

/** @internal */
export function called(name: string, given: unknown): void {
  if (typeof given !== 'function') throw usage(`${name} is a function, not ${native.shown(given)}`);
}

/** @internal */
export function onlyKnown(given: object, names: string[]): void {
  if (typeof given !== 'object' || given === null)
    throw usage(`options are an object, not ${native.shown(given)}`);
  const unknown = Object.keys(given).find((name) => !names.includes(name));
  if (unknown !== undefined) throw usage(`there is no option ${unknown}; there are ${names.join(', ')}`);
}
