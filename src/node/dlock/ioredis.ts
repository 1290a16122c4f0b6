// The address of an ioredis client's servers, with the login.

import { inspect } from 'node:util';
import { usage } from './errors';

/** The part of an ioredis client that dlock needs: for one server, a primary behind Sentinels, or a Redis Cluster. */
export interface Ioredis {
  // The options of ioredis are of its own types, and of many.
  // biome-ignore lint/suspicious/noExplicitAny: those types are not here
  options?: any;
  quit(): Promise<unknown>;
}

interface Options {
  host?: string;
  port?: number | string;
  path?: string;
  username?: string | undefined;
  password?: string | undefined;
  db?: number;
  tls?: Record<string, unknown> | undefined;
  keyPrefix?: string;
  sentinels?: { host?: string; port?: number }[];
  name?: string;
  role?: string;
  sentinelUsername?: string;
  sentinelPassword?: string;
  enableTLSForSentinelMode?: boolean;
  sentinelTLS?: Record<string, unknown>;
}

/** @internal */
export function address(client: Ioredis, db: number | undefined): string {
  // Other clients have no such options, and the default address would be that of another server.
  const { call, options } = (client ?? {}) as { call?: unknown; options?: unknown };
  if (typeof call !== 'function' || typeof options !== 'object')
    throw usage(`a client is of ioredis, or an address, not ${inspect(client, { depth: -1 })}`);
  // A private property in the types of ioredis.
  const { startupNodes } = client as { startupNodes?: unknown };
  const given: Options = client.options ?? {};
  if (Array.isArray(startupNodes)) return ofCluster(startupNodes, given as { redisOptions?: Options });
  if (given.sentinels) return ofSentinels(given, given.sentinels, db);
  const place = db ?? given.db ?? 0;
  if (given.path) {
    const query = new URLSearchParams();
    if (given.username) query.set('user', given.username);
    if (given.password) query.set('pass', given.password);
    query.set('db', String(place));
    // In an address a plus does not mean a space.
    return `unix://${encodeURI(given.path)}?${query.toString().replaceAll('+', '%20')}`;
  }
  return `${scheme('redis', given)}://${login(given)}${server(given, 6379)}/${place}`;
}

/**
 * The prefix that ioredis puts before each key.
 *
 * @internal
 */
export function prefix(client: object): string {
  const { options } = client as Pick<Ioredis, 'options'>;
  const given = options?.keyPrefix ?? options?.redisOptions?.keyPrefix ?? '';
  if (typeof given !== 'string') throw usage(`a key prefix is a text, not ${inspect(given, { depth: -1 })}`);
  return given;
}

function ofSentinels(given: Options, sentinels: Options[], db: number | undefined): string {
  if (given.role === 'slave')
    throw usage('a lock is kept by a primary; this client asks Sentinels for a replica');
  const list = sentinels.map((sentinel) => server(sentinel, 26_379)).join(',');
  const query: string[] = [];
  if (given.sentinelUsername) query.push(`sentinel-user=${encodeURIComponent(given.sentinelUsername)}`);
  if (given.sentinelPassword) query.push(`sentinel-pass=${encodeURIComponent(given.sentinelPassword)}`);
  // The servers have TLS only with both options, whatever the Sentinels have.
  const servers = scheme('redis+sentinel', given.enableTLSForSentinelMode ? given : {});
  const theirs = scheme('redis+sentinel', { tls: given.sentinelTLS });
  if (servers !== theirs) query.push(`sentinel-tls=${given.sentinelTLS ? 'yes' : 'no'}`);
  const name = encodeURIComponent(given.name ?? '');
  const end = query.length === 0 ? '' : `?${query.join('&')}`;
  return `${servers}://${login(given)}${list}/${name}/${db ?? given.db ?? 0}${end}`;
}

function ofCluster(nodes: unknown[], { redisOptions = {} }: { redisOptions?: Options }): string {
  const given = nodes.map(ofNode);
  const list = given.map((node) => server(node, 6379)).join(',');
  const all = { ...redisOptions };
  for (const node of given) {
    all.tls ??= node.tls;
    all.username ??= node.username;
    all.password ??= node.password;
  }
  return `${scheme('redis+cluster', all)}://${login(all)}${list}`;
}

function ofNode(node: unknown): Options {
  if (typeof node === 'number') return { port: node };
  if (typeof node !== 'string') return node as Options;
  const url = new URL(/^rediss?:\/\//.test(node) ? node : `redis://${node}`);
  return {
    host: url.hostname.replace(/^\[(.*)\]$/, '$1'),
    port: url.port || 6379,
    username: url.username ? decodeURIComponent(url.username) : undefined,
    password: url.password ? decodeURIComponent(url.password) : undefined,
    tls: url.protocol === 'rediss:' ? {} : undefined,
  };
}

function scheme(plain: string, { tls }: Options): string {
  if (!tls) return plain;
  if (tls.rejectUnauthorized === false) throw usage('dlock always checks certificates; this client does not');
  const own = ['ca', 'cert', 'key', 'pfx', 'servername', 'checkServerIdentity'].find((name) => tls[name]);
  if (own !== undefined) {
    throw usage(
      `dlock takes certificates from files, not from tls.${own}: give it the address in place of the client, as` +
        ' rediss://host?ca=FILE&cert=FILE&key=FILE',
    );
  }
  return plain.replace('redis', 'rediss');
}

function login({ username, password }: Options): string {
  if (!username && !password) return '';
  return `${encodeURIComponent(username ?? '')}:${encodeURIComponent(password ?? '')}@`;
}

function server({ host, port }: Options, usual: number): string {
  const name = host ?? 'localhost';
  return `${name.includes(':') ? `[${name}]` : name}:${port ?? usual}`;
}
