// What can be done to a job, with a question before what hurts.

import { signal } from '@preact/signals';
import { useEffect, useState } from 'preact/hooks';
import * as pawl from '../api/pawl';
import type { Job } from '../api/types';
import { sentence, words } from '../format';
import { go, to } from '../route';
import { deadReasons, ended } from '../states';
import { Button } from '../ui/button';
import { ActionDialog } from '../ui/dialog';
import { CheckField, JsonField, jsonProblem, readJson, SelectField, TextField } from '../ui/field';
import { Menu, type MenuItem } from '../ui/menu';
import { toast } from '../ui/toast';
import { openSubmit } from './submit';

export type Action = 'cancel' | 'requeue' | 'signal' | 'dead-letter' | 'redact' | 'plan';

interface DialogProps {
    job: Job;
    onClose: () => void;
    onDone: () => void;
}

function CancelDialog({ job, onClose, onDone }: DialogProps) {
    const [hard, setHard] = useState(job.cancel_requested);
    const [reason, setReason] = useState('');
    async function run(): Promise<void> {
        await pawl.cancelJob(job.id, hard ? 'hard' : 'soft', reason || undefined);
        toast(hard || !job.lease ? 'Cancelled' : 'The worker is asked to stop');
        onDone();
    }
    return (
        <ActionDialog
            title="Cancel this job?"
            action={hard ? 'Cancel it now' : 'Cancel it'}
            danger
            run={run}
            onClose={onClose}
        >
            <p>
                {job.lease
                    ? 'Its worker is asked to stop with its next heartbeat.'
                    : 'No worker has it: it ends at once.'}{' '}
                A cancelled job cannot be run again.
            </p>
            <TextField
                label="Reason"
                hint="for the history"
                value={reason}
                onInput={setReason}
                autofocus
            />
            <CheckField
                label="Hard"
                hint="Take it away from its worker now; what the worker still reports is refused"
                checked={hard}
                onInput={setHard}
            />
        </ActionDialog>
    );
}

function RequeueDialog({ job, onClose, onDone }: DialogProps) {
    const [fresh, setFresh] = useState(false);
    const [reason, setReason] = useState('');
    async function run(): Promise<void> {
        await pawl.requeueJob(job.id, fresh, reason || undefined);
        toast('Queued again');
        onDone();
    }
    return (
        <ActionDialog
            title={job.status === 'retrying' ? 'Try it now?' : 'Run it again?'}
            action="Requeue"
            run={run}
            onClose={onClose}
        >
            <p>
                {job.status === 'retrying'
                    ? 'The pause before the next attempt ends now.'
                    : 'It gets another life, with its failures counted from zero.'}
            </p>
            <TextField
                label="Reason"
                hint="for the history"
                value={reason}
                onInput={setReason}
                autofocus
            />
            <CheckField
                label="Fresh"
                hint="Forget recorded effects, so that they are done again"
                checked={fresh}
                onInput={setFresh}
            />
        </ActionDialog>
    );
}

function SignalDialog({ job, onClose, onDone }: DialogProps) {
    const [key, setKey] = useState(job.wait?.correlation_key ?? '');
    const [payload, setPayload] = useState('');
    const [early, setEarly] = useState(false);
    const [once, setOnce] = useState('');
    async function run(): Promise<void> {
        const answer = await pawl.signalJob(job.id, key, readJson(payload), {
            early,
            signal_id: once || undefined,
        });
        toast(
            answer.signal === 'stored'
                ? 'Kept until the job waits for it'
                : `Signal ${answer.signal}`,
        );
        onDone();
    }
    return (
        <ActionDialog
            title="Send a signal"
            action="Send"
            ready={key !== '' && !jsonProblem(payload)}
            run={run}
            onClose={onClose}
        >
            <p>
                {job.wait?.correlation_key
                    ? `It waits for ${job.wait.correlation_key}.`
                    : 'It does not wait for a signal now.'}
            </p>
            <TextField
                label="Key"
                hint="what it waits for"
                value={key}
                onInput={setKey}
                required
                autofocus
            />
            <JsonField
                label="Payload"
                hint="JSON, for the job"
                rows={3}
                value={payload}
                onInput={setPayload}
            />
            <TextField
                label="Signal id"
                hint="with the same id it counts once"
                value={once}
                onInput={setOnce}
            />
            <CheckField
                label="Early"
                hint="Keep it also when the job waits for another key"
                checked={early}
                onInput={setEarly}
            />
        </ActionDialog>
    );
}

function DeadLetterDialog({ job, onClose, onDone }: DialogProps) {
    const [code, setCode] = useState('policy_violation');
    const [message, setMessage] = useState('');
    async function run(): Promise<void> {
        await pawl.deadLetterJob(job.id, code, message || undefined);
        toast('Put aside as a dead letter');
        onDone();
    }
    return (
        <ActionDialog
            title="Put it aside?"
            action="Dead-letter it"
            danger
            run={run}
            onClose={onClose}
        >
            <p>
                It is taken out for a person to look at, and no worker gets it. It can be redriven
                later.
            </p>
            <SelectField
                label="Why"
                value={code}
                onInput={setCode}
                options={Object.entries(deadReasons).map(([name, label]) => [
                    name,
                    `${label} (${words(name)})`,
                ])}
            />
            <TextField label="Message" value={message} onInput={setMessage} autofocus />
        </ActionDialog>
    );
}

