// Where we are: the part of the address behind `#`, so that the server has one page only.

import { computed, signal } from '@preact/signals';

export type Route =
    | { page: 'overview' }
    | { page: 'jobs'; query: URLSearchParams }
    | { page: 'job'; id: string; tab: string }
    | { page: 'plan'; id: string; step: string | null }
    | { page: 'inbox' }
    | { page: 'dead'; query: URLSearchParams }
    | { page: 'queues' }
    | { page: 'resources' }
    | { page: 'lost' };

const hash = signal(location.hash);
window.addEventListener('hashchange', () => {
    hash.value = location.hash;
});

function part(text: string | undefined): string {
    try {
        return decodeURIComponent(text ?? '');
    } catch {
        return text ?? '';
    }
}

export function parse(text: string): Route {
    const [path = '', search = ''] = text.replace(/^#\/?/, '').split('?', 2);
    const [page, id, third, fourth] = path.split('/');
    const query = new URLSearchParams(search);
    switch (page) {
        case '':
            return { page: 'overview' };
        case 'jobs':
            if (!id) return { page: 'jobs', query };
            if (third === 'plan')
                return { page: 'plan', id: part(id), step: fourth ? part(fourth) : null };
            return { page: 'job', id: part(id), tab: part(third) || 'events' };
        case 'dead':
            return { page: 'dead', query };
        case 'inbox':
        case 'queues':
        case 'resources':
            return { page };
        default:
            return { page: 'lost' };
    }
}

export const route = computed(() => parse(hash.value));

function withQuery(path: string, query: Record<string, string | undefined>): string {
    const parts = new URLSearchParams();
    for (const [name, value] of Object.entries(query)) if (value) parts.set(name, value);
    const text = parts.toString();
    return text ? `${path}?${text}` : path;
}

export const to = {
    overview: () => '#/',
    jobs: (query: Record<string, string | undefined> = {}) => withQuery('#/jobs', query),
    job: (id: string, tab = '') => `#/jobs/${encodeURIComponent(id)}${tab ? `/${tab}` : ''}`,
    plan: (id: string, step = '') =>
        `#/jobs/${encodeURIComponent(id)}/plan${step ? `/${encodeURIComponent(step)}` : ''}`,
    inbox: () => '#/inbox',
    dead: (query: Record<string, string | undefined> = {}) => withQuery('#/dead', query),
    queues: () => '#/queues',
    resources: () => '#/resources',
};

export function go(address: string): void {
    location.hash = address;
}

/** The same page with something else said about it; leaves no step to go back to. */
export function replace(address: string): void {
    history.replaceState(null, '', address);
    hash.value = location.hash;
}
