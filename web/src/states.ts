// Every state that a job or a step can be in, once: its name for people, its colour, its shape, and
// what it means.

import type { JobStatus, StepState } from './api/types';

export type Tone = 'idle' | 'run' | 'wait' | 'retry' | 'good' | 'bad' | 'dead' | 'mute';
export type Shape =
    'ring' | 'dashed' | 'spin' | 'pause' | 'loop' | 'check' | 'cross' | 'slash' | 'box' | 'ask';

export interface StateLook {
    label: string;
    tone: Tone;
    shape: Shape;
    means: string;
}

export const jobStates: Record<JobStatus, StateLook> = {
    queued: {
        label: 'Queued',
        tone: 'idle',
        shape: 'dashed',
        means: 'Ready for a worker, or will be at its time',
    },
    leased: {
        label: 'Leased',
        tone: 'run',
        shape: 'ring',
        means: 'A worker has it and has not begun',
    },
    running: { label: 'Running', tone: 'run', shape: 'spin', means: 'A worker is at it' },
    waiting: {
        label: 'Waiting',
        tone: 'wait',
        shape: 'pause',
        means: 'Needs an answer, a signal or a moment in time',
    },
    parked: {
        label: 'Parked',
        tone: 'wait',
        shape: 'pause',
        means: 'Waits for long; answer it as a waiting one',
    },
    retrying: {
        label: 'Retrying',
        tone: 'retry',
        shape: 'loop',
        means: 'An attempt failed; the next one comes after a pause',
    },
    completed: { label: 'Completed', tone: 'good', shape: 'check', means: 'Done, with its result' },
    failed: {
        label: 'Failed',
        tone: 'bad',
        shape: 'cross',
        means: 'Ended without a result; requeue it to try anew',
    },
    dead_lettered: {
        label: 'Dead letter',
        tone: 'dead',
        shape: 'box',
        means: 'Given up: kept with its last error for a person to look at',
    },
    cancelled: {
        label: 'Cancelled',
        tone: 'mute',
        shape: 'slash',
        means: 'Stopped because somebody asked for it',
    },
};

export const jobStatuses = Object.keys(jobStates) as JobStatus[];

export const ended: ReadonlySet<JobStatus> = new Set([
    'completed',
    'failed',
    'cancelled',
    'dead_lettered',
]);

export const stepStates: Record<StepState, StateLook> = {
    pending: { label: 'Ready', tone: 'idle', shape: 'dashed', means: 'Free to be claimed' },
    waiting_deps: {
        label: 'Blocked',
        tone: 'idle',
        shape: 'dashed',
        means: 'Other steps come first',
    },
    leased: {
        label: 'Leased',
        tone: 'run',
        shape: 'ring',
        means: 'A worker has it and has not begun',
    },
    running: { label: 'Running', tone: 'run', shape: 'spin', means: 'Being worked on' },
    succeeded: {
        label: 'Succeeded',
        tone: 'good',
        shape: 'check',
        means: 'Done; its result goes to the steps behind it',
    },
    failed_retryable: {
        label: 'Failed',
        tone: 'retry',
        shape: 'loop',
        means: 'Another attempt may work',
    },
    retrying: {
        label: 'Retrying',
        tone: 'retry',
        shape: 'loop',
        means: 'The pause before the next attempt',
    },
    failed_resource: {
        label: 'Resource failed',
        tone: 'retry',
        shape: 'loop',
        means: 'The resource was at fault',
    },
    switching_resource: {
        label: 'Moving',
        tone: 'retry',
        shape: 'loop',
        means: 'Looking for another resource',
    },
    failed_fatal: {
        label: 'Failed',
        tone: 'bad',
        shape: 'cross',
        means: 'No further attempt will be made',
    },
    failed: { label: 'Failed', tone: 'bad', shape: 'cross', means: 'Ended without a result' },
    needs_user: {
        label: 'Needs input',
        tone: 'wait',
        shape: 'ask',
        means: 'A person was asked a question',
    },
    lease_timeout: { label: 'Lost', tone: 'retry', shape: 'loop', means: 'The worker never began' },
};

/** What an event makes of its job; events that move no job are not here. */
const statusAfter: Record<string, JobStatus> = {
    job_created: 'queued',
    job_queued: 'queued',
    job_requeued: 'queued',
    job_leased: 'leased',
    job_running: 'running',
    job_waiting: 'waiting',
    wait_completed: 'queued',
    job_completed: 'completed',
    job_failed: 'failed',
    job_cancelled: 'cancelled',
    job_dead_lettered: 'dead_lettered',
};

export function statusAfterEvent(
    type: string,
    payload: Record<string, unknown> | null,
    at: string,
): JobStatus | undefined {
    if (
        type === 'job_requeued' &&
        typeof payload?.not_before === 'string' &&
        payload.not_before > at
    )
        return 'retrying';
    if (type === 'job_waiting' && payload?.parked === true) return 'parked';
    return statusAfter[type];
}

export const deadReasons: Record<string, string> = {
    parse_error: 'Parse error',
    validation_failed: 'Validation failed',
    dependency_unavailable: 'Dependency unavailable',
    timeout: 'Timeout',
    exhausted_retries: 'Exhausted retries',
    policy_violation: 'Policy violation',
    infrastructure_failure: 'Infrastructure failure',
    compensation_failed: 'Compensation failed',
};
