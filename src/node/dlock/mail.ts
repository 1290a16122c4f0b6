// Outcomes for this event loop. A thread of its own does the work, and this file collects the outcomes.

import { setInterval } from 'node:timers';
import { made } from './errors';
import { native, type Post, type Told } from './native';
import { tell, type Waits, wanted } from './trace';

const expected = new Map<number, (told: Told) => void>();
let box: Post | undefined;
let last = 0;
let awaited = 0;
let alive: NodeJS.Timeout | undefined;
let heard = '';

/** @internal */
export function post(): Post {
  if (box === undefined) {
    const made = new native.Post(collect);
    process.once('exit', () => made.end());
    box = made;
  }
  return box;
}

/**
 * Begins work, and waits for its outcome: that keeps the process alive. Aborting the signal cancels the work.
 *
 * @internal
 */
export async function outcome(
  begin: (ticket: number) => void,
  signal?: AbortSignal,
  waits?: Waits,
): Promise<Told> {
  signal?.throwIfAborted();
  hear();
  const ticket = next();
  let aborted = () => {};
  const arrived = new Promise<Told>((resolve, reject) => {
    expected.set(ticket, (told) => {
      if (told.waitsFor !== undefined) waits?.begin(told.waitsFor);
      else if (told.waited !== undefined) waits?.end(told.waited);
      else resolve(told);
    });
    aborted = () => {
      forget(ticket);
      reject(signal?.reason);
    };
  });
  const heard = signal && whenAborted(signal, aborted);
  keepAlive(1);
  try {
    begin(ticket);
    const told = await arrived;
    // The signal was aborted after the outcome had arrived.
    if (signal?.aborted) {
      release(told);
      throw signal.reason;
    }
    if (told.failure !== undefined) {
      const error = made(told.failure);
      // The caller's stack, not that of the event loop.
      Error.captureStackTrace(error, outcome);
      throw error;
    }
    return told;
  } finally {
    keepAlive(-1);
    waits?.end();
    expected.delete(ticket);
    heard?.();
  }
}

/**
 * Calls this with an outcome, or with each notice, and does not keep the process alive for it. Returns the
 * ticket.
 *
 * @internal
 */
export function expect(then: (told: Told) => void): number {
  const ticket = next();
  expected.set(ticket, then);
  return ticket;
}

/**
 * Cancels the work of this ticket.
 *
 * @internal
 */
export function forget(ticket: number): void {
  expected.delete(ticket);
  post().cancel(ticket);
}

/**
 * Functions to call after a panic.
 *
 * @internal
 */
export const onPanic = new Set<() => void>();

function collect(): void {
  for (const told of native.collect(post())) {
    if (told.line !== undefined) tell(told.line);
    const then = expected.get(told.ticket);
    if (then === undefined) release(told);
    else then(told);
    if (told.failure?.code === 'internal') for (const look of onPanic) look();
  }
}

// Tells the library which events this thread wants now.
function hear(): void {
  const { waits, lines, prints } = wanted();
  const now = `${waits} ${lines} ${prints}`;
  if (now === heard) return;
  heard = now;
  native.listen(post(), waits, lines, prints);
}

// One listener for each signal: Node takes many for a leak, and one signal may end all waits of a process.
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

function release(told: Told): void {
  told.guard?.drop();
}

function next(): number {
  do last = (last + 1) >>> 0;
  while (last === 0 || expected.has(last));
  return last;
}

// Keeps the process alive while a caller waits: a post does not.
function keepAlive(more: 1 | -1): void {
  awaited += more;
  alive ??= setInterval(() => {}, 2 ** 31 - 1);
  if (awaited === 0) alive.unref();
  else if (awaited === more) alive.ref();
}
