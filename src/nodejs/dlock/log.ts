// The channel `dlock:log` of node:diagnostics_channel.

import * as diagnostics from 'node:diagnostics_channel';
import { debuglog } from 'node:util';
import { isMainThread } from 'node:worker_threads';
import type { LogMessage } from './report';

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

const LOG = diagnostics.channel('dlock:log');
const debug = debuglog('dlock');
