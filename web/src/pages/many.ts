// One thing done to many jobs: counted first, told of while it goes on, and stopped when asked.

import { useEffect, useState } from 'preact/hooks';
import type { Counts, Json } from '../api/types';
import { count } from '../format';
import { toast } from '../ui/toast';

type Body = Record<string, Json>;
type Call = (body: Body, signal?: AbortSignal) => Promise<Counts>;

export interface Sum {
    done: number;
    refused: number;
    /** Why the first of the refused was, where the server says so. */
    why: string;
    /** Some were asked for and not answered: they may be done too. */
    unsure: boolean;
}

export interface Run {
    signal: AbortSignal;
    onDone: (done: number) => void;
}

const AT_ONCE = 8;
const PAGE = 500;
const GRACE_MS = 3000;

/* The server ends what it has begun, even if nobody listens. What is under way gets a moment to be answered, so
 * that the number told is the true one, and is given up then. */
function afterGrace(stop: AbortSignal): AbortSignal {
    const late = new AbortController();
    stop.addEventListener('abort', () => window.setTimeout(() => late.abort(), GRACE_MS));
    return late.signal;
}

function pause(ms: number, stop: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
        const timer = window.setTimeout(resolve, ms);
        stop.addEventListener('abort', () => {
            window.clearTimeout(timer);
            resolve();
        });
    });
}

/** Does it to each, some at a time. */
export async function each(
    ids: string[],
    call: (id: string, signal: AbortSignal) => Promise<unknown>,
    { signal, onDone }: Run,
): Promise<Sum> {
    const sum: Sum = { done: 0, refused: 0, why: '', unsure: false };
    const left = [...ids];
    const late = afterGrace(signal);
    onDone(0);
    async function lane(): Promise<void> {
        while (!signal.aborted) {
            const id = left.shift();
            if (id === undefined) return;
            try {
                await call(id, late);
                onDone(++sum.done);
            } catch (error) {
                if (late.aborted) {
                    sum.unsure = true;
                    return;
                }
                sum.refused++;
                sum.why ||= (error as Error).message;
            }
        }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, lane));
    return sum;
}

/** Does it to all that match, page after page. */
export async function all(
    call: Call,
    body: Body,
    rate: number,
    { signal, onDone }: Run,
): Promise<Sum> {
    const sum: Sum = { done: 0, refused: 0, why: '', unsure: false };
    const late = afterGrace(signal);
    onDone(0);
    const begun = performance.now();
    // With a rate a page is a second's work, so that it can be stopped soon. The server keeps to the rate
    // within a page, and the pause from one to the next.
    const how = rate ? { rate_per_s: rate, limit: Math.min(rate, PAGE) } : { limit: PAGE };
    let cursor: string | null = null;
    do {
        try {
            const counts: Counts = await call(
                { ...body, ...how, cursor: cursor ?? undefined },
                late,
            );
            sum.done += counts.done;
            sum.refused += counts.refused;
            cursor = counts.next_cursor;
        } catch (error) {
            if (!late.aborted) throw error;
            sum.unsure = true;
        }
        onDone(sum.done);
        if (rate && cursor && !signal.aborted) {
            const due = begun + ((sum.done + sum.refused) * 1000) / rate;
            await pause(due - performance.now(), signal);
        }
    } while (cursor && !signal.aborted);
    return sum;
}

async function countAll(call: Call, body: Body, signal: AbortSignal): Promise<number> {
    let n = 0;
    let cursor: string | null = null;
    do {
        const counts: Counts = await call(
            { ...body, dry_run: true, cursor: cursor ?? undefined },
            signal,
        );
        n += counts.matched - counts.refused;
        cursor = counts.next_cursor;
    } while (cursor);
    return n;
}

/** How many it would be done to; null until that is known. */
export function useCount(
    ids: string[] | null,
    call: Call,
    body: Body,
): { n: number | null; problem: string | null } {
    const [n, setN] = useState<number | null>(ids ? ids.length : null);
    const [problem, setProblem] = useState<string | null>(null);
    useEffect(() => {
        if (ids) return;
        const gone = new AbortController();
        countAll(call, body, gone.signal).then(setN, (error: Error) => {
            if (!gone.signal.aborted) setProblem(`Cannot count the jobs: ${error.message}`);
        });
        return () => gone.abort();
    }, []);
    return { n, problem };
}

export function tell(past: string, sum: Sum, stopped: boolean): void {
    const refused = sum.refused
        ? `, ${count(sum.refused)} refused${sum.why ? `: ${sum.why}` : ''}`
        : '';
    const done = `${sum.unsure ? 'at least ' : ''}${count(sum.done)}`;
    toast(`${past}: ${done}${refused}${stopped ? ', then stopped' : ''}`, {
        bad: sum.done === 0 && !stopped,
    });
}
