// A long list of jobs that is loaded piece by piece and kept alive: what happens to those on the list
// shows at once, and new ones come in at the top.

import { useEffect, useRef, useState } from 'preact/hooks';
import { OutOfReach } from '../api/client';
import type { Job, JobPage, PawlEvent } from '../api/types';
import { statusAfterEvent } from '../states';
import { listen, resync } from './feed';

const REFRESH_MS = 300;
const REST_FACTOR = 4;

interface List {
    jobs: Job[];
    cursor: string | null;
    error: Error | null;
    loaded: boolean;
    /** New ones that came while somebody was reading further down. */
    unseen: number;
}

export interface JobList extends List {
    more: () => void;
    refresh: () => void;
}

const nothing: List = { jobs: [], cursor: null, error: null, loaded: false, unseen: 0 };

/* The first page again, in front of what was loaded behind it. */
function merge(page: JobPage, old: List): List {
    const last = page.jobs.at(-1);
    if (!last || page.next_cursor === null) return { ...nothing, jobs: page.jobs, loaded: true };
    const fresh = new Set(page.jobs.map((job) => job.id));
    const border = old.jobs.findIndex((job) => job.id === last.id);
    const rest = border < 0 ? [] : old.jobs.slice(border + 1).filter((job) => !fresh.has(job.id));
    return {
        jobs: [...page.jobs, ...rest],
        cursor: border < 0 ? page.next_cursor : old.cursor,
        error: null,
        loaded: true,
        unseen: 0,
    };
}

function patch(jobs: Job[], events: PawlEvent[]): Job[] {
    const news = new Map<string, PawlEvent[]>();
    for (const event of events) {
        const known = news.get(event.job_id);
        if (known) known.push(event);
        else news.set(event.job_id, [event]);
    }
    let changed = false;
    const next = jobs.map((job) => {
        const mine = news.get(job.id)?.filter((event) => event.version > job.version);
        if (!mine || mine.length === 0) return job;
        changed = true;
        const last = mine.at(-1)!;
        const status = mine.reduce(
            (s, e) => statusAfterEvent(e.type, e.payload, e.at) ?? s,
            job.status,
        );
        const attempt = mine.reduce(
            (n, e) =>
                e.type === 'job_leased' && typeof e.payload?.attempt === 'number'
                    ? e.payload.attempt
                    : n,
            job.attempt,
        );
        return { ...job, status, attempt, version: last.version, updated_at: last.at };
    });
    return changed ? next : jobs;
}

/**
 * `load` gets a cursor, or null for the first page; `key` tells when it is another list; `reading`
 * whether somebody has scrolled away from the top, where nothing should move then; `isNew` which events
 * put a job on the list.
 */
export function useJobList(
    load: (cursor: string | null) => Promise<JobPage>,
    key: unknown[],
    reading: () => boolean,
    isNew: (event: PawlEvent) => boolean = () => false,
): JobList {
    const [list, setList] = useState<List>(nothing);
    const now = useRef({ list, load, reading, isNew, busy: false, refresh: () => {} });
    Object.assign(now.current, { list, load, reading, isNew });

    useEffect(() => {
        let gone = false;
        let timer = 0;
        let notBefore = 0;
        let asked = true;
        setList(nothing);
        now.current.busy = false;

        // Somebody may have begun to read since it was due: nothing moves then, unless it was asked for.
        const unwanted = () => gone || (!asked && now.current.reading());

        async function first(): Promise<void> {
            timer = 0;
            if (unwanted()) return;
            const begun = performance.now();
            try {
                const page = await now.current.load(null);
                if (!unwanted()) setList((old) => merge(page, old));
                asked = false;
            } catch (error) {
                if (!gone)
                    setList((old) =>
                        error instanceof OutOfReach && old.loaded
                            ? old
                            : { ...old, error: error as Error },
                    );
            }
            notBefore =
                performance.now() + Math.max(REFRESH_MS, REST_FACTOR * (performance.now() - begun));
        }
        function soon(): void {
            if (!timer)
                timer = window.setTimeout(first, Math.max(0, notBefore - performance.now()));
        }
        function refresh(): void {
            asked = true;
            soon();
        }
        const forget = listen((events) => {
            const added = now.current.reading() ? events.filter(now.current.isNew).length : 0;
            setList((old) => {
                const jobs = patch(old.jobs, events);
                if (jobs === old.jobs && added === 0) return old;
                return { ...old, jobs, unseen: old.unseen + added };
            });
            if (!now.current.reading()) soon();
        });
        const seen = resync.peek();
        const unsync = resync.subscribe((n) => {
            if (n !== seen) refresh();
        });
        now.current.refresh = refresh;
        void first();
        return () => {
            gone = true;
            forget();
            unsync();
            window.clearTimeout(timer);
        };
    }, key);

    async function more(): Promise<void> {
        const cursor = now.current.list.cursor;
        if (!cursor || now.current.busy) return;
        now.current.busy = true;
        const asked = now.current.load;
        try {
            const page = await asked(cursor);
            setList((old) => {
                if (old.cursor !== cursor) return old;
                const known = new Set(old.jobs.map((job) => job.id));
                return {
                    ...old,
                    jobs: [...old.jobs, ...page.jobs.filter((job) => !known.has(job.id))],
                    cursor: page.next_cursor,
                };
            });
        } catch {
            // Scrolling on asks again.
        }
        now.current.busy = false;
    }

    return { ...list, more: () => void more(), refresh: () => now.current.refresh() };
}
