// Times as people say them, with the exact one on hover; all of them go on ticking.

import { signal } from '@preact/signals';
import { ago, duration, exactTime } from '../format';

export const now = signal(Date.now());
window.setInterval(() => {
    now.value = Date.now();
}, 1000);

export function Ago({ at }: { at: string | null | undefined }) {
    if (!at) return <span class="faint">–</span>;
    return (
        <time dateTime={at} title={exactTime(at)}>
            {ago(now.value - Date.parse(at))}
        </time>
    );
}

/** How long from one time to another, or to now. */
export function Span({ from, to }: { from: string | null | undefined; to?: string | null }) {
    if (!from) return <span class="faint">–</span>;
    const end = to ? Date.parse(to) : Math.max(now.value, Date.parse(from));
    const title = to ? `${exactTime(from)} to ${exactTime(to)}` : `since ${exactTime(from)}`;
    return <span title={title}>{duration(end - Date.parse(from))}</span>;
}
