// Light or dark: as the system says, unless somebody has chosen.

import { signal } from '@preact/signals';

export type Theme = 'system' | 'light' | 'dark';

const KEY = 'pawl.theme';
const system = matchMedia('(prefers-color-scheme: dark)');

function stored(): Theme {
    const value = localStorage.getItem(KEY);
    return value === 'light' || value === 'dark' ? value : 'system';
}

export const theme = signal<Theme>(stored());

/** Grows when colours have changed, for what is drawn on canvas. */
export const repaint = signal(0);

function apply(): void {
    const root = document.documentElement;
    if (theme.value === 'system') root.removeAttribute('data-theme');
    else root.setAttribute('data-theme', theme.value);
    repaint.value++;
}

export const isDark = (): boolean =>
    theme.value === 'dark' || (theme.value === 'system' && system.matches);

export function toggleTheme(): void {
    theme.value = isDark() ? 'light' : 'dark';
    localStorage.setItem(KEY, theme.value);
    apply();
}

system.addEventListener('change', apply);
apply();

/* What a token of the style sheet comes out as: custom properties are not resolved by themselves. */
export function colour(token: string): string {
    const probe = document.createElement('span');
    probe.style.color = `var(${token})`;
    document.body.append(probe);
    const value = getComputedStyle(probe).color;
    probe.remove();
    return value;
}
