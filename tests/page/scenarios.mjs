// The scenarios that the page must pass: which test shows each, and how that test is seen to fail.
// For every scenario, this program breaks one line of the page and runs the test, which must notice.
// From 31 on, these are the views of turns, the ledger, usage and keys:
//
//     ninja -C build-test/gcc page-scenarios           # all of them
//     SCENARIOS=3,17 ninja -C build-test/gcc page-scenarios
//     node tests/page/scenarios.mjs --table > tests/page/README.md
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const WAIT_MS = '5000'; // for a test that must fail anyway

// [number, what must hold, test, file, text that is replaced, replacement]
const SCENARIOS = [
    [1, 'an empty store: a question, the focus, no session',
        'a new chat stores nothing until something is said', 'chat.js',
        "requestAnimationFrame(() => form.querySelector('textarea').focus());\n    return", 'return'],
    [2, 'the first message makes a session with its title',
        'the first message makes a session with its words as the title', 'chat.js',
        "titleFrom(message.text) || 'Attachment'", "'Chat'"],
    [3, 'a reload in the middle of an answer', 'an answer survives a reload in its middle', 'chat.js',
        'this.live.begin(now.so_far);', ';'],
    [4, 'a second tab shows a long answer from its beginning',
        'a tab that comes late shows a long answer from its beginning', 'message.js',
        "this.take('text', { text: part.text });", "this.take('text', { text: part.text.slice(99) });"],
    [5, 'eight tabs have one stream', 'eight tabs with two running turns share one stream', 'live.js',
        'if (navigator.locks)', 'if (false)'],
    [6, 'the leading tab dies', 'a tab that crashes leaves its stream to another one', 'live.js',
        'navigator.locks.request(`palaver-feed ${tenant()}`, lead);',
        'navigator.locks.request(`palaver-feed ${tenant()}`, { ifAvailable: true }, '
        + '(lock) => lock && lead());'],
    [7, 'the server dies in the middle of an answer',
        'a server that is killed in the middle of an answer continues it', 'live.js',
        'announce(false);\n        await pause(wait);', 'await pause(wait);'],
    [8, 'a message whose response was lost is stored once',
        'a message whose response was lost is stored once', 'composer.js',
        'files: attached.peek(), clientId, lane', 'files: attached.peek(), clientId: newId(), lane'],
    [9, 'queue, steer, interrupt, take back',
        'while a turn runs, messages wait, steer or interrupt', 'composer.js',
        "event.ctrlKey || event.metaKey ? 'steer' : lane.peek()", "'queue'"],
    [10, 'approvals of two sessions, each for its own call',
        'live: approvals of all sessions, each for its own call', 'docks.js',
        'answers.set(id, { call_id: id, allow,', 'answers.set(id, { call_id: id, allow: true,'],
    [11, 'results of tools that the caller runs',
        'a turn takes results of tools that its caller runs', 'docks.js',
        'output: fields[i].value', "output: ''"],
    [12, 'retries with their time, then a failure with its reason',
        'a temporary failure is retried, and the page says when', 'message.js',
        "else if (kind === 'retrying')", "else if (kind === 'retried')"],
    [13, 'hidden messages can be shown, and forked from',
        'hidden messages can be shown, and forked from', 'chat.js', '&hidden=true', ''],
    [14, 'edit in place, and in a fork', 'rewind, undo, edit and fork', 'chat.js',
        "await this.rewind(message.editing - 1,", "await this.rewind(message.editing,"],
    [15, 'a window of 4,000 tokens compacts',
        'a window of 4,000 tokens compacts by itself, and the page shows it', 'message.js',
        "item?.kind === 'range' && item.seq === row.message.seq",
        "item?.kind === 'range' && item.first_seq === row.message.seq"],
    [16, 'Why, for every disposition', 'why: every disposition, with the reason of the plan',
        'inspector/why.js', "['Reason: ', visible(item.reason), '.']", "''"],
    [17, 'What it saw is what the model received',
        'what it saw: the plan before an answer is the request that the model received',
        'inspector/window.js', 'at_seq: seq()', 'at_seq: seq() + 1'],
    [18, 'compare: model, strategy, without a mark, draft',
        'compare: model, strategy, without a mark and the draft, as the API plans them',
        'inspector/compare.js', 'query.set(PARAMETERS[kind], value);', ''],
    [19, 'pin and unpin by key', 'the key p pins and unpins, and a pinned message survives a compaction',
        'chat.js', 'if (this.itemOf(seq)?.pinned)', 'if (!seq)'],
    [20, 'a long session: no holes, no jumps', 'a session of \\d+ messages: no holes', 'list.js',
        'this.box.scrollTop += difference;', ''],
    [21, '200 tokens a second, while one reads further up',
        '200 pieces a second, while one types and reads further up', 'list.js',
        'if (this.isFollowing)\n            this.toEnd();', 'this.toEnd();'],
    [22, 'search', 'search finds words anywhere and opens the message', 'place/search.js',
        '/m/${hit.seq}', ''],
    [23, 'hostile texts', 'hostile texts become harmless elements', 'markdown.js',
        "['http:', 'https:', 'mailto:'].includes(url.protocol)", "url.protocol !== 'javascript:'"],
    [24, 'an artifact tries to get out', 'what a model wrote runs in a frame that reaches nothing',
        'frame.js', 'askToRun(() => {', '[() => {}].forEach(() => {'],
    [25, 'logins', 'a key logs in, and is stored nowhere', 'api.js',
        'localStorage.setItem(HALF, half);',
        "localStorage.setItem(HALF, half); localStorage.setItem('secret', secret.key);"],
    [26, 'accessibility', 'axe finds nothing in any state', 'parts.js', "'aria-label': label, onclick",
        "title: '', onclick"],
    [27, 'two tenants', 'another tenant sees nothing of the one before, in any tab', 'api.js',
        'sessionStorage.clear();\n    location.reload();', ''],
    [28, 'usage and ledger', 'usage: the sums of the period, by day and by name', 'place/usage.js',
        'count(total.calls)', 'count(0)'],
    [29, 'below a path of a proxy', 'behind a proxy at /x/y/', 'api.js', "const BASE = 'api/v1/'",
        "const BASE = '/api/v1/'"],
    [30, 'without the Markdown parser', 'a build without the parser shows text and code',
        'fences.js', 'lang: open[2].trim()', "lang: ''"],
    [31, 'a turn: each step with its call of the ledger',
        'a turn: steps, tools, times, tokens and cost', 'inspector/turn.js',
        'span.call = at < 0 ? null : left.splice(at, 1)[0];', 'span.call = calls[0];'],
    [32, 'a turn: the address names it, and only the panel changes',
        'a turn: steps, tools, times, tokens and cost', 'app.js',
        "const inView = part === 't' ? ['', ''] : [part, number];",
        'const inView = [part, number];'],
    [33, 'a turn whose events are gone',
        'a turn whose events are gone has the times of its messages', 'inspector/turn.js',
        'hasTimes ? spansOfEvents(events) : spansOfMessages(messages)', 'spansOfEvents(events)'],
    [34, 'a turn while it runs', 'a turn that runs is followed, and shows that it was stopped',
        'inspector/turn.js', 'clock.value = Date.now();\n    }, TICK_MS);', ';\n    }, TICK_MS);'],
    [35, 'a turn: each attempt', 'a turn shows attempts that failed, and why it failed',
        'inspector/turn.js', 'problem: data.reason, isAgain', 'isAgain'],
    [36, 'a turn: the wait for a person',
        'a turn shows how long it waited for a person, and steers', 'inspector/turn.js',
        "wait = add({ kind: 'asking'", "wait = ({ kind: 'asking'"],
    [37, 'the ledger: filters', 'the ledger: calls, sums, filters and files',
        'inspector/ledger.js', "query.set('purpose', this.purpose.value);", ';'],
    [38, 'the ledger: a new call appears', 'the ledger: calls, sums, filters and files',
        'inspector/ledger.js', '|| (isWorking && calls.list.peek())', '|| calls.list.peek()'],
    [39, 'the ledger: all calls in a file', 'a ledger of several pages is saved completely',
        'inspector/ledger.js', 'await this.read(true);', 'break;'],
    [40, 'files are safe to open in a spreadsheet', 'a file cannot contain formulas', 'cost.js',
        "typeof value === 'string' && FORMULA.test(text)", 'false'],
    [41, 'raw: the JSON of what is chosen', 'raw: the JSON of everything in a session',
        'inspector/raw.js', 'messages/${seq}', 'messages/1'],
    [42, 'the focus moves with the inspector',
        'the inspector by keyboard: the focus moves with it', 'inspector/inspector.js',
        'used = name;', ';'],
    [43, 'single keys can be switched off', 'the inspector by keyboard: the focus moves with it',
        'app.js', '(!singleKeys.peek() && event.key.length === 1)', 'false'],
    [44, 'usage: by name, for the period in the address',
        'usage: the sums of the period, by day and by name', 'place/usage.js',
        '`usage?by=${by}&from=${from}', '`usage?by=${by}&since=${from}'],
    [45, 'usage: by hour, if there are few days',
        'usage: the sums of the period, by day and by name', 'place/usage.js',
        'return this.end() - startOf(this.from.value) <= HOURS_OF_DAYS_MAX * DAY_MS;',
        'return false;'],
    [46, 'usage: the budget of the key', 'usage shows the budget of the key', 'place/usage.js',
        'limits.used_tokens, limits.tokens', 'limits.tokens, limits.tokens'],
    [47, 'keys: the secret is shown once', 'keys: create one, see its secret once, revoke it',
        'place/api_keys.js', 'showSecret(key, isFirst);',
        'showSecret(key, isFirst); document.body.append(key.key);'],
    [48, 'keys: a revoked key ends', 'keys: create one, see its secret once, revoke it',
        'place/api_keys.js', "await remove(path('keys', key.id));", ';'],
    [49, 'keys: the first one logs in', 'the first key of an open server logs in',
        'place/api_keys.js', 'await logIn({ key: key.key });', ';'],
    [50, 'keys: only for admins', 'a key that only reads sees usage, but no keys', 'app.js',
        "me.peek().role === 'admin' && ['#/keys'", "['#/keys'"],
    [51, 'the palette: sessions, actions, models', 'the palette finds sessions, actions and words',
        'palette.js', '() => chat.form.choose(model)', '() => {}'],
    [52, 'the palette: sessions that it finds late',
        'sessions that the palette finds late leave its choice', 'palette.js',
        "chosen = list[i]?.[3] ?? '';", ';'],
    [53, 'keys through marks and sessions', 'keys lead through marks, sessions and back',
        'app.js', 'rows[at < 0 ? 0 : at + by]', 'rows[at + 1]'],
    [54, 'a login is ended elsewhere', 'about lists the logins of the key, and ends one elsewhere',
        'place/about.js', "await remove(path('logins', login.id))", "await get('logins')"],
    [55, 'messages that wait', 'messages that wait are shown after a reload', 'docks.js',
        "const id = chat.session.value?.id ?? '';", "const id = chat.session.peek()?.id ?? '';"],
    [56, 'windows with the same items, and without a limit',
        'compare: model, strategy, without a mark and the draft, as the API plans them',
        'inspector/compare.js', 'counts.set(item.kind, before + 1);', ';'],
    [57, 'a link of `palaver page` opens the page', 'a link of `palaver page` logs in once',
        'place/login.js', "place.value = '#/';", ''],
    [58, 'a link that does not count says why', 'a link of `palaver page` logs in once',
        'place/login.js', 'form(code)', "form('')"],
    [59, 'a deleted session comes back',
        'a session that is deleted elsewhere says so, and comes back', 'chat.js',
        "this.problem.value = '';\n            this.readSession();", 'this.readSession();'],
    [60, 'toasts can be used in dialogs', 'keys: create one, see its secret once, revoke it',
        'parts.js', "(document.querySelector('dialog[open]') ?? document.getElementById('app'))",
        "document.getElementById('app')"],
    [61, 'the page is never wider than the window', 'axe finds nothing in any state', 'page.css',
        '.table { overflow: auto; position: relative; }', '.table { overflow: auto; }'],
    [62, 'cut addresses', 'about says what runs, and unknown places say so', 'api.js',
        'return decodeURIComponent(text);\n    } catch {\n        return text;',
        'return decodeURIComponent(text);\n    } catch (error) {\n        throw error;'],
    [63, 'a turn without an answer can be asked again',
        'a turn shows attempts that failed, and why it failed', 'inspector/turn.js',
        "last.role === 'user' ? last.seq + 1 : last.seq", '0'],
];

