// Channels of node:diagnostics_channel for programs that observe an application.

import * as diagnostics from 'node:diagnostics_channel';
import { debuglog } from 'node:util';
import { isMainThread } from 'node:worker_threads';
import type { LogMessage } from './report';

/** The messages of the tracing channel `dlock:acquire`: an acquisition. */
export interface AcquireMessage {
  /** The lock. */
  key: string | Uint8Array;
  /** The addresses of the nodes, without user and password. */
  nodes: string[];
  /** The fence of the lock, when it is acquired; null if `tryAcquire` has found it held. */
  result?: number | null;
  /** The error, if it is not acquired. */
  error?: unknown;
}

/**
 * True if this thread wants log lines.
 *
 * @internal
 */
export function wantsLines(): boolean {
  return LOG.hasSubscribers || prints();
}

/** @internal */
export function publishLine(line: LogMessage): void {
  if (LOG.hasSubscribers) LOG.publish(line);
  if (!prints()) return;
  const shown = Object.entries(line.fields).map(([name, value]) => ` ${name}=${value}`);
  debug('%s: %s%s', line.level, line.message, shown.join(''));
}

// Each thread that listens gets all lines of the process.
const prints = (): boolean => debug.enabled === true && isMainThread;

/**
 * Runs an acquisition, and publishes its message if the channel has subscribers.
 *
 * @internal
 */
export async function traced<T extends { fence: number } | null>(
  message: () => AcquireMessage,
  acquire: () => Promise<T>,
): Promise<T> {
  if (ACQUIRE === undefined || !isWatched(ACQUIRE)) return acquire();
  let acquired!: T;
  // The message shows the fence and not the guard: no token, and no guard that a subscriber could keep.
  await ACQUIRE.tracePromise(async () => {
    acquired = await acquire();
    return acquired?.fence ?? null;
  }, message());
  return acquired;
}

function isWatched(channel: diagnostics.TracingChannel<object, object>): boolean {
  const { start, end, asyncStart, asyncEnd, error } = channel;
  return [start, end, asyncStart, asyncEnd, error].some((each) => each.hasSubscribers);
}

// Node.js 18.18 has no tracing channels.
const ACQUIRE: diagnostics.TracingChannel<object, object> | undefined =
  diagnostics.tracingChannel?.('dlock:acquire');
const LOG = diagnostics.channel('dlock:log');
const debug = debuglog('dlock');
