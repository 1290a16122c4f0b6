// Checks of arguments that Rust does not check.

import { inspect, types } from 'node:util';
import { usage } from './errors';
import { native } from './native';
import type { Key, WaitOptions } from './options';

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
