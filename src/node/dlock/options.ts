// The options of locks, and their checks.

import { inspect, types } from 'node:util';
import { usage } from './errors';
import type { Options } from './native';

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
  /** Ties the lock to the connection: it ends at once when this process dies. */
  ephemeral?: boolean | undefined;
  /** A text about the holder, which anybody who inspects the lock sees. */
  meta?: string | undefined;
  /** Limit of the hold: after this time the lock is lost, even if every renewal succeeds. */
  maxHold?: number | undefined;
  /**
   * False asks for one lease without renewal: the lock ends with it, unless the guard extends or releases it before.
   * Then a guard that is garbage-collected leaves the lease to its end.
   */
  renew?: boolean | undefined;
}

const TTL = 30_000;
const WAIT = ['wait', 'signal'];
const NAMES = ['ttl', ...WAIT, 'shared', 'limit', 'ephemeral', 'meta', 'maxHold', 'renew'];

/** @internal */
export function options(given: LockOptions): Options {
  onlyKnown(given, NAMES);
  const read: Options = {
    ttl: millis('ttl', given.ttl === undefined ? TTL : given.ttl),
    shared: flag('shared', given.shared),
    ephemeral: flag('ephemeral', given.ephemeral),
    meta: text('meta', given.meta),
    renew: flag('renew', given.renew, true),
  };
  if (given.maxHold !== undefined) read.maxHold = longer('maxHold', given.maxHold);
  if (given.limit !== undefined) read.limit = permits(given.limit);
  return read;
}

/**
 * Reads the limits of a wait, from a lock's options or those of `acquire`.
 *
 * @internal
 */
export function patience({ wait, signal }: WaitOptions): WaitOptions {
  if (wait !== undefined) millis('wait', wait);
  if (signal !== undefined && !isSignal(signal)) throw usage(`signal is an AbortSignal, not ${shown(signal)}`);
  return { wait, signal };
}

/** @internal */
export function inPlaceOf(made: WaitOptions, given: WaitOptions, names = WAIT): WaitOptions {
  onlyKnown(given, names);
  const { wait, signal } = patience(given);
  return { wait: wait ?? made.wait, signal: signal ?? made.signal };
}

/** @internal */
export function key(given: unknown): Key {
  // Bytes may come from another realm, as in Jest.
  if (types.isUint8Array(given)) return given;
  if (typeof given === 'string' && !/\p{Surrogate}/u.test(given)) return given;
  if (typeof given === 'string') throw usage(`a key is Unicode; half a character is in ${inspect(given)}`);
  throw usage(`a key is text or a Buffer, not ${shown(given)}`);
}

/** @internal */
export function millis(name: string, given: unknown): number {
  if (typeof given === 'number' && given >= 0) return given;
  throw usage(`${name} is a number of milliseconds, not ${shown(given)}`);
}

function longer(name: string, given: unknown): number {
  if (millis(name, given) > 0) return given as number;
  throw usage(`${name} must be longer than zero`);
}

/** @internal */
export function token(given: unknown): string {
  if (typeof given === 'string') return given;
  throw usage(`a token is a text, not ${typeof given}`);
}

/** @internal */
export function fence(given: unknown): number {
  if (Number.isSafeInteger(given) && (given as number) >= 0) return given as number;
  throw usage(`a fence is a whole number, not ${shown(given)}`);
}

/** @internal */
export function addresses(given: unknown): string[] {
  const isMany = typeof given === 'object' && given !== null && Symbol.iterator in given;
  const list: unknown[] = isMany && !ArrayBuffer.isView(given) ? [...(given as Iterable<unknown>)] : [given];
  return list.map((each) => {
    if (typeof each === 'string') return each;
    throw usage(`nodes are addresses, each a text, not ${shown(each)}`);
  });
}

/** @internal */
export function called(name: string, given: unknown): void {
  if (typeof given !== 'function') throw usage(`${name} is a function, not ${shown(given)}`);
}

/** @internal */
export function onlyKnown(given: object, names: string[]): void {
  if (typeof given !== 'object' || given === null) throw usage(`options are an object, not ${shown(given)}`);
  const unknown = Object.keys(given).find((name) => !names.includes(name));
  if (unknown !== undefined) throw usage(`there is no option ${unknown}; there are ${names.join(', ')}`);
}

// Accepts signals of other realms and libraries, too.
function isSignal(given: AbortSignal | null): boolean {
  return typeof given?.throwIfAborted === 'function' && typeof given.addEventListener === 'function';
}

function flag(name: string, given: unknown, otherwise = false): boolean {
  if (given === undefined) return otherwise;
  if (typeof given === 'boolean') return given;
  throw usage(`${name} is true or false, not ${shown(given)}`);
}

function text(name: string, given: unknown = ''): string {
  if (typeof given === 'string') return given;
  throw usage(`${name} is a text, not ${shown(given)}`);
}

function permits(given: unknown): number {
  if (Number.isInteger(given) && (given as number) >= 0 && (given as number) < 2 ** 16) return given as number;
  throw usage(`limit is a whole number of holders, not ${shown(given)}`);
}

function shown(given: unknown): string {
  if (typeof given === 'string') return inspect(given, { maxStringLength: 20 });
  return typeof given === 'number' || given === null ? String(given) : typeof given;
}
