// Commands to data, which the server refuses from a late holder.

import { inspect } from 'node:util';
import { usage } from './errors';
import type { Key } from './options';

/** The part of a client that dlock needs: of ioredis or node-redis, for a server or a Redis Cluster. */
export type Redis =
  | { call(command: string, ...args: (string | Buffer | number)[]): Promise<unknown> }
  | {
      /** Only clients of a Redis Cluster have this. */
      slots: unknown;
      /** Sends a command to the server of this key. */
      sendCommand(key: string, isReadonly: boolean, args: string[]): Promise<unknown>;
    }
  | { sendCommand(args: string[]): Promise<unknown> };

/**
 * Sends commands that the server refuses if they come too late: with an error that begins with STALE if a later holder
 * has been there. Send reads this way, too.
 */
export class Fenced {
  readonly #client: Redis;
  readonly #command: string;
  readonly #key: Key;
  readonly #proof: string | number;

  /** @internal */
  constructor(client: Redis, command: string, key: Key, proof: string | number) {
    if (!has(client, 'call') && !has(client, 'sendCommand'))
      throw usage('fenced commands need a client of ioredis or node-redis');
    // ioredis does not put it before the keys of these commands.
    if (prefix(client) !== '') throw usage('fenced commands need a client without keyPrefix, and whole keys');
    this.#client = client;
    this.#command = command;
    this.#key = key;
    this.#proof = proof;
  }

  /** Sends a command by `DLOCK.FENCED`, and returns the client's reply unchanged. */
  async call(command: string, ...args: (string | Buffer | number)[]): Promise<unknown> {
    const key = typeof this.#key === 'string' ? this.#key : Buffer.from(this.#key);
    const words = [key, this.#proof, command, ...args];
    if ('call' in this.#client) return this.#client.call(this.#command, ...words);
    // node-redis takes text and Buffers.
    const all = words.map((word) => (typeof word === 'number' ? String(word) : word)) as string[];
    all.unshift(this.#command);
    // A client of a Redis Cluster finds the server by this key.
    if ('slots' in this.#client) return this.#client.sendCommand(key as string, false, all);
    return this.#client.sendCommand(all);
  }
}

/** Returns the prefix that ioredis puts before each key. */
function prefix(client: Redis): string {
  type Prefixed = { keyPrefix?: unknown; redisOptions?: Prefixed };
  const { options } = client as { options?: Prefixed };
  const given = options?.keyPrefix ?? options?.redisOptions?.keyPrefix ?? '';
  if (typeof given !== 'string') throw usage(`a key prefix is a text, not ${inspect(given, { depth: -1 })}`);
  return given;
}

function has(client: Redis, name: string): boolean {
  return typeof (client as unknown as Record<string, unknown> | null)?.[name] === 'function';
}
