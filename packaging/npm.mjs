// Makes the published packages for Node.js out of the one that tests use: NAME from all/, and from each other folder
// NAME-PLATFORM, which holds what is compiled. npm installs the one for its platform, because it is an optional
// dependency, and runs no script.
//
// Usage: node npm.mjs PACKAGE.JSON NAME FOLDER REPOSITORY
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';

const [manifest, name, folder, address] = process.argv.slice(2);
const { os: _os, cpu: _cpu, libc: _libc, files, ...all } = JSON.parse(readFileSync(manifest, 'utf8'));
const { version, license, engines } = all;
// npm compares it with where a package's provenance comes from.
const repository = address ? { type: 'git', url: `git+${address}.git` } : undefined;
const platforms = readdirSync(folder).filter((platform) => platform !== 'all');

const written = (file, text) => writeFileSync(`${folder}/${file}`, text);
const json = (value) => `${JSON.stringify(value, null, 2)}\n`;

written(
  'all/package.json',
  json({
    ...all,
    name,
    repository,
    files: files.filter((file) => file !== 'THIRD-PARTY.txt'),
    optionalDependencies: Object.fromEntries(platforms.map((platform) => [`${name}-${platform}`, version])),
  }),
);
for (const platform of platforms) {
  const [os, cpu, libc] = platform.split('-');
  written(
    `${platform}/package.json`,
    json({
      name: `${name}-${platform}`,
      version,
      description: `${name} for ${platform}: install ${name}`,
      license,
      repository,
      main: 'native.node',
      files: ['native.node', 'LICENSE', 'THIRD-PARTY.txt'],
      engines,
      os: [os],
      cpu: [cpu],
      libc: libc && [libc === 'gnu' ? 'glibc' : libc],
    }),
  );
}

const native = readFileSync(`${folder}/all/lib/native.js`, 'utf8');
const changed = native.replace("require('./native.node')", "require('./platform.js')");
if (changed === native) throw new Error('lib/native.js does not load native.node');
written('all/lib/native.js', changed);
// Older npm installs the packages for both C libraries, so this picks one by itself.
written(
  'all/lib/platform.js',
  `'use strict';
const { readFileSync } = require('node:fs');
const { name } = require('../package.json');

const platform = [process.platform, process.arch, ...libc()].join('-');
try {
  module.exports = require(\`\${name}-\${platform}\`);
} catch (error) {
  if (error.code !== 'MODULE_NOT_FOUND') throw error;
  throw new Error(
    \`\${name} has no package for \${platform} here: is it supported, and were optional dependencies installed?\`,
  );
}

function libc() {
  if (process.platform !== 'linux') return [];
  return [readFileSync('/proc/self/maps', 'latin1').includes('/ld-musl-') ? 'musl' : 'gnu'];
}
`,
);
