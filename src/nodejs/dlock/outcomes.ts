// Outcomes for this event loop. A thread of its own does the work, and this file collects the outcomes.

import { setInterval } from 'node:timers';
import { made } from './errors';
import { publishLine, wantsLines } from './log';
import { type Completion, native, type OutcomeQueue } from './native';
import type { LogMessage } from './report';

const expected = new Map<number, (completion: Completion) => void>();
let own: OutcomeQueue | undefined;
let last = 0;
let awaited = 0;
let alive: NodeJS.Timeout | undefined;
let listened = false;

/** @internal */
export function queue(): OutcomeQueue {
  if (own === undefined) {
    const made = new native.OutcomeQueue(collect);
    process.once('exit', () => made.end());
    own = made;
  }
  return own;
}

/**
 * Begins work, and waits for its outcome. The process does not end meanwhile. Aborting the signal cancels the work.
 *
 * @internal
 */
export async function outcome(begin: (id: number) => void, signal?: AbortSignal): Promise<Completion> {
  signal?.throwIfAborted();
  listen();
  const id = next();
  let aborted = () => {};
  const arrived = new Promise<Completion>((resolve, reject) => {
    expected.set(id, resolve);
    aborted = () => {
      forget(id);
      reject(signal?.reason);
    };
  });
  const unsubscribe = signal && whenAborted(signal, aborted);
  keepAlive(1);
  try {
    begin(id);
    const completion = await arrived;
    // The signal was aborted after the outcome had arrived.
    if (signal?.aborted) {
      release(completion);
      throw signal.reason;
    }
    if (completion.failure !== undefined) {
      const error = made(completion.failure);
      // The caller's stack in place of the event loop's.
      Error.captureStackTrace(error, outcome);
      throw error;
    }
    return completion;
  } finally {
    keepAlive(-1);
    expected.delete(id);
    unsubscribe?.();
  }
}

/**
 * Begins work, and waits for its value.
 *
 * @internal
 */
export async function value<T>(begin: (id: number) => void): Promise<T> {
  return (await outcome(begin)).value as T;
}

/**
 * Calls this with an outcome, or with each notice. The process may end meanwhile. Returns the id.
 *
 * @internal
 */
export function expect(then: (completion: Completion) => void): number {
  const id = next();
  expected.set(id, then);
  return id;
}

/**
 * Cancels the work of this id.
 *
 * @internal
 */
export function forget(id: number): void {
  expected.delete(id);
  queue().cancel(id);
}

function collect(): void {
  for (const completion of native.collect(queue())) {
    if (completion.id === 0) publishLine(completion.value as LogMessage);
    const then = expected.get(completion.id);
    if (then === undefined) release(completion);
    else then(completion);
  }
}

function listen(): void {
  if (wantsLines() === listened) return;
  listened = !listened;
  native.listen(queue(), listened);
}

// One listener for each signal: one signal may end all waits of a process, and Node.js warns of many listeners.
const abortions = new WeakMap<AbortSignal, Set<() => void>>();

// Calls this when the signal is aborted, until the returned function is called.
function whenAborted(signal: AbortSignal, then: () => void): () => void {
  const all = abortions.get(signal) ?? new Set();
  abortions.set(signal, all);
  if (all.size === 0) signal.addEventListener('abort', abort);
  all.add(then);
  return () => {
    all.delete(then);
    if (all.size === 0) signal.removeEventListener('abort', abort);
  };
}

function abort({ target }: { target: unknown }): void {
  for (const then of abortions.get(target as AbortSignal) ?? []) then();
}

function release(completion: Completion): void {
  completion.guard?.drop();
}

function next(): number {
  do last = (last + 1) >>> 0;
  while (last === 0 || expected.has(last));
  return last;
}

// Tests replace the timers by false ones.
const every = setInterval;

// A timer keeps the process running while a caller waits: the queue does not.
function keepAlive(more: 1 | -1): void {
  awaited += more;
  alive ??= every(() => {}, 2 ** 31 - 1);
  if (awaited === 0) alive.unref();
  else if (awaited === more) alive.ref();
}
