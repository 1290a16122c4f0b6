/**
 * Distributed locks, native to Redis and Valkey servers with the dlock module.
 *
 * @packageDocumentation
 */

export { Client, type ClientOptions } from './client';
export {
  DlockError,
  HeldError,
  type Holder,
  InternalError,
  LostError,
  type NodeReport,
  NoQuorumError,
  RefusedError,
  UsageError,
} from './errors';
export { Fenced, type Redis } from './fenced';
export { Guard } from './guard';
export type { Key, LockOptions, TryOptions } from './options';
