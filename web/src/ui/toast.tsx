// Short words about what was done, or why not.

import { signal } from '@preact/signals';
import { Icon } from './icon';

interface Toast {
    key: number;
    text: string;
    bad: boolean;
    href?: string;
}

const toasts = signal<Toast[]>([]);
const SHOWN_MS = 5000;
let next = 0;

export function toast(text: string, options: { bad?: boolean; href?: string } = {}): void {
    const key = next++;
    toasts.value = [
        ...toasts.value.slice(-3),
        { key, text, bad: options.bad ?? false, href: options.href },
    ];
    window.setTimeout(() => {
        toasts.value = toasts.value.filter((t) => t.key !== key);
    }, SHOWN_MS);
}

export function Toasts() {
    return (
        <div class="toasts" role="status" aria-live="polite">
            {toasts.value.map((t) => (
                <div key={t.key} class={`toast${t.bad ? ' bad' : ''}`}>
                    <Icon name={t.bad ? 'warn' : 'check'} />
                    <span>{t.text}</span>
                    {t.href && <a href={t.href}>Open</a>}
                </div>
            ))}
        </div>
    );
}
