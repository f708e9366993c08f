// The client part of the MCP conformance suite, with the revisions that its scenarios apply to.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { installPackages } from '../support/packages.mjs';

const directory = process.env.MCP_SUITE;
const here = path.join(path.dirname(fileURLToPath(import.meta.url)), 'conformance');

assert.ok(process.env.MCP_DRIVE && directory, 'MCP_DRIVE and MCP_SUITE say what to run, and where to install');

// Scenarios of authorization that apply to both revisions.
const auth = ['metadata-default', 'metadata-var1', 'metadata-var2', 'metadata-var3', 'basic-cimd',
    'scope-from-www-authenticate', 'scope-from-scopes-supported', 'scope-omitted-when-undefined',
    'scope-step-up', 'scope-retry-limit', 'token-endpoint-auth-basic', 'token-endpoint-auth-post',
    'token-endpoint-auth-none', 'pre-registration'].map((name) => `auth/${name}`);
const scenarios = {
    '2025-03-26': ['auth/2025-03-26-oauth-metadata-backcompat', 'auth/2025-03-26-oauth-endpoint-fallback'],
    '2025-11-25': [...auth, 'initialize', 'tools_call', 'elicitation-sep1034-client-defaults', 'sse-retry',
        'json-schema-2020-12-preservation'],
    '2026-07-28': [...auth, 'auth/resource-mismatch', 'auth/offline-access-scope',
        'auth/offline-access-not-supported', 'auth/authorization-server-migration', 'auth/iss-supported',
        'auth/iss-not-advertised', 'auth/iss-supported-missing', 'auth/iss-wrong-issuer',
        'auth/iss-unexpected', 'auth/iss-normalized', 'auth/metadata-issuer-mismatch', 'tools_call', 'request-metadata', 'sep-2322-client-request-state',
        'http-standard-headers', 'http-custom-headers', 'http-invalid-tool-headers',
        'json-schema-ref-no-deref', 'json-schema-2020-12-preservation'],
    // Extensions apply to every revision.
    '': ['auth/client-credentials-basic', 'auth/client-credentials-jwt', 'auth/dpop', 'auth/dpop-nonce',
        'auth/enterprise-managed-authorization', 'auth/wif-jwt-bearer'],
};
const suite = path.join(directory, 'node_modules', '@modelcontextprotocol', 'conformance', 'dist', 'index.js');
const node = path.join(directory, 'node_modules', `node-${process.platform}-${process.arch}`, 'bin', 'node');
const skip = installPackages(here, directory) ||
    (!fs.existsSync(node) && `there is no package with Node.js 22 for ${process.platform}-${process.arch}`);

function run(scenario, version) {
    return new Promise((resolve) => {
        const child = spawn(node, [suite, 'client', '--command', `${node} ${path.join(here, 'client.mjs')}`,
            '--scenario', scenario, ...(version ? ['--spec-version', version] : [])], { stdio: ['ignore', 'pipe', 'pipe'] });
        let said = '';
        const hear = (bytes) => { said += bytes; };

        child.stdout.on('data', hear);
        child.stderr.on('data', hear);
        child.on('close', (code) => resolve({ code, said }));
    });
}

for (const [version, names] of Object.entries(scenarios))
    for (const name of names)
        test(`${name}, ${version ? `revision ${version}` : 'extension'}`, { skip }, async () => {
            const { code, said } = await run(name, version);

            assert.equal(code, 0, said);
            assert.match(said, /Passed: (\d+)\/\1, 0 failed, 0 warnings/);
        });
