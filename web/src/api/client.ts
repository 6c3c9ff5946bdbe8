// The one place that talks to the server: JSON in and out, problems as errors, and the session.

import { signal } from '@preact/signals';
import type { Scope, Session } from './types';

/** What the server says when it refuses: RFC 9457, with Pawl's stable `code`. */
export class Problem extends Error {
    constructor(
        readonly status: number,
        readonly code: string,
        readonly title: string,
        readonly detail: string,
    ) {
        super(detail || title);
    }
}

/** The server cannot be reached, or is about to come back. */
export class OutOfReach extends Error {}

export const session = signal<Session | null>(null);

/** Whether the token is good for this; admins may do everything. */
export const may = (scope: Scope): boolean =>
    session.value?.scopes.some((s) => s === scope || s === 'admin') ?? false;

/** Whether the sign-in page is due: tokens are asked for, and we have none that counts. */
export const locked = signal(false);

interface RawJsonHost {
    rawJSON?(text: string): unknown;
}

/* Payloads are kept byte for byte by the server; 1.10 and thirty digits must not be rounded on their
 * way to the screen. Browsers that cannot do this show them as JavaScript reads them. */
function exactly(_key: string, value: unknown, context?: { source?: string }): unknown {
    const raw = (JSON as RawJsonHost).rawJSON;
    const source = context?.source;
    if (typeof value !== 'number' || !raw || source === undefined || String(value) === source)
        return value;
    return raw.call(JSON, source);
}

/* Reading exactly is slow, and few texts need it: those with numbers that end in a zero, are very long,
 * have an exponent, or are less than nothing by nothing. */
const inexact = /[:[,]\s*(?:-0\b|-?(?:[\d.]{16,}|\d+\.\d*0\b|\d+(?:\.\d+)?[eE]))|^\s*-?\d/;

/** Reads JSON without rounding its numbers: written again they are as they were. */
export const parseExact = (text: string): unknown =>
    JSON.parse(text, inexact.test(text) ? exactly : undefined);

export interface Call {
    method?: 'GET' | 'POST' | 'PUT' | 'DELETE';
    body?: unknown;
    query?: Record<string, string | number | boolean | null | undefined>;
    /** Keep numbers as they were written, for what is shown as JSON. */
    exact?: boolean;
    /** To sign in with: an access token goes into this header once, and into no address. */
    token?: string;
    signal?: AbortSignal;
}

export function address(path: string, query: Call['query'] = {}): string {
    const parts = new URLSearchParams();
    for (const [name, value] of Object.entries(query))
        if (value !== null && value !== undefined && value !== '') parts.set(name, String(value));
    const text = parts.toString();
    return text ? `${path}?${text}` : path;
}

function headers(call: Call): Headers {
    const all = new Headers({ Accept: 'application/json' });
    if (call.body !== undefined) all.set('Content-Type', 'application/json');
    const csrf = session.value?.csrf;
    if (csrf && call.method && call.method !== 'GET') all.set('X-Pawl-CSRF', csrf);
    if (call.token) all.set('Authorization', `Bearer ${call.token}`);
    return all;
}

async function problemOf(answer: Response): Promise<Problem> {
    const text = await answer.text().catch(() => '');
    try {
        const said = JSON.parse(text) as Partial<Problem>;
        return new Problem(answer.status, said.code ?? '', said.title ?? '', said.detail ?? '');
    } catch {
        return new Problem(answer.status, '', answer.statusText || `HTTP ${answer.status}`, '');
    }
}

/* Nothing is waited for longer than this, but for what says itself how it is stopped: a server that
 * hangs is as good as none. */
const PATIENCE_MS = 30_000;

export async function ask<T>(path: string, call: Call = {}): Promise<T> {
    let answer: Response;
    const request: RequestInit = {
        method: call.method ?? 'GET',
        headers: headers(call),
        body: call.body === undefined ? undefined : JSON.stringify(call.body),
        signal: call.signal ?? AbortSignal.timeout(PATIENCE_MS),
        credentials: 'same-origin',
    };
    try {
        answer = await fetch(address(path, call.query), request);
    } catch (error) {
        if (call.signal?.aborted) throw error;
        throw new OutOfReach('Server not responding.');
    }
    if (answer.status === 502 || answer.status === 504)
        throw new OutOfReach('Server not responding.');
    if (!answer.ok) {
        const problem = await problemOf(answer);
        if (problem.status === 401 && path !== '/session') locked.value = true;
        throw problem;
    }
    const text = await answer.text();
    if (text === '') return undefined as T;
    return (call.exact ? parseExact(text) : JSON.parse(text)) as T;
}

export const readSession = (): Promise<Session> => ask<Session>('/session');

export function takeSession(read: Session): void {
    session.value = read;
    locked.value = read.auth && !read.signed_in;
}

export async function signIn(token: string): Promise<void> {
    session.value = await ask<Session>('/session', { method: 'POST', token });
    locked.value = false;
}

export async function signOut(): Promise<void> {
    await ask('/session', { method: 'DELETE' });
    session.value = null;
    locked.value = true;
}
