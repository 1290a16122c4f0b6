// Makes the published packages for Node out of the one that tests use: NAME, and NAME-PLATFORM, which holds what is
// compiled. npm installs the one for its platform, because it is an optional dependency, and runs no script.
//
// Usage: node npm.mjs PACKAGE.JSON NAME PLATFORM FOLDER
import { readFileSync, writeFileSync } from 'node:fs';

const [manifest, name, platform, folder] = process.argv.slice(2);
const { os, cpu, libc, files, ...all } = JSON.parse(readFileSync(manifest, 'utf8'));
const { version, license, engines } = all;

const written = (file, text) => writeFileSync(`${folder}/${file}`, text);
const json = (value) => `${JSON.stringify(value, null, 2)}\n`;

written(
  'all/package.json',
  json({
    ...all,
    name,
    files: files.filter((file) => file !== 'THIRD-PARTY.txt'),
    optionalDependencies: { [`${name}-${platform}`]: version },
  }),
);
written(
  'platform/package.json',
  json({
    name: `${name}-${platform}`,
    version,
    description: `${name} for ${platform}: install ${name}`,
    license,
    main: 'native.node',
    files: ['native.node', 'LICENSE', 'THIRD-PARTY.txt'],
    engines,
    os,
    cpu,
    libc,
  }),
);

const native = readFileSync(`${folder}/all/lib/native.js`, 'utf8');
const changed = native.replace("require('./native.node')", "require('./platform.js')");
if (changed === native) throw new Error('lib/native.js does not load native.node');
written('all/lib/native.js', changed);
written(
  'all/lib/platform.js',
  `'use strict';
const { name, optionalDependencies } = require('../package.json');

module.exports = platform();

function platform() {
  for (const one of Object.keys(optionalDependencies)) {
    try {
      return require(one);
    } catch (error) {
      if (error.code !== 'MODULE_NOT_FOUND') throw error;
    }
  }
  throw new Error(
    \`\${name} has no package for \${process.platform}-\${process.arch} here: is it supported, and were optional dependencies installed?\`,
  );
}
`,
);
