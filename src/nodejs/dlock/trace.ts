// Channels of node:diagnostics_channel for programs that observe an application.

import { AsyncResource } from 'node:async_hooks';
import * as diagnostics from 'node:diagnostics_channel';
import { debuglog } from 'node:util';
import type { Line } from './native';
import type { LockOptions } from './options';
import type { LogMessage } from './report';

/** The messages of the tracing channel `dlock:acquire`: an acquisition. */
export interface AcquireMessage {
  /** The lock. */
  key: string | Uint8Array;
  /** The addresses of the nodes, without user and password. */
  nodes: string[];
  /** The options. Times are in milliseconds. */
  options: Omit<LockOptions, 'signal'>;
  /** The fence of the lock, when it is acquired; null if `tryAcquire` has found it held. */
  result?: number | null;
  /** The error, if it is not acquired. */
  error?: unknown;
}

/** The messages of the tracing channel `dlock:wait`: a place in the queue of a lock. */
export interface WaitMessage {
  /** The lock. */
  key: string | Uint8Array;
  /** The holders and refusals in the way, for people. */
  waitsFor: string;
  /** Length of the wait in milliseconds, independent of the event loop; missing if it was given up. */
  waited?: number;
  /** The acquisition that waits. */
  acquire: AcquireMessage;
}

/** The messages of the tracing channel `dlock:hold`: a lock is held, until it is released or lost. */
export interface HoldMessage {
  /** The lock. */
  key: string | Uint8Array;
  fence: number;
  /** The acquisition that got the lock. */
  acquire: AcquireMessage;
  /** A LostError, if the lock is lost. */
  error?: unknown;
}

/**
 * The events that this thread wants.
 *
 * @internal
 */
export function wanted(): { waits: boolean; lines: boolean; prints: boolean } {
  return { waits: isWatched(WAIT), lines: LOG.hasSubscribers, prints: debug.enabled === true };
}

/** @internal */
export function publishLine({ prints, fields, ...line }: Line): void {
  if (LOG.hasSubscribers) LOG.publish({ ...line, fields: Object.fromEntries(fields) } satisfies LogMessage);
  if (!prints) return;
  const shown = fields.map(([name, value]) => ` ${name}=${value}`);
  debug('%s: %s%s', line.level, line.message, shown.join(''));
}

/**
 * Returns this message, if a channel has subscribers.
 *
 * @internal
 */
export function watched(message: () => AcquireMessage): AcquireMessage | undefined {
  return isWatched(ACQUIRE) || isWatched(WAIT) || isWatched(HOLD) ? message() : undefined;
}

/**
 * Runs an acquisition, and publishes its messages.
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
  // The message shows the fence and not the guard: no token, and no guard that a subscriber could keep.
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
  readonly #place = isWatched(WAIT) ? new AsyncResource('dlock.wait') : undefined;
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
 * Publishes the begin of a hold. The returned function publishes its end; it is missing if the channel has no
 * subscribers.
 *
 * @internal
 */
export function holding(acquire: AcquireMessage | undefined, fence: number): Ended | undefined {
  if (acquire === undefined || !isWatched(HOLD)) return undefined;
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

function isWatched(channel: Tracing | undefined): boolean {
  if (channel === undefined) return false;
  const { start, end, asyncStart, asyncEnd, error } = channel;
  return [start, end, asyncStart, asyncEnd, error].some((each) => each.hasSubscribers);
}

// Node.js 18.18 has no tracing channels.
const traced = (name: string): Tracing | undefined => diagnostics.tracingChannel?.(name);

const ACQUIRE = traced('dlock:acquire');
const WAIT = traced('dlock:wait');
const HOLD = traced('dlock:hold');
const LOG = diagnostics.channel('dlock:log');
const debug = debuglog('dlock');
