// npm.cjs - for tools of the build: installs the packages of a lock file.
'use strict';
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');

const LINES_MAX = 6; // of npm's reasons

// Installs the packages of FROM/package-lock.json into `dir`, without running any of their scripts.
// Returns what went wrong, or null.
function install(from, dir) {
    for (const name of ['package.json', 'package-lock.json'])
        fs.copyFileSync(path.join(from, name), path.join(dir, name));
    const done = spawnSync('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund',
        '--prefer-offline', '--fetch-retries=1', '--fetch-retry-mintimeout=1000',
        '--fetch-timeout=30000', '--loglevel=error'],
    { cwd: dir, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });

    if (done.error)
        return `npm: ${done.error.message}`;
    if (done.status !== 0) {
        const why = done.stderr.split('\n').filter((line) => !/ {4}at |^\s*$/.test(line));
        const name = `${path.basename(from)}/package-lock.json`;

        return `npm could not install the packages of ${name}\n`
            + why.slice(0, LINES_MAX).join('\n');
    }
    return null;
}

module.exports = { install };