const directory = path.dirname(fileURLToPath(import.meta.url));
const source = path.join(directory, '..', '..', 'src', 'page');
const wanted = process.env.SCENARIOS?.split(',').map(Number);

// The text of a file of the page, which must contain what is replaced.
function read(number, file, old) {
    const text = fs.readFileSync(path.join(source, file), 'utf8');

    if (!text.includes(old)) throw new Error(`scenario ${number}: ${file} has no '${old}'`);
    return text;
}

// Runs one test with a page of which one file is another. Returns whether the test failed.
function fails(test, file, text) {
    const from = fs.mkdtempSync(path.join(os.tmpdir(), 'palaver-scenario-'));

    fs.mkdirSync(path.dirname(path.join(from, file)), { recursive: true });
    fs.writeFileSync(path.join(from, file), text);
    const { NODE_TEST_CONTEXT: _, ...env } = process.env;
    const { status, stdout } = spawnSync(process.execPath, ['--test-reporter=tap',
        `--test-name-pattern=^${test}`, path.join(directory, 'page.test.mjs')],
    { env: { ...env, PAGE_FROM: from, PAGE_WAIT_MS: WAIT_MS }, encoding: 'utf8' });
    fs.rmSync(from, { recursive: true });
    if (!/^ *(not )?ok \d+ - (?!.*# SKIP)/m.test(stdout)) throw new Error(`no test '${test}'`);
    return status !== 0;
}

const code = (text) => `\`${text.replace(/\s+/g, ' ').replaceAll('|', '\\|')
    .replaceAll('`', "'")}\``;

function row([number, what, test, file, old, now]) {
    read(number, file, old);
    return `| ${number} | ${what} | ${test.replaceAll('\\', '')} | ${file}: ${code(old)} → `
        + `${now ? code(now) : 'nothing'} |`;
}

function table() {
    const rows = SCENARIOS.map(row);

    return ['# Tests of the page', '',
        'Each row is a scenario that must hold, the test that shows it, and a line of `src/page` that',
        'is broken on purpose to see this test fail. `ninja -C build-test/gcc page-scenarios` does',
        'that for all rows. From 31 on, they are the views of turns, the ledger, usage and keys, and',
        'what came later. `node tests/page/scenarios.mjs --table` makes this file.', '',
        '| # | what must hold | test | broken to see it fail |', '|---:|---|---|---|', ...rows, '']
        .join('\n');
}

if (process.argv.includes('--table')) {
    process.stdout.write(table());
    process.exit();
}

let missed = 0;
for (const [number, what, test, file, old, now] of SCENARIOS) {
    if (wanted && !wanted.includes(number)) continue;
    const isSeen = fails(test, file, read(number, file, old).replace(old, now));
    missed += !isSeen;
    process.stdout.write(`${isSeen ? 'seen' : 'NOT SEEN'} ${number}. ${what}\n`);
}
process.exitCode = missed ? 1 : 0;
