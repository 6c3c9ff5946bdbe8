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
        means: 'Ready for a worker, or scheduled for later',
    },
    leased: {
        label: 'Leased',
        tone: 'run',
        shape: 'ring',
        means: 'Claimed by a worker, not started yet',
    },
    running: { label: 'Running', tone: 'run', shape: 'spin', means: 'A worker is running it' },
    waiting: {
        label: 'Waiting',
        tone: 'wait',
        shape: 'pause',
        means: 'Waiting for an answer, a signal or a timer',
    },
    parked: {
        label: 'Parked',
        tone: 'wait',
        shape: 'pause',
        means: 'Waiting for a long time; answer it like a waiting job',
    },
    retrying: {
        label: 'Retrying',
        tone: 'retry',
        shape: 'loop',
        means: 'An attempt failed; the next one starts after the backoff',
    },
    completed: { label: 'Completed', tone: 'good', shape: 'check', means: 'Finished with a result' },
    failed: {
        label: 'Failed',
        tone: 'bad',
        shape: 'cross',
        means: 'Ended with an error; requeue it to run it again',
    },
    dead_lettered: {
        label: 'Dead letter',
        tone: 'dead',
        shape: 'box',
        means: 'Kept with its last error for a person to review',
    },
    cancelled: {
        label: 'Cancelled',
        tone: 'mute',
        shape: 'slash',
        means: 'Stopped on request',
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
    pending: { label: 'Ready', tone: 'idle', shape: 'dashed', means: 'Ready to be claimed' },
    waiting_deps: {
        label: 'Blocked',
        tone: 'idle',
        shape: 'dashed',
        means: 'Waiting for other steps',
    },
    leased: {
        label: 'Leased',
        tone: 'run',
        shape: 'ring',
        means: 'Claimed by a worker, not started yet',
    },
    running: { label: 'Running', tone: 'run', shape: 'spin', means: 'A worker is running it' },
    succeeded: {
        label: 'Succeeded',
        tone: 'good',
        shape: 'check',
        means: 'Finished; its result goes to the steps that depend on it',
    },
    failed_retryable: {
        label: 'Failed',
        tone: 'retry',
        shape: 'loop',
        means: 'Another attempt follows',
    },
    retrying: {
        label: 'Retrying',
        tone: 'retry',
        shape: 'loop',
        means: 'Waiting for the next attempt',
    },
    failed_resource: {
        label: 'Resource failed',
        tone: 'retry',
        shape: 'loop',
        means: 'The resource failed',
    },
    switching_resource: {
        label: 'Switching',
        tone: 'retry',
        shape: 'loop',
        means: 'Moving to another resource',
    },
    failed_fatal: {
        label: 'Failed',
        tone: 'bad',
        shape: 'cross',
        means: 'Not retried',
    },
    failed: { label: 'Failed', tone: 'bad', shape: 'cross', means: 'Ended with an error' },
    needs_user: {
        label: 'Needs input',
        tone: 'wait',
        shape: 'ask',
        means: 'Waiting for an answer from a person',
    },
    lease_timeout: { label: 'Lease expired', tone: 'retry', shape: 'loop', means: 'The worker never started it' },
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
    exhausted_retries: 'Retries exhausted',
    policy_violation: 'Policy violation',
    infrastructure_failure: 'Infrastructure failure',
    compensation_failed: 'Compensation failed',
};
