// The history of one job, all of it and as it goes on.
//
// What there was is loaded in pages; what comes is taken out of the feed, which has it too, so that a
// page needs one stream only. A version that is missing in between is asked for.

import { useEffect, useState } from 'preact/hooks';
import { Problem } from '../api/client';
import * as pawl from '../api/pawl';
import type { PawlEvent } from '../api/types';
import { listen, resync } from './feed';

const PAGE = 1000;
const RETRY_MS = 1000;

export interface History {
    events: PawlEvent[];
    loaded: boolean;
    error: Error | null;
}

export function useJobEvents(id: string): History {
    const [history, setHistory] = useState<History>({ events: [], loaded: false, error: null });

    useEffect(() => {
        let gone = false;
        let busy = false;
        let again = false;
        let timer = 0;
        const events: PawlEvent[] = [];
        const show = (error: Error | null = null) =>
            setHistory({ events: [...events], loaded: true, error });

        async function catchUp(): Promise<void> {
            if (busy) {
                again = true;
                return;
            }
            busy = true;
            try {
                for (let more = true; more && !gone;) {
                    const page = await pawl.jobEvents(id, events.at(-1)?.version ?? 0, PAGE);
                    const last = events.at(-1)?.version ?? 0;
                    events.push(...page.events.filter((event) => event.version > last));
                    more = page.events.length === PAGE;
                    if (!gone) show();
                }
            } catch (error) {
                if (!gone && events.length === 0) show(error as Error);
                // What is refused will be refused again.
                if (!gone && !(error instanceof Problem))
                    timer = window.setTimeout(catchUp, RETRY_MS);
            }
            busy = false;
            if (again && !gone) {
                again = false;
                void catchUp();
            }
        }

        function take(news: PawlEvent[]): void {
            let changed = false;
            for (const event of news) {
                if (event.job_id !== id || busy) {
                    again ||= event.job_id === id;
                    continue;
                }
                const last = events.at(-1)?.version ?? 0;
                if (event.version <= last) continue;
                if (event.version > last + 1) {
                    void catchUp();
                    return;
                }
                events.push(event);
                changed = true;
            }
            if (changed) show();
        }

        const forget = listen(take);
        const seen = resync.peek();
        const unsync = resync.subscribe((n) => {
            if (n !== seen) void catchUp();
        });
        void catchUp();
        return () => {
            gone = true;
            forget();
            unsync();
            window.clearTimeout(timer);
        };
    }, [id]);

    return history;
}
