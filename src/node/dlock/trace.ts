// What programs that watch an application see of its locks: channels of node:diagnostics_channel.

import { AsyncResource } from 'node:async_hooks';
import * as diagnostics from 'node:diagnostics_channel';
import { debuglog } from 'node:util';
import type { Line } from './native';
import type { LockOptions } from './options';
import type { LogMessage } from './report';

/** The messages of the tracing channel `dlock:acquire`: somebody wants a lock. */
export interface AcquireMessage {
  /** The lock. */
  key: string | Uint8Array;
  /** The addresses of the nodes, without user and password. */
  nodes: string[];
  /** With which options. Times are in milliseconds. */
  options: Omit<LockOptions, 'signal'>;
  /** The fence of the lock, when it is acquired; null if `tryAcquire` has found it held. */
  result?: number | null;
  /** Why it is not acquired. */
  error?: unknown;
}

/** The messages of the tracing channel `dlock:wait`: a place in the queue of a lock. */
export interface WaitMessage {
  /** The lock. */
  key: string | Uint8Array;
  /** What stands in the way, for people. */
  waitsFor: string;
  /** How many milliseconds it has taken, whatever the event loop did; missing if it was given up. */
  waited?: number;
  /** For which acquisition this waits. */
  acquire: AcquireMessage;
}

/** The messages of the tracing channel `dlock:hold`: a lock is held, until it is released or lost. */
export interface HoldMessage {
  /** The lock. */
  key: string | Uint8Array;
  fence: number;
  /** By which acquisition. */
  acquire: AcquireMessage;
  /** A LostError, if it is lost. */
  error?: unknown;
}

/**
 * What this thread wants to hear of the library.
 *
 * @internal
 */
export function wanted(): { waits: boolean; lines: boolean; prints: boolean } {
  return { waits: isHeard(WAIT), lines: LOG.hasSubscribers, prints: debug.enabled === true };
}

/** @internal */
export function tell({ prints, fields, ...line }: Line): void {
  if (LOG.hasSubscribers) LOG.publish({ ...line, fields: Object.fromEntries(fields) } satisfies LogMessage);
  if (!prints) return;
  const shown = fields.map(([name, value]) => ` ${name}=${value}`);
  debug('%s: %s%s', line.level, line.message, shown.join(''));
}

/**
 * This message, if anybody watches.
 *
 * @internal
 */
export function watched(message: () => AcquireMessage): AcquireMessage | undefined {
  return isHeard(ACQUIRE) || isHeard(WAIT) || isHeard(HOLD) ? message() : undefined;
}

/**
 * Does this, which acquires a lock, where those who watch see it.
 *
 * @internal
 */
export async function acquiring<T extends { fence: number } | null>(
  message: AcquireMessage | undefined,
  acquire: (waits?: Waits) => Promise<T>,
): Promise<T> {
  if (message === undefined) return acquire();
  if (ACQUIRE === undefined) return acquire(new Waits(message));
  let acquired!: T;
  // The message shows a fence, and not what has it: no token, and nothing that is kept by whoever watches.
  await ACQUIRE.tracePromise(async () => {
    acquired = await acquire(new Waits(message));
    return acquired?.fence ?? null;
  }, message);
  return acquired;
}

/**
 * The waits of an acquisition, one after the other.
 *
 * @internal
 */
export class Waits {
  readonly #acquire: AcquireMessage;
  readonly #place = isHeard(WAIT) ? new AsyncResource('dlock.wait') : undefined;
  #going: { message: WaitMessage; end: () => void } | undefined;

  constructor(acquire: AcquireMessage) {
    this.#acquire = acquire;
  }

  begin(waitsFor: string): void {
    this.end();
    const message: WaitMessage = { key: this.#acquire.key, waitsFor, acquire: this.#acquire };
    this.#place?.runInAsyncScope(() => {
      const ended = new Promise<void>((resolve) => {
        this.#going = { message, end: resolve };
      });
      void WAIT?.tracePromise(() => ended, message);
    });
  }

  end(waited?: number): void {
    const going = this.#going;
    if (going === undefined) return;
    this.#going = undefined;
    if (waited !== undefined) going.message.waited = waited;
    going.end();
  }
}

/**
 * Tells those who watch that a lock is held. What is returned tells them that it is not any more; it is missing
 * where nobody watches.
 *
 * @internal
 */
export function holding(acquire: AcquireMessage | undefined, fence: number): Ended | undefined {
  if (acquire === undefined || !isHeard(HOLD)) return undefined;
  let end: Ended | undefined;
  const ended = new Promise<void>((resolve, reject) => {
    end = (loss) => (loss === undefined ? resolve() : reject(loss));
  });
  HOLD?.tracePromise(() => ended, { key: acquire.key, fence, acquire }).catch(() => {});
  return end;
}

/** @internal */
export type Ended = (loss?: unknown) => void;

type Tracing = diagnostics.TracingChannel<object, object>;

function isHeard(channel: Tracing | undefined): boolean {
  if (channel === undefined) return false;
  const { start, end, asyncStart, asyncEnd, error } = channel;
  return [start, end, asyncStart, asyncEnd, error].some((each) => each.hasSubscribers);
}

// Node 18.18 has none.
const traced = (name: string): Tracing | undefined => diagnostics.tracingChannel?.(name);

const ACQUIRE = traced('dlock:acquire');
const WAIT = traced('dlock:wait');
const HOLD = traced('dlock:hold');
const LOG = diagnostics.channel('dlock:log');
const debug = debuglog('dlock');
