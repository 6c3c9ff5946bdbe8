// Events of a history as sentences, and in which colour.

import type { Failure, PawlEvent } from '../api/types';
import { brief, duration, sentence, words } from '../format';
import { deadReasons, type Tone } from '../states';

const looks: [RegExp, Tone][] = [
    [/^(job_completed|step_succeeded)$/, 'good'],
    [/^(job_failed|step_failed|step_failed_fatal)$/, 'bad'],
    [/^job_dead_lettered$/, 'dead'],
    [/^(job_cancelled|job_cancel_requested)$/, 'mute'],
    [
        /^(job_requeued|step_retrying|step_failed_retryable|step_failed_resource|step_switching_resource|step_lease_timeout)$/,
        'retry',
    ],
    [/^(job_waiting|step_needs_user)$/, 'wait'],
    [/^(job_running|job_leased|step_running|step_leased|step_judging)$/, 'run'],
];

export function eventLook(type: string): Tone {
    return looks.find(([pattern]) => pattern.test(type))?.[1] ?? 'idle';
}

type Payload = Record<string, unknown>;
const text = (value: unknown): string => (typeof value === 'string' ? value : brief(value, 60));
const because = (payload: Payload): string => {
    const message = (payload.error as Failure | undefined)?.message;
    if (message) return `: ${brief(message, 90)}`;
    return payload.reason ? `: ${words(text(payload.reason))}` : '';
};

function requeued(payload: Payload, event: PawlEvent): string {
    const pause = payload.not_before
        ? Date.parse(text(payload.not_before)) - Date.parse(event.at)
        : 0;
    const how = pause > 0 ? `Retrying in ${duration(pause)}` : 'Requeued';
    return `${how}${because(payload)}`;
}

function waiting(payload: Payload): string {
    if (payload.type === 'human')
        return `Needs input${payload.assignee ? ` from ${text(payload.assignee)}` : ''}: ${brief(payload.prompt ?? '', 90)}`;
    if (payload.type === 'timer') return 'Waiting for a timer';
    if (payload.type === 'steps') return 'Waiting for answers to its steps';
    if (payload.type === 'replan') return 'Waiting for a new plan';
    return `Waiting for ${text(payload.correlation_key)}`;
}

const sentences: Record<string, (payload: Payload, event: PawlEvent) => string> = {
    job_created: (p) =>
        `Submitted${p.kind ? ` as ${text(p.kind)}` : ''}${p.queue ? ` to ${text(p.queue)}` : ''}`,
    job_queued: () => 'Queued',
    job_requeued: requeued,
    job_leased: (p) => `Claimed by ${text(p.worker_id)}, attempt ${text(p.attempt)}`,
    job_running: (_p, e) => `Started${e.actor ? ` by ${e.actor}` : ''}`,
    job_waiting: waiting,
    wait_completed: (p) =>
        p.outcome === 'timeout'
            ? `Wait for ${text(p.correlation_key)} timed out`
            : `Received ${text(p.correlation_key ?? 'a response')}`,
    job_completed: () => 'Completed',
    job_failed: (p) => `Failed${because(p)}`,
    job_cancelled: (p) => `Cancelled${because(p)}`,
    job_cancel_requested: (p) => `Cancel requested${because(p)}`,
    job_dead_lettered: (p) =>
        `Dead letter: ${deadReasons[text(p.reason_code)]?.toLowerCase() ?? words(text(p.reason_code))}${because(p)}`,
    signal_received: (p) => `Signal ${text(p.correlation_key)} received`,
    tool_called: (p) => `Effect ${text(p.key)} started`,
    tool_returned: (p) => `Effect ${text(p.key)} recorded${p.error ? ' as failed' : ''}`,
    tool_aborted: (p) => `Effect ${text(p.key)} aborted: it did not happen`,
    job_repinned: (p) => `Pinned to ${text(p.pin)}`,
    plan_generated: (p) => `Plan version ${text(p.plan_version)}`,
    job_heartbeat: () => 'Heartbeat',
};

export function eventWords(event: PawlEvent): string {
    const payload = event.payload ?? {};
    const known = sentences[event.type];
    if (known) return known(payload, event);
    if (event.type.startsWith('step_')) {
        const what = words(event.type.slice('step_'.length));
        return `Step ${text(payload.step ?? '')} ${what}${because(payload)}`;
    }
    return sentence(words(event.type));
}
