// The live stream of all jobs' events: one connection for the whole page, however many listen.
//
// After a lost connection it goes on behind the last event that it has seen. After a long gap, or when
// the page was hidden, replaying would only be noise: it starts at `now` and everybody loads anew.

import { effect, signal } from '@preact/signals';
import { ask, locked, parseExact, Problem, readSession, takeSession } from '../api/client';
import type { PawlEvent, Session } from '../api/types';
import { openStream } from './stream';

/** off: the token may not see the feed; pages are kept up to date as far as they ask by themselves. */
export type Connection = 'connecting' | 'live' | 'lost' | 'off';

export const connection = signal<Connection>('connecting');

/** Grows whenever events may have been missed: load anew. */
export const resync = signal(0);

const REPLAY_MS_MAX = 30_000;
const RETRY_MS = [250, 500, 1000, 2000];
const BATCH_MS = 60;
/* A server that hangs closes nothing: after a silence of this length it is asked whether it is there. */
const QUIET_MS = 3000;
const PROBE_MS = 5000;

type Listener = (events: PawlEvent[]) => void;

const listeners = new Set<Listener>();
let source: (() => void) | null = null; // closes the stream that is open
let retryTimer = 0;
let tries = 0;
let lastId: string | null = null;
let lostAt = 0;
let heardAt = 0;
let waiting: PawlEvent[] = [];
let batchTimer = 0;

export function listen(listener: Listener): () => void {
    listeners.add(listener);
    return () => listeners.delete(listener);
}

function flush(): void {
    const events = waiting;
    waiting = [];
    batchTimer = 0;
    for (const listener of [...listeners]) listener(events);
}

function received(id: string, data: string): void {
    lastId = id;
    heardAt = Date.now();
    waiting.push(parseExact(data) as PawlEvent);
    if (!batchTimer) batchTimer = window.setTimeout(flush, BATCH_MS);
}

function close(): void {
    source?.();
    source = null;
    window.clearTimeout(retryTimer);
}

function lose(): void {
    close();
    if (connection.value !== 'lost') lostAt = Date.now();
    connection.value = 'lost';
    const pause = RETRY_MS[Math.min(tries++, RETRY_MS.length - 1)];
    retryTimer = window.setTimeout(connect, pause);
}

function opened(): void {
    const wasLost = lostAt !== 0;
    tries = 0;
    lostAt = 0;
    heardAt = Date.now();
    connection.value = 'live';
    // Answers may have been lost too, not only events.
    if (wasLost) resync.value++;
}

async function probe(): Promise<void> {
    const stream = source;
    if (connection.value !== 'live' || !stream || Date.now() - heardAt < QUIET_MS) return;
    heardAt = Date.now();
    try {
        const signal = AbortSignal.timeout(PROBE_MS);
        await (await fetch('/healthz', { signal, cache: 'no-store' })).text();
    } catch {
        if (source === stream) lose();
    }
}

/* Where the feed stands before anything is loaded: what comes after that is news to everybody. */
async function now(): Promise<string> {
    const page = await ask<{ next: string }>('/v1/feed', { query: { after: 'now', limit: 1 } });
    return page.next;
}

/* Events that this page has shown may not exist any more, after a failover of the database. */
function reset(cursor: string): void {
    lastId = cursor;
    resync.value++;
}

function open(): void {
    close();
    const stream = openStream(`/v1/feed?after=${encodeURIComponent(lastId ?? 'now')}`, {
        opened,
        received,
        reset,
        lost: () => {
            if (source === stream) lose();
        },
    });
    source = stream;
}

/** Opens the stream, and keeps it open until the page is left or the token has ended. */
export async function connect(): Promise<void> {
    let read: Session | undefined;
    try {
        read = await readSession();
        if (read.auth && !read.signed_in) {
            close();
            takeSession(read);
            return;
        }
        if (lastId === null || (lostAt !== 0 && Date.now() - lostAt > REPLAY_MS_MAX))
            lastId = await now();
    } catch (error) {
        if (read && error instanceof Problem && error.status === 403) {
            connection.value = 'off';
            takeSession(read);
        } else lose();
        return;
    }
    takeSession(read);
    open();
}

window.setInterval(() => void probe(), 1000);

// Anyone who signs out, or whose token has ended, hears of nothing more.
effect(() => {
    if (!locked.value) return;
    close();
    lastId = null;
});

// A browser has six connections to a server for all of its tabs: those that nobody looks at need none.
document.addEventListener('visibilitychange', () => {
    if (document.hidden) {
        close();
        lastId = null;
        lostAt = Date.now();
    } else if (!source && !locked.value) {
        void connect();
    }
});
