// What a job's events amount to: attempts, pauses, waits and effects, with their times.

import type { Failure, Job, PawlEvent } from '../api/types';
import { ended } from '../states';

export type Outcome =
    'running' | 'completed' | 'failed' | 'retry' | 'waiting' | 'cancelled' | 'dead' | 'released';

export interface Phase {
    kind: 'queued' | 'later' | 'backoff' | 'lease' | 'wait';
    from: number;
    /** null: it is not over. */
    to: number | null;
}

export interface Attempt {
    attempt: number;
    worker: string | null;
    /** What came before it and while it ran, in order. */
    phases: Phase[];
    from: number;
    to: number | null;
    expires_at: number | null;
    outcome: Outcome;
    why: string | null;
    error: Failure | null;
    /** How long the pause behind it is, when it is tried again. */
    backoff_ms: number | null;
}

export interface WaitRecord {
    from: number;
    to: number | null;
    type: string;
    key: string | null;
    prompt: string | null;
    outcome: string | null;
    payload: unknown;
}

export interface Effect {
    key: string;
    step: string | null;
    attempt: number;
    begun: string;
    recorded: string | null;
    input: unknown;
    result: unknown;
    /** Begun by an attempt that has ended, and never recorded: it may have happened. */
    doubt: boolean;
}

export interface JobHistory {
    attempts: Attempt[];
    /** What comes behind the last attempt. */
    tail: Phase[];
    waits: WaitRecord[];
    effects: Effect[];
}

const outcomes: Record<string, Outcome> = {
    job_completed: 'completed',
    job_failed: 'failed',
    job_cancelled: 'cancelled',
    job_dead_lettered: 'dead',
    job_waiting: 'waiting',
};

const text = (value: unknown): string | null => (typeof value === 'string' ? value : null);
const time = (value: unknown): number | null =>
    typeof value === 'string' ? Date.parse(value) : null;

class Reader {
    attempts: Attempt[] = [];
    phases: Phase[] = [];
    waits: WaitRecord[] = [];
    effects = new Map<string, Effect>();

    private endPhase(at: number): void {
        const last = this.phases.at(-1);
        if (last && last.to === null) last.to = at;
    }

    private begin(kind: Phase['kind'], from: number): void {
        this.phases.push({ kind, from, to: null });
    }

    /* Waits until `until`, then is queued again. */
    private line(kind: 'later' | 'backoff', at: number, until: number | null): void {
        if (until !== null && until > at) {
            this.phases.push({ kind, from: at, to: until });
            this.begin('queued', until);
        } else this.begin('queued', at);
    }

    private take(event: PawlEvent, at: number): void {
        this.endPhase(at);
        const queued = this.phases;
        // A pause that ended early: the line behind it never was.
        for (const phase of queued) if (phase.from > at) phase.from = phase.to = at;
        const lease: Phase = { kind: 'lease', from: at, to: null };
        this.attempts.push({
            attempt:
                typeof event.payload?.attempt === 'number'
                    ? event.payload.attempt
                    : this.attempts.length + 1,
            worker: text(event.payload?.worker_id) ?? event.actor,
            phases: [...queued, lease],
            from: at,
            to: null,
            expires_at: time(event.payload?.expires_at),
            outcome: 'running',
            why: null,
            error: null,
            backoff_ms: null,
        });
        this.phases = [lease];
    }

    private endAttempt(event: PawlEvent, at: number, outcome: Outcome): void {
        const attempt = this.attempts.at(-1);
        this.endPhase(at);
        this.phases = [];
        if (!attempt || attempt.to !== null) return;
        attempt.to = at;
        attempt.outcome = outcome;
        attempt.why = text(event.payload?.reason) ?? event.reason;
        attempt.error = (event.payload?.error as Failure | undefined) ?? null;
        const again = time(event.payload?.not_before);
        attempt.backoff_ms = again !== null && again > at ? again - at : null;
    }

    private requeued(event: PawlEvent, at: number): void {
        const failed = event.payload?.error != null || Number(event.payload?.failures ?? 0) > 0;
        this.endAttempt(event, at, failed ? 'retry' : 'released');
        this.line('backoff', at, time(event.payload?.not_before));
    }

    private effect(event: PawlEvent): void {
        const key = text(event.payload?.key) ?? '';
        const step = text(event.payload?.step);
        const name = `${step ?? ''}/${key}`;
        if (event.type === 'tool_called') {
            this.effects.set(name, {
                key,
                step,
                attempt: Number(event.payload?.attempt ?? 0),
                begun: event.at,
                recorded: null,
                input: event.payload?.input,
                result: undefined,
                doubt: false,
            });
            return;
        }
        const known = this.effects.get(name);
        if (!known) return;
        known.recorded = event.at;
        known.result = event.payload?.result ?? event.payload?.error;
    }

    private wait(event: PawlEvent, at: number): void {
        this.endAttempt(event, at, 'waiting');
        this.begin('wait', at);
        this.waits.push({
            from: at,
            to: null,
            type: text(event.payload?.type) ?? 'signal',
            key: text(event.payload?.correlation_key),
            prompt: text(event.payload?.prompt),
            outcome: null,
            payload: undefined,
        });
    }

    private waitOver(event: PawlEvent, at: number): void {
        const wait = this.waits.at(-1);
        if (wait && wait.to === null)
            Object.assign(wait, {
                to: at,
                outcome: text(event.payload?.outcome),
                payload: event.payload?.payload,
            });
        this.endPhase(at);
        this.begin('queued', at);
    }

    read(event: PawlEvent, run_at: number | null): void {
        const at = Date.parse(event.at);
        switch (event.type) {
            case 'job_created':
            case 'job_queued':
                this.line('later', at, run_at);
                break;
            case 'job_leased':
                this.take(event, at);
                break;
            case 'job_running':
                // With a lease the attempt is there already; a plan runs without one.
                if (this.attempts.at(-1)?.to !== null || this.attempts.length === 0)
                    this.take({ ...event, actor: null }, at);
                break;
            case 'job_requeued':
                this.requeued(event, at);
                break;
            case 'job_waiting':
                this.wait(event, at);
                break;
            case 'wait_completed':
                this.waitOver(event, at);
                break;
            case 'tool_called':
            case 'tool_returned':
            case 'tool_aborted':
                this.effect(event);
                break;
            default:
                if (outcomes[event.type]) this.endAttempt(event, at, outcomes[event.type]!);
        }
    }
}

export function readHistory(job: Job, events: PawlEvent[]): JobHistory {
    const reader = new Reader();
    const first = job.attempt === 0 && job.run_at ? Date.parse(job.run_at) : null;
    for (const event of events) reader.read(event, first);
    const last = reader.attempts.at(-1);
    if (last && last.to === null && job.lease) last.expires_at = Date.parse(job.lease.expires_at);
    const live = job.lease?.attempt ?? -1;
    const effects = [...reader.effects.values()];
    for (const effect of effects)
        effect.doubt =
            effect.recorded === null &&
            effect.step === null &&
            (ended.has(job.status) || effect.attempt !== live);
    const tail = ended.has(job.status) || last?.to === null ? [] : reader.phases;
    return { attempts: reader.attempts, tail, waits: reader.waits, effects };
}
