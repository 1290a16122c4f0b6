/**
 * The same for `import`: there the default of a CommonJS module is all that it exports, and no constructor.
 *
 * @packageDocumentation
 */

export * from './redlock.js';
export { Redlock as default } from './redlock.js';
