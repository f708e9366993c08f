// Starts several servers ("nodes") on one store: PostgreSQL under tools/pg-test, otherwise SQLite.
import { readPostgres, readServer } from '../support/history/history.mjs';
import { serveModel } from './model.mjs';
import { makeKey, palaver } from './support.mjs';

const config = 'turn:\n  lease: 2s\nserver:\n  drain: 5s\n  drain_delay: 1s\n';
// On PostgreSQL, each test has a schema.
export const postgres = process.env.PALAVER_TEST_POSTGRES;
let schemas = 0;
let schema = '';
let store = [];

// Starts another server on the store of the current test.
export const start = (t, options) => serveModel(t, { config, args: store, ...options });
export const storeArgs = () => store;
export const keyOf = (dir, ...args) => makeKey(dir, ...store, ...args).key;
export const pause = (ms = 20) => new Promise((resolve) => setTimeout(resolve, ms));
export const command = (dir, ...args) => palaver(dir, ...args, ...store);
export const nodesOf = (dir, ...args) => JSON.parse(command(dir, 'node', 'list', '--json', ...args));

// Starts `count` servers on a new store, and waits until each knows the others. `more` is added to
// their configuration.
export async function nodes(t, count, more = '') {
    schema = `n${process.pid}_${++schemas}`;
    store = postgres ? ['--store', `${postgres}&schema=${schema}`] : [];
    const first = await start(t, { config: config + more });
    const all = [first];
    while (all.length < count)
        all.push(await start(t, { dir: first.dir, model: first.model, config: undefined }));
    await Promise.all(all.map((s) => untilKnown(s, 'running', count)));
    return all;
}

// Reads what the store of the current test contains, through a server if it is not PostgreSQL.
export async function stateOf(s, sessions) {
    return postgres ? readPostgres(postgres, schema, sessions) : readServer(s.get, sessions);
}

// Returns a value from the metrics of a server.
export async function metric(s, name) {
    const found = (await s.get('/metrics')).text.split('\n').find((line) => line.startsWith(`${name} `));
    return Number(found?.slice(name.length + 1));
}

// Waits until the metrics of a server show so many nodes in a state.
export async function untilKnown(s, state, count) {
    while (await metric(s, `palaver_nodes{state="${state}"}`) !== count) await pause();
}
