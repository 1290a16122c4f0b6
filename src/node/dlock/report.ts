// What the library tells in objects.

/** What one node said. */
export interface NodeReport {
  /** Its address, without user and password. */
  node: string;
  /**
   * A word for programs: `granted`, `held`, `gone`, `unreachable`, `timed_out`, `quarantine`, `refused`,
   * `unfit`, `answers` or `not_asked`.
   */
  state: string;
  /** The same for people. */
  message: string;
}

/** Who holds a lock. Times are in milliseconds. */
export interface Holder {
  fence: number;
  /** For how long it has held the lock. */
  held: number;
  /** For how long its lease still runs, if it is not renewed. */
  ttl: number;
  /** Where its connection comes from. */
  address?: string;
  /** The number of its connection in CLIENT LIST. */
  client?: number;
  /** What it says about itself; text where it is UTF-8. */
  meta: string | Buffer;
}

/** A message of the channel `dlock:log`: something that has happened in this process. */
export interface LogMessage {
  level: 'error' | 'warn' | 'info' | 'debug';
  message: string;
  /** To what, and how: `key`, `fence`, `node`, for example. */
  fields: Record<string, string>;
  /** When, in milliseconds since 1970. */
  time: number;
}
