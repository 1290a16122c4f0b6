// Commands to data that refuse a late holder.

import { usage } from './errors';
import type { Key } from './options';

/** A client of ioredis or node-redis, of a server or a Redis Cluster, as far as this needs it. */
export type Redis =
  | { call(command: string, ...args: (string | Buffer | number)[]): Promise<unknown> }
  | {
      /** Only clients of a Cluster have this. */
      slots: unknown;
      /** Sends a command to the server of this key. */
      sendCommand(key: string, isReadonly: boolean, args: string[]): Promise<unknown>;
    }
  | { sendCommand(args: string[]): Promise<unknown> };

/**
 * Commands that carry a fence. The server refuses one, with an error that begins with STALE, if a later
 * holder has been there. Reads belong under the fence as much as writes.
 */
export class Fenced {
  readonly #client: Redis;
  readonly #mark: Key;
  readonly #fence: number;

  /** @internal */
  constructor(client: Redis, mark: Key, fence: number) {
    if (!has(client, 'call') && !has(client, 'sendCommand'))
      throw usage('fenced commands are sent by a client of ioredis or node-redis');
    this.#client = client;
    this.#mark = mark;
    this.#fence = fence;
  }

  /** Sends a command by `DLOCK.FENCED`. The reply is as the client gives it. */
  async call(command: string, ...args: (string | Buffer | number)[]): Promise<unknown> {
    const mark = typeof this.#mark === 'string' ? this.#mark : Buffer.from(this.#mark);
    const words = [mark, this.#fence, command, ...args];
    if ('call' in this.#client) return this.#client.call('DLOCK.FENCED', ...words);
    // node-redis takes text and Buffers.
    const all = words.map((word) => (typeof word === 'number' ? String(word) : word)) as string[];
    all.unshift('DLOCK.FENCED');
    // One of a Cluster wants to know by which key it finds the server.
    if ('slots' in this.#client) return this.#client.sendCommand(mark as string, false, all);
    return this.#client.sendCommand(all);
  }
}

function has(client: Redis, name: string): boolean {
  return typeof (client as unknown as Record<string, unknown> | null)?.[name] === 'function';
}
