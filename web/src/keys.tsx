// The keyboard: where to go with g, what to search with /, how to walk through lists with j and k.

import { signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { openSubmit } from './pages/submit';
import { go, to } from './route';
import { toggleTheme } from './theme';
import { Dialog } from './ui/dialog';

export const helpOpen = signal(false);

const places: Record<string, [label: string, address: () => string]> = {
    o: ['Overview', to.overview],
    j: ['Jobs', to.jobs],
    i: ['Inbox', to.inbox],
    d: ['Dead letters', to.dead],
    q: ['Queues', to.queues],
    r: ['Resources', to.resources],
};

const SEQUENCE_MS = 1200;

/* Rows that can be walked through have data-row; the one we are at has the focus. */
function walk(by: number): void {
    const rows = [...document.querySelectorAll<HTMLElement>('main [data-row]')];
    if (rows.length === 0) return;
    const at = rows.findIndex((row) => row.contains(document.activeElement));
    const next = rows[Math.max(0, Math.min(rows.length - 1, at < 0 ? 0 : at + by))];
    next?.focus();
    next?.scrollIntoView({ block: 'nearest' });
}

const isTyping = (target: EventTarget | null): boolean =>
    target instanceof HTMLElement &&
    (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));

const simple: Record<string, () => void> = {
    '?': () => (helpOpen.value = true),
    '/': () => {
        const search = document.querySelector<HTMLElement>('[data-search]');
        if (search) search.focus();
        else go(to.jobs());
    },
    c: () => openSubmit(),
    t: toggleTheme,
    j: () => walk(1),
    k: () => walk(-1),
};

export function useGlobalKeys(): void {
    useEffect(() => {
        let goUntil = 0;
        function onKeyDown(event: KeyboardEvent): void {
            if (event.key === 'Escape' && isTyping(event.target))
                (event.target as HTMLElement).blur();
            if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
            if (isTyping(event.target) || document.querySelector('dialog[open]')) return;
            const place = performance.now() < goUntil ? places[event.key] : undefined;
            goUntil = event.key === 'g' ? performance.now() + SEQUENCE_MS : 0;
            if (place) go(place[1]());
            else if (simple[event.key]) simple[event.key]!();
            else return;
            event.preventDefault();
        }
        document.addEventListener('keydown', onKeyDown);
        return () => document.removeEventListener('keydown', onKeyDown);
    }, []);
}

const others: [string[], string][] = [
    [['j'], 'Next row'],
    [['k'], 'Previous row'],
    [['Enter'], 'Open the row'],
    [['x'], 'Select the row'],
    [['/'], 'Search jobs'],
    [['c'], 'Submit a job'],
    [['t'], 'Switch between light and dark'],
    [['?'], 'Show this help'],
    [['Esc'], 'Close a dialog or leave a field'],
];

export function KeyHelp() {
    if (!helpOpen.value) return null;
    const rows: [string[], string][] = [
        ...Object.entries(places).map(([key, [label]]): [string[], string] => [
            ['g', key],
            `Go to ${label}`,
        ]),
        ...others,
    ];
    return (
        <Dialog title="Keyboard shortcuts" onClose={() => (helpOpen.value = false)}>
            <dl class="keys">
                {rows.map(([keys, what]) => (
                    <div key={what}>
                        <dt>
                            {keys.map((key) => (
                                <kbd key={key}>{key}</kbd>
                            ))}
                        </dt>
                        <dd>{what}</dd>
                    </div>
                ))}
            </dl>
        </Dialog>
    );
}
