/**
 * `dlock/redlock` for `import`, where the default export of a CommonJS module is the object of all its exports, and
 * not the constructor.
 *
 * @packageDocumentation
 */

export * from './redlock.js';
export { Redlock as default } from './redlock.js';
