// Takes a lock with the package for Node.js. scripts/test-dist.sh puts this file into the package's folder.
const assert = require('node:assert');
const { Client } = require('dlock');

let held = false;
process.on('exit', () => assert(held));
new Client('redis://127.0.0.1').lock('node', { wait: 10_000 }).run(async (guard) => {
  held = guard.fence > 0;
});
