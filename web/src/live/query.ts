// What a page has asked the server for, kept up to date.

import { useEffect, useRef, useState } from 'preact/hooks';
import { OutOfReach } from '../api/client';
import type { PawlEvent } from '../api/types';
import { listen, resync } from './feed';

export interface Query<T> {
    data: T | undefined;
    error: Error | null;
    /** Nothing has come yet. */
    loading: boolean;
    reload: () => void;
}

export interface Freshness {
    /** Which events make it stale; absent: none. */
    stale?: (event: PawlEvent) => boolean;
    /** Load anew this often, for what no event tells. */
    every_ms?: number;
    /** But not more often than this, for what is dear. */
    quiet_ms?: number;
    /** The longest pause after a slow response; absent: in proportion to the time it took. */
    rest_ms_max?: number;
}

const QUIET_MS = 250;
/* A server that needs long for an answer is asked less often. */
const REST_FACTOR = 4;

export const anyEvent = (): boolean => true;

/**
 * For reads of one job. They cost the server little, so a slow response means a busy machine and not an
 * expensive query: the page must not fall behind because of it. No event reports a queue that is paused
 * or resumed, so the page also polls.
 */
export const ofJob = (id: string): Freshness => ({
    stale: (event) => event.job_id === id,
    every_ms: 2000,
    rest_ms_max: 500,
});

export function useQuery<T>(
    load: () => Promise<T>,
    key: unknown[],
    fresh: Freshness = {},
): Query<T> {
    const [state, set] = useState<{ data?: T; error: Error | null }>({ error: null });
    const current = useRef({ load, fresh, reload: () => {} });
    current.current.load = load;
    current.current.fresh = fresh;

    useEffect(() => {
        let gone = false;
        let busy = false;
        let again = false;
        let timer = 0;
        let notBefore = 0;
        let begun = 0;
        set({ error: null });

        async function run(): Promise<void> {
            timer = 0;
            if (busy) {
                again = true;
                return;
            }
            busy = true;
            again = false;
            begun = performance.now();
            try {
                const data = await current.current.load();
                if (!gone) set({ data, error: null });
            } catch (error) {
                // While the server is away the old answer is better than none: the banner says so.
                if (!gone)
                    set((old) =>
                        error instanceof OutOfReach && old.data !== undefined
                            ? old
                            : { ...old, error: error as Error },
                    );
            }
            busy = false;
            const { quiet_ms = QUIET_MS, rest_ms_max = Infinity } = current.current.fresh;
            const took_ms = performance.now() - begun;
            const rest_ms = Math.max(quiet_ms, Math.min(rest_ms_max, REST_FACTOR * took_ms));
            notBefore = performance.now() + rest_ms;
            if (again && !gone) soon();
        }
        function soon(): void {
            if (busy) again = true;
            else if (!timer)
                timer = window.setTimeout(run, Math.max(0, notBefore - performance.now()));
        }

        current.current.reload = () => void run();
        void run();
        const forget = listen((events) => {
            const stale = current.current.fresh.stale;
            if (stale && events.some(stale)) soon();
        });
        const first = resync.peek();
        const unsync = resync.subscribe((n) => {
            if (n === first) return;
            // It was away, and not slow: that is no reason to rest.
            begun = performance.now();
            notBefore = 0;
            window.clearTimeout(timer);
            timer = 0;
            soon();
        });
        const every = current.current.fresh.every_ms;
        // What nobody looks at can wait: it is loaded anew when somebody does.
        const tick = every ? window.setInterval(() => !document.hidden && soon(), every) : 0;
        return () => {
            gone = true;
            forget();
            unsync();
            window.clearTimeout(timer);
            window.clearInterval(tick);
        };
    }, key);

    return {
        data: state.data,
        error: state.error,
        loading: state.data === undefined && state.error === null,
        reload: () => current.current.reload(),
    };
}
