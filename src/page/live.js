// live.js - one stream of events for all tabs of a browser.
//
// A browser opens only six connections to a server, so the tabs share one. The tab that holds the
// lock reads the stream and sends every event to the others. When it closes or dies, the browser
// gives the lock to another tab, which continues after the last event that it has seen.
//
// A tab watches turns: their events carry numbers, and each watcher skips the numbers that it has.
import { signal } from './core.js';
import { Failure, newId, send, tenant } from './api.js';

const WAIT_FIRST_MS = 250;
const WAIT_MAX_MS = 8000;
const JOIN_MS = 30; // wishes that come together make one connection
const TURNS_MAX = 16; // that one stream can watch

const tab = newId();
const channel = new BroadcastChannel(`palaver ${tenant()}`);
const listeners = new Map(); // kind: functions
const watched = new Map(); // turn: {number, fn}
// tab: {turn: number}, what each tab wants and the number of the last event that it has. The leader
// uses it.
const wishes = new Map();
let lastId = '';
let isLeader = false;
let reading = null; // aborts the stream that is open
let joining = 0;
let wake = () => {};

// null: not known yet, true: events arrive; false: the server does not respond.
export const isLive = signal(null);

// Calls `fn` with the data of every event of a kind. Returns what ends that.
export function on(kind, fn) {
    if (!listeners.has(kind))
        listeners.set(kind, new Set());
    listeners.get(kind).add(fn);
    return () => listeners.get(kind).delete(fn);
}

function takeTurnEvent({ turn_id: turn, number, kind, data }) {
    const watcher = watched.get(turn);

    if (!watcher || number <= watcher.number)
        return;
    watcher.number = number;
    watcher.fn(kind, data);
    if (kind === 'ended')
        unwatch(turn);
}

function take({ id, kind, data }) {
    if (id)
        lastId = id;
    if (kind === 'turn_event')
        takeTurnEvent(data);
    for (const fn of listeners.get(kind) ?? [])
        fn(data);
}

function setLive(value) {
    const before = isLive.peek();

    isLive.value = value;
    // The server, or the network, is back: everything may have changed.
    if (value && before === false)
        take({ kind: 'lost', data: {} });
}

// ---- Wishes ----

function ownWishes() {
    return Object.fromEntries([...watched].map(([turn, { number }]) => [turn, number]));
}

function wish() {
    channel.postMessage({ from: tab, wishes: ownWishes() });
    if (isLeader)
        setWishes(tab, ownWishes());
}

// The smallest number of any tab, for each turn.
function allWishes() {
    const all = new Map();

    for (const turns of wishes.values()) {
        for (const [turn, number] of Object.entries(turns))
            all.set(turn, Math.min(number, all.get(turn) ?? Infinity));
    }
    return all;
}

// The stream is opened again if it is past what a tab wants, or does not have the turn.
function setWishes(from, turns) {
    const streamed = allWishes();

    wishes.set(from, turns);
    if (Object.entries(turns).every(([turn, number]) => number >= streamed.get(turn)))
        return;
    joining ||= setTimeout(() => reading?.abort(), JOIN_MS);
}

// Every tab gets every event of the stream, so that a new stream continues after it. A tab that has
// just joined may lack earlier ones.
function advanceWishes({ turn_id: turn, number }) {
    if (joining)
        return;
    for (const turns of wishes.values()) {
        if (number > turns[turn])
            turns[turn] = number;
    }
}

// Calls fn(kind, data) with the events of a turn after `number`. Returns what ends that.
export function watch(turn, number, fn) {
    watched.set(turn, { number, fn });
    wish();
    return () => unwatch(turn);
}

function unwatch(turn) {
    if (watched.delete(turn))
        wish();
}

// ---- The stream ----

function parseFrame(frame) {
    const event = { id: '', kind: '', data: null };

    for (const line of frame.split('\n')) {
        if (line.startsWith('id: '))
            event.id = line.slice(4);
        else if (line.startsWith('event: '))
            event.kind = line.slice(7);
        else if (line.startsWith('data: '))
            event.data = JSON.parse(line.slice(6));
    }
    return event.data ? event : null;
}

function share(event) {
    if (event.kind === 'turn_event')
        advanceWishes(event.data);
    channel.postMessage({ from: tab, event });
    take(event);
}

function announce(value) {
    channel.postMessage({ from: tab, isLive: value });
    setLive(value);
}

// The events of a response, one after the other; null for each comment between them.
export async function* eventsOf(response) {
    let rest = '';

    for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
        const frames = (rest + piece).split('\n\n');

        rest = frames.pop();
        yield* frames.map(parseFrame);
    }
}

// Reads until the stream ends, and returns how many events came.
async function readStream() {
    clearTimeout(joining);
    joining = 0;
    const turns = [...allWishes()].slice(-TURNS_MAX).map(([turn, number]) => `${turn}:${number}`)
        .join(',');
    const query = new URLSearchParams();
    let count = 0;

    if (lastId)
        query.set('after', lastId);
    if (turns)
        query.set('watch', turns);
    reading = new AbortController();
    const response = await send('GET', `events?${query}`, { signal: reading.signal });
    if (!response.ok)
        throw new Failure(response.status, null);
    announce(true);
    for await (const event of eventsOf(response)) {
        if (event)
            share(event);
        count++;
    }
    return count;
}

async function pause(ms) {
    const jitter = 0.75 + Math.random() / 2;

    await new Promise((resolve) => {
        wake = resolve;
        setTimeout(resolve, ms * jitter);
    });
}

async function lead() {
    let wait = WAIT_FIRST_MS;

    isLeader = true;
    wishes.set(tab, ownWishes());
    channel.postMessage({ from: tab, isAsking: true });
    for (;;) {
        try {
            // A server that has much to say ends the stream in between.
            while (await readStream() > 0)
                wait = WAIT_FIRST_MS;
        } catch (error) {
            if (error.name === 'AbortError')
                continue; // other turns are watched now
            if (error.code === 401)
                return;
        }
        announce(false);
        await pause(wait);
        wait = Math.min(WAIT_MAX_MS, 2 * wait);
    }
}

function hearState(message) {
    lastId ||= message.lastId ?? '';
    setLive(message.isLive);
}

function hear({ data: message }) {
    if (message.event)
        take(message.event);
    else if (message.isAsking)
        wish();
    else if (message.isJoining && isLeader)
        channel.postMessage({ from: tab, isLive: isLive.peek(), lastId });
    else if (message.wishes && isLeader)
        setWishes(message.from, message.wishes);
    else if (message.isLive !== undefined)
        hearState(message);
}

export function start() {
    channel.addEventListener('message', hear);
    addEventListener('pagehide', () => channel.postMessage({ from: tab, wishes: {} }));
    addEventListener('online', () => wake());
    document.addEventListener('visibilitychange', () => wake());
    // Without https, browsers have locks only on this machine. Then each tab has its own stream.
    if (navigator.locks)
        navigator.locks.request(`palaver-feed ${tenant()}`, lead);
    else
        lead();
    channel.postMessage({ from: tab, isJoining: true });
}
