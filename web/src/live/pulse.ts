// How the system beats: what was submitted, done and failed in each second of the last minutes, and how
// long jobs waited and ran. Counted from the feed; what was before is told by the newest jobs.

import { signal } from '@preact/signals';
import type { Job, PawlEvent } from '../api/types';
import { listen } from './feed';

export interface Beat {
    at_s: number;
    submitted: number;
    completed: number;
    failed: number;
    wait_ms: number[];
    run_ms: number[];
}

export const WINDOW_S = 300;
/* Jobs whose next event is still to come; the oldest are forgotten first. */
const OPEN_MAX = 20_000;
const SAMPLES_MAX = 200;

const beats = new Map<number, Beat>();
const readySince = new Map<string, number>();
const runningSince = new Map<string, number>();

/** Grows with every second that something may have changed in. */
export const pulse = signal(0);

function beatAt(at_s: number): Beat {
    let beat = beats.get(at_s);
    if (!beat) {
        beat = { at_s, submitted: 0, completed: 0, failed: 0, wait_ms: [], run_ms: [] };
        beats.set(at_s, beat);
    }
    return beat;
}

function remember(map: Map<string, number>, id: string, at: number): void {
    map.delete(id);
    map.set(id, at);
    if (map.size > OPEN_MAX) map.delete(map.keys().next().value as string);
}

function sample(list: number[], map: Map<string, number>, id: string, at: number): void {
    const since = map.get(id);
    map.delete(id);
    if (since !== undefined && list.length < SAMPLES_MAX) list.push(Math.max(0, at - since));
}

function count(event: PawlEvent): void {
    const at = Date.parse(event.at);
    const beat = beatAt(Math.floor(at / 1000));
    const id = event.job_id;
    switch (event.type) {
        case 'job_created':
            beat.submitted++;
            remember(readySince, id, at);
            break;
        case 'job_leased':
            sample(beat.wait_ms, readySince, id, at);
            remember(runningSince, id, at);
            break;
        case 'job_completed':
            beat.completed++;
            sample(beat.run_ms, runningSince, id, at);
            break;
        case 'job_failed':
        case 'job_dead_lettered':
            beat.failed++;
            sample(beat.run_ms, runningSince, id, at);
            break;
        case 'job_requeued':
            if (event.payload?.error) beat.failed++;
            sample(beat.run_ms, runningSince, id, at);
            break;
    }
}

listen((events) => {
    for (const event of events) count(event);
});

let filled = false;

/** Tells what the newest jobs say about the time before the page was opened; once. */
export function backfill(jobs: Job[], opened_ms: number): void {
    if (filled) return;
    filled = true;
    for (const job of jobs) {
        const created = Date.parse(job.created_at);
        if (created < opened_ms) beatAt(Math.floor(created / 1000)).submitted++;
        const updated = Date.parse(job.updated_at);
        if (updated >= opened_ms) continue;
        const beat = beatAt(Math.floor(updated / 1000));
        if (job.status === 'completed') beat.completed++;
        else if (job.status === 'failed' || job.status === 'dead_lettered') beat.failed++;
    }
}

window.setInterval(() => {
    const oldest = Math.floor(Date.now() / 1000) - WINDOW_S;
    for (const at of beats.keys()) if (at < oldest) beats.delete(at);
    pulse.value++;
}, 1000);

/** Every second of the window that is over, oldest first, those without events too. */
export function lastBeats(seconds = WINDOW_S): Beat[] {
    const end = Math.floor(Date.now() / 1000) - 1;
    return Array.from({ length: seconds }, (_, i) => {
        const at_s = end - seconds + i + 1;
        return (
            beats.get(at_s) ?? {
                at_s,
                submitted: 0,
                completed: 0,
                failed: 0,
                wait_ms: [],
                run_ms: [],
            }
        );
    });
}

export function percentile(sorted: number[], part: number): number | null {
    if (sorted.length === 0) return null;
    return sorted[Math.min(sorted.length - 1, Math.ceil(sorted.length * part) - 1)] ?? null;
}
