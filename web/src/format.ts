// Numbers, durations and JSON as people read them.

const numbers = new Intl.NumberFormat('en');
const compact = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });

export const count = (n: number): string => numbers.format(n);
export const short = (n: number): string => (n < 10_000 ? numbers.format(n) : compact.format(n));

export function plural(n: number, one: string, many = `${one}s`): string {
    return `${count(n)} ${n === 1 ? one : many}`;
}

/** 0 to 1 as percent, never rounded up to a hundred or down to nothing. */
export function percent(part: number): string {
    if (part <= 0) return '0%';
    if (part >= 1) return '100%';
    const tenths = Math.min(999, Math.max(1, Math.round(part * 1000)));
    return `${tenths / 10}%`;
}

const units: [number, string][] = [
    [86_400_000, 'd'],
    [3_600_000, 'h'],
    [60_000, 'm'],
    [1000, 's'],
];

/** 1.2s, 3m 4s, 2d 5h: two units at most. */
export function duration(ms: number): string {
    const size = Math.abs(ms);
    if (size < 1000) return `${Math.round(size)}ms`;
    if (size < 10_000) return `${(size / 1000).toFixed(1)}s`;
    for (let i = 0; i < units.length; i++) {
        const [unit, name] = units[i]!;
        if (size < unit) continue;
        const whole = Math.floor(size / unit);
        const next = units[i + 1];
        const rest = next ? Math.floor((size % unit) / next[0]) : 0;
        return rest > 0 && next && whole < 100
            ? `${whole}${name} ${rest}${next[1]}`
            : `${whole}${name}`;
    }
    return `${Math.round(size)}ms`;
}

export function ago(ms: number): string {
    if (Math.abs(ms) < 1000) return 'now';
    const text = coarse(Math.abs(ms));
    return ms > 0 ? `${text} ago` : `in ${text}`;
}

function coarse(ms: number): string {
    for (const [unit, name] of units) if (ms >= unit) return `${Math.floor(ms / unit)}${name}`;
    return '0s';
}

export function exactTime(at: string | number): string {
    const date = new Date(at);
    const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
    const local = date.toLocaleString('sv-SE', { hour12: false });
    return `${local}.${String(date.getMilliseconds()).padStart(3, '0')} ${zone}`;
}

export const clockTime = (at: string | number): string => new Date(at).toLocaleTimeString('sv-SE');

/* Ids begin with their time and so look alike: their ends tell them apart. */
export const shortId = (id: string): string => (id.length > 13 ? `…${id.slice(-8)}` : id);

export function pretty(value: unknown): string {
    return JSON.stringify(value, null, 2) ?? 'null';
}

/** One line of it, for lists. */
export function brief(value: unknown, max = 120): string {
    const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
    return text.length > max ? `${text.slice(0, max - 1)}…` : text;
}

export const words = (name: string): string => name.replaceAll('_', ' ');

export const sentence = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);
