// app.js - shows which model answers, and where conversations are today.
import { h } from './core.js';
import { get } from './api.js';

function view(me) {
    const model = me.model ? `${me.model.model} at ${me.model.endpoint}` : 'none';

    return [
        h('h1', null, 'Palaver is running'),
        h('p', null, 'Model: ', h('strong', null, model)),
        me.model?.is_stopgap
            ? h('p', null, 'No model was found, so your message is repeated.') : null,
        h('p', null, 'Talk with ', h('code', null, 'palaver chat'), ', or use the API: ',
            h('a', { href: 'openapi.json' }, 'openapi.json'), '.'),
    ].filter(Boolean);
}

const failed = (error) => [h('h1', null, 'Palaver'), h('p', { role: 'alert' }, error.message)];

get('me').then(view, failed)
    .then((nodes) => document.getElementById('main').replaceChildren(...nodes));