function RedactDialog({ job, onClose, onDone }: DialogProps) {
    const [typed, setTyped] = useState('');
    async function run(): Promise<void> {
        await pawl.redactJob(job.id);
        toast('Erased');
        onDone();
    }
    return (
        <ActionDialog
            title="Erase what is in it?"
            action="Erase for good"
            danger
            ready={typed === 'erase'}
            run={run}
            onClose={onClose}
        >
            <p>
                Payloads, results, errors, prompts, answers, labels and goals are erased for good,
                and it cannot be run again. What happened and when stays, and can still be verified.
                Backups and exports are not reached.
            </p>
            <TextField label="Type erase to go on" value={typed} onInput={setTyped} autofocus />
        </ActionDialog>
    );
}

function PlanDialog({ job, onClose, onDone }: DialogProps) {
    const [steps, setSteps] = useState('');
    const [reason, setReason] = useState('');
    async function run(): Promise<void> {
        const read = readJson(steps) as { steps?: unknown };
        await pawl.addPlan(job.id, Array.isArray(read) ? read : read.steps, reason || undefined);
        toast('The plan is taken', { href: to.plan(job.id) });
        onDone();
    }
    return (
        <ActionDialog
            title={job.plan ? 'Give it a new plan' : 'Give it a plan'}
            action="Take this plan"
            ready={steps.trim() !== '' && !jsonProblem(steps)}
            run={run}
            onClose={onClose}
            wide
        >
            <p>
                Steps that have succeeded keep their results, by their ids, and are not done again.
            </p>
            <JsonField
                label="Steps"
                hint="JSON"
                rows={10}
                value={steps}
                onInput={setSteps}
                placeholder={'[{"id": "fetch", "kind": "http"}]'}
            />
            <TextField label="Reason" hint="for the history" value={reason} onInput={setReason} />
        </ActionDialog>
    );
}

const dialogs: Record<Action, (props: DialogProps) => preact.JSX.Element> = {
    cancel: CancelDialog,
    requeue: RequeueDialog,
    signal: SignalDialog,
    'dead-letter': DeadLetterDialog,
    redact: RedactDialog,
    plan: PlanDialog,
};

const requeueable = new Set(['failed', 'dead_lettered', 'retrying']);

function download(job: Job): void {
    const link = document.createElement('a');
    link.href = pawl.exportAddress(job.id);
    link.download = `${job.id}.json`;
    link.click();
}

function items(job: Job, open: (action: Action) => void): MenuItem[] {
    const over = ended.has(job.status);
    const blocked = job.status === 'waiting' || job.status === 'parked';
    const state = sentence(words(job.status));
    return [
        {
            label: 'Requeue…',
            icon: 'loop',
            not: job.redacted
                ? 'It was erased'
                : requeueable.has(job.status)
                  ? undefined
                  : `${state}: only failed, dead and retrying jobs`,
            run: () => open('requeue'),
        },
        {
            label: 'Send a signal…',
            icon: 'signal',
            not: over ? 'It has ended' : undefined,
            run: () => open('signal'),
        },
        {
            label: job.plan ? 'New plan…' : 'Add a plan…',
            icon: 'plan',
            not: over ? 'It has ended' : undefined,
            run: () => open('plan'),
        },
        {
            label: 'Submit one like it…',
            icon: 'copy',
            not: job.redacted ? 'It was erased' : undefined,
            run: () => openSubmit(job),
        },
        { label: 'Export', icon: 'arrowDown', run: () => download(job) },
        {
            label: 'Dead-letter…',
            icon: 'dead',
            danger: true,
            not: over || blocked ? `${state}: it cannot be put aside` : undefined,
            run: () => open('dead-letter'),
        },
        {
            label: 'Cancel…',
            icon: 'stop',
            danger: true,
            not: over ? 'It has ended' : undefined,
            run: () => open('cancel'),
        },
        {
            label: 'Erase…',
            icon: 'erase',
            danger: true,
            not: job.redacted ? 'It was erased' : over ? undefined : 'Only jobs that have ended',
            run: () => open('redact'),
        },
    ];
}

/* What is about to be done: by the buttons here, or from elsewhere on the page. */
const asked = signal<Action | null>(null);

/** Opens the form for an action on the job that is shown; nothing is done before it is confirmed. */
export function openAction(action: Action): void {
    asked.value = action;
}

export function JobActions({
    job,
    onDone,
    onPlan = false,
}: {
    job: Job;
    onDone: () => void;
    onPlan?: boolean;
}) {
    const action = asked.value;
    const setAction = (next: Action | null): void => {
        asked.value = next;
    };
    useEffect(() => () => setAction(null), [job.id]);
    const Open = action ? dialogs[action] : null;
    return (
        <>
            {job.plan && !onPlan && (
                <Button icon="plan" onClick={() => go(to.plan(job.id))}>
                    Plan
                </Button>
            )}
            {requeueable.has(job.status) && !job.redacted && (
                <Button icon="loop" onClick={() => setAction('requeue')}>
                    {job.status === 'retrying' ? 'Retry now' : 'Requeue'}
                </Button>
            )}
            {!ended.has(job.status) && (
                <Button icon="stop" onClick={() => setAction('cancel')}>
                    Cancel
                </Button>
            )}
            <Menu label="Actions" items={items(job, setAction)} />
            {Open && <Open job={job} onClose={() => setAction(null)} onDone={onDone} />}
        </>
    );
}
