// Submitting a job by hand, or one like another.

import { signal } from '@preact/signals';
import { useState } from 'preact/hooks';
import * as pawl from '../api/pawl';
import type { Job } from '../api/types';
import { pretty } from '../format';
import { to } from '../route';
import { ActionDialog } from '../ui/dialog';
import { JsonField, jsonProblem, readJson, TextField } from '../ui/field';
import { toast } from '../ui/toast';

const asked = signal<{ like?: Job } | null>(null);

export function openSubmit(like?: Job): void {
    asked.value = { like };
}

interface Draft {
    kind: string;
    queue: string;
    payload: string;
    priority: string;
    delay_s: string;
    key: string;
    agent: string;
    goal: string;
    correlation: string;
    labels: string;
    attempts: string;
    plan: string;
}

function draftOf(like?: Job): Draft {
    return {
        kind: like?.kind ?? '',
        queue: like && like.queue !== 'default' ? like.queue : '',
        payload: like?.payload == null ? '' : pretty(like.payload),
        priority: like && like.priority !== 0 ? String(like.priority) : '',
        delay_s: '',
        key: '',
        agent: like?.agent_id ?? '',
        goal: like?.goal ?? '',
        correlation: like?.correlation_id ?? '',
        labels: Object.entries(like?.labels ?? {})
            .map(([k, v]) => `${k}:${v}`)
            .join(', '),
        attempts: like ? String(like.retry.max_attempts) : '',
        plan: '',
    };
}

const orNone = (value: string): string | undefined =>
    value.trim() === '' ? undefined : value.trim();
const number = (value: string): number | undefined =>
    value.trim() === '' ? undefined : Number(value);

function labelsOf(text: string): Record<string, string> | undefined {
    const pairs = text
        .split(',')
        .map((pair) => pair.trim())
        .filter(Boolean);
    if (pairs.length === 0) return undefined;
    return Object.fromEntries(
        pairs.map((pair) => {
            const colon = pair.indexOf(':');
            if (colon < 1) throw new Error(`Invalid label “${pair}”: write key:value`);
            return [pair.slice(0, colon).trim(), pair.slice(colon + 1).trim()];
        }),
    );
}

/* What the form does not show is as the other job has it; its plan alone is not taken over. */
function bodyOf(draft: Draft, like?: Job): Record<string, unknown> {
    const delay = number(draft.delay_s);
    const attempts = number(draft.attempts);
    const plan = readJson(draft.plan);
    return {
        kind: draft.kind.trim(),
        queue: orNone(draft.queue),
        payload: readJson(draft.payload),
        priority: number(draft.priority),
        delay_ms: delay === undefined ? undefined : Math.round(delay * 1000),
        idempotency_key: orNone(draft.key),
        agent_id: orNone(draft.agent),
        goal: orNone(draft.goal),
        correlation_id: orNone(draft.correlation),
        labels: like && draft.labels === draftOf(like).labels ? like.labels : labelsOf(draft.labels),
        retry: attempts === undefined ? like?.retry : { ...like?.retry, max_attempts: attempts },
        in_doubt: like?.in_doubt ?? undefined,
        capabilities: like?.capabilities ?? undefined,
        timeout_ms: like?.timeout_ms ?? undefined,
        plan: Array.isArray(plan) ? { steps: plan } : plan,
    };
}

function SubmitDialog({ like, onClose }: { like?: Job; onClose: () => void }) {
    const [draft, setDraft] = useState(() => draftOf(like));
    const field = (name: keyof Draft) => ({
        value: draft[name],
        onInput: (value: string) => setDraft({ ...draft, [name]: value }),
    });
    const ready =
        draft.kind.trim() !== '' && !jsonProblem(draft.payload) && !jsonProblem(draft.plan);
    async function run(): Promise<void> {
        const job = await pawl.submitJob(bodyOf(draft, like));
        toast(job.duplicate ? 'A job with this key already exists' : `Submitted ${job.kind}`, {
            href: to.job(job.id),
        });
    }
    return (
        <ActionDialog
            title={like ? 'Submit a copy' : 'Submit a job'}
            action="Submit"
            ready={ready}
            run={run}
            onClose={onClose}
            wide
        >
            <div class="fields two-columns">
                <TextField
                    label="Kind"
                    hint="decides which workers claim it"
                    required
                    autofocus
                    placeholder="report"
                    {...field('kind')}
                />
                <TextField label="Queue" placeholder="default" {...field('queue')} />
            </div>
            <JsonField
                label="Payload"
                hint="JSON"
                placeholder={'{"month": "2026-10"}'}
                {...field('payload')}
            />
            <details class="more">
                <summary>More</summary>
                <div class="fields two-columns">
                    <TextField
                        label="Priority"
                        hint="higher first"
                        type="number"
                        placeholder="0"
                        {...field('priority')}
                    />
                    <TextField
                        label="Delay"
                        hint="seconds"
                        type="number"
                        min={0}
                        placeholder="0"
                        {...field('delay_s')}
                    />
                    <TextField
                        label="Max attempts"
                        type="number"
                        min={1}
                        {...field('attempts')}
                    />
                    <TextField label="Idempotency key" hint="a repeated key returns the same job" {...field('key')} />
                    <TextField
                        label="Labels"
                        placeholder="team:blue, tier:gold"
                        {...field('labels')}
                    />
                    <TextField label="Correlation" {...field('correlation')} />
                    <TextField label="Agent" {...field('agent')} />
                    <TextField label="Goal" {...field('goal')} />
                </div>
                <JsonField
                    label="Plan"
                    hint="steps as JSON"
                    placeholder={
                        '[{"id": "fetch", "kind": "http"}, {"id": "sum", "kind": "math", "deps": ["fetch"]}]'
                    }
                    {...field('plan')}
                />
            </details>
        </ActionDialog>
    );
}

export function SubmitHost() {
    const open = asked.value;
    if (!open) return null;
    return <SubmitDialog like={open.like} onClose={() => (asked.value = null)} />;
}
