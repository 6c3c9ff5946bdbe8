// What can be done to a job, with a question before what hurts.

import { signal } from '@preact/signals';
import { useEffect, useState } from 'preact/hooks';
import * as pawl from '../api/pawl';
import { may } from '../api/client';
import type { Job, JobAction, Scope } from '../api/types';
import { go, to } from '../route';
import { deadReasons, jobStates } from '../states';
import { Button } from '../ui/button';
import { ActionDialog } from '../ui/dialog';
import { CheckField, JsonField, jsonProblem, readJson, SelectField, TextField } from '../ui/field';
import type { IconName } from '../ui/icon';
import { Menu, type MenuItem } from '../ui/menu';
import { toast } from '../ui/toast';
import { openSubmit } from './submit';

type Action = Exclude<JobAction, 'answer' | 'run' | 'resume'>;

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
        toast(hard || !job.lease ? 'Cancelled' : 'Worker asked to stop');
        onDone();
    }
    return (
        <ActionDialog
            title="Cancel this job?"
            action={hard ? 'Cancel now' : 'Cancel job'}
            danger
            run={run}
            onClose={onClose}
        >
            <p>
                {job.lease
                    ? 'The worker is asked to stop at its next heartbeat.'
                    : 'No worker holds it, so it ends immediately.'}{' '}
                A cancelled job cannot be run again.
            </p>
            <TextField
                label="Reason"
                hint="recorded in the history"
                value={reason}
                onInput={setReason}
                autofocus
            />
            <CheckField
                label="Hard"
                hint="Revoke the lease now; later reports from the worker are rejected"
                checked={hard}
                onInput={setHard}
            />
        </ActionDialog>
    );
}

/* What is done to a dead letter has a name of its own. */
const againWord = (job: Job): string => (job.dead_letter ? 'Redrive' : 'Requeue');

function RequeueDialog({ job, onClose, onDone }: DialogProps) {
    const [fresh, setFresh] = useState(false);
    const [reason, setReason] = useState('');
    async function run(): Promise<void> {
        await pawl.requeueJob(job.id, fresh, reason || undefined);
        toast(job.dead_letter ? 'Redriven' : 'Requeued');
        onDone();
    }
    return (
        <ActionDialog
            title={
                job.status === 'retrying'
                    ? 'Retry now?'
                    : job.dead_letter
                      ? 'Redrive this dead letter?'
                      : 'Requeue this job?'
            }
            action={againWord(job)}
            run={run}
            onClose={onClose}
        >
            <p>
                {job.status === 'retrying'
                    ? 'The backoff ends and the next attempt can start now.'
                    : 'The job is queued again and its failure count is reset.'}
            </p>
            <TextField
                label="Reason"
                hint="recorded in the history"
                value={reason}
                onInput={setReason}
                autofocus
            />
            <CheckField
                label="Fresh"
                hint="Discard recorded effects, so that they run again"
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
                ? 'Stored until the job waits for it'
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
                    ? `The job waits for ${job.wait.correlation_key}.`
                    : 'The job is not waiting for a signal.'}
            </p>
            <TextField
                label="Key"
                hint="correlation key"
                value={key}
                onInput={setKey}
                required
                autofocus
            />
            <JsonField
                label="Payload"
                hint="JSON"
                rows={3}
                value={payload}
                onInput={setPayload}
            />
            <TextField
                label="Signal id"
                hint="a repeated id is delivered once"
                value={once}
                onInput={setOnce}
            />
            <CheckField
                label="Early"
                hint="Store it even if the job waits for another key"
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
        toast('Moved to dead letters');
        onDone();
    }
    return (
        <ActionDialog
            title="Dead-letter this job?"
            action="Dead-letter job"
            danger
            run={run}
            onClose={onClose}
        >
            <p>
                No worker gets the job any more; it is kept for a person to review and can be redriven later.
            </p>
            <SelectField
                label="Reason code"
                value={code}
                onInput={setCode}
                options={Object.entries(deadReasons).map(([name, label]) => [
                    name,
                    label,
                ])}
            />
            <TextField label="Message" value={message} onInput={setMessage} autofocus />
        </ActionDialog>
    );
}

function DropDialog({ job, onClose }: DialogProps) {
    async function run(): Promise<void> {
        await pawl.drop({ id: job.id });
        toast('Dropped');
        go(to.dead());
    }
    return (
        <ActionDialog
            title="Drop this dead letter?"
            action="Drop dead letter"
            danger
            run={run}
            onClose={onClose}
        >
            <p>The job and its history are deleted permanently. This cannot be undone.</p>
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
            title="Erase the data of this job?"
            action="Erase permanently"
            danger
            ready={typed === 'erase'}
            run={run}
            onClose={onClose}
        >
            <p>
                Payloads, results, errors, prompts, answers, labels and goals are erased permanently, and the job cannot be run again. Its history of states and times is kept and can still be verified. Backups and exports are not affected.
            </p>
            <TextField label="Type erase to confirm" value={typed} onInput={setTyped} autofocus />
        </ActionDialog>
    );
}

function PlanDialog({ job, onClose, onDone }: DialogProps) {
    const [steps, setSteps] = useState('');
    const [reason, setReason] = useState('');
    async function run(): Promise<void> {
        const read = readJson(steps) as { steps?: unknown };
        await pawl.addPlan(job.id, Array.isArray(read) ? read : read.steps, reason || undefined);
        toast('Plan accepted', { href: to.plan(job.id) });
        onDone();
    }
    return (
        <ActionDialog
            title={job.plan ? 'Replace the plan' : 'Add a plan'}
            action="Submit plan"
            ready={steps.trim() !== '' && !jsonProblem(steps)}
            run={run}
            onClose={onClose}
            wide
        >
            <p>
                Steps that have succeeded keep their results, matched by id, and do not run again.
            </p>
            <JsonField
                label="Steps"
                hint="JSON"
                rows={10}
                value={steps}
                onInput={setSteps}
                placeholder={'[{"id": "fetch", "kind": "http"}]'}
            />
            <TextField label="Reason" hint="recorded in the history" value={reason} onInput={setReason} />
        </ActionDialog>
    );
}

const dialogs: Record<Action, (props: DialogProps) => preact.JSX.Element> = {
    cancel: CancelDialog,
    requeue: RequeueDialog,
    signal: SignalDialog,
    dead_letter: DeadLetterDialog,
    drop: DropDialog,
    redact: RedactDialog,
    plan: PlanDialog,
};

function download(job: Job): void {
    const link = document.createElement('a');
    link.href = pawl.exportAddress(job.id);
    link.download = `${job.id}.json`;
    link.click();
}

/* What a token must be good for, to say why something is not offered. */
const needs: Record<JobAction, Scope> = {
    answer: 'answer',
    signal: 'submit',
    run: 'admin',
    requeue: 'admin',
    resume: 'admin',
    plan: 'submit',
    cancel: 'submit',
    dead_letter: 'admin',
    drop: 'admin',
    redact: 'admin',
};

async function runNow(job: Job, onDone: () => void): Promise<void> {
    try {
        await pawl.runJob(job.id);
        toast('Scheduled to run now');
        onDone();
    } catch (error) {
        toast((error as Error).message, { bad: true });
    }
}

async function resumeQueue(job: Job, onDone: () => void): Promise<void> {
    try {
        await pawl.switchQueue(job.queue, false);
        toast(`Queue ${job.queue} resumed`);
        onDone();
    } catch (error) {
        toast((error as Error).message, { bad: true });
    }
}

function items(job: Job, actions: JobAction[], onDone: () => void): MenuItem[] {
    const not = (action: JobAction): string | undefined =>
        actions.includes(action)
            ? undefined
            : !may(needs[action])
              ? `Your token lacks the scope ${needs[action]}`
              : job.redacted
                ? 'The job was erased'
                : `Not available while ${jobStates[job.status].label.toLowerCase()}`;
    const item = (action: Action, label: string, icon: IconName, danger = false): MenuItem => ({
        label,
        icon,
        danger,
        not: not(action),
        run: () => openAction(action),
    });
    return [
        { label: 'Run now', icon: 'play', not: not('run'), run: () => void runNow(job, onDone) },
        item('requeue', `${againWord(job)}…`, 'loop'),
        item('signal', 'Send a signal…', 'signal'),
        item('plan', job.plan ? 'New plan…' : 'Add a plan…', 'plan'),
        {
            label: 'Submit a copy…',
            icon: 'copy',
            not: job.redacted ? 'The job was erased' : undefined,
            run: () => openSubmit(job),
        },
        { label: 'Export', icon: 'arrowDown', run: () => download(job) },
        item('dead_letter', 'Dead-letter…', 'dead', true),
        item('cancel', 'Cancel…', 'stop', true),
        item('redact', 'Erase…', 'erase', true),
    ];
}

/* What is about to be done: by the buttons here, or from elsewhere on the page. */
const asked = signal<Action | null>(null);

/* Opens the form for an action on the job that is shown; nothing is done before it is confirmed. */
function openAction(action: Action): void {
    asked.value = action;
}

interface Props {
    job: Job;
    /** What the server says that can be done now; absent until it has said so. */
    actions: JobAction[] | undefined;
    onDone: () => void;
}

/** What moves the job next, a button each; what cannot be taken back asks first. */
export function NextActions({ job, actions = [], onDone }: Props) {
    const form = (action: Action, label: string, shown = true) =>
        shown &&
        actions.includes(action) && (
            <Button small onClick={() => openAction(action)}>
                {label}
            </Button>
        );
    if (actions.length === 0) return null;
    return (
        <div class="next-actions" role="group" aria-label="Next actions">
            {actions.includes('run') && (
                <Button small icon="play" onClick={() => void runNow(job, onDone)}>
                    Run now
                </Button>
            )}
            {actions.includes('resume') && (
                <Button small icon="play" onClick={() => void resumeQueue(job, onDone)}>
                    Resume queue {job.queue}
                </Button>
            )}
            {form('requeue', `${againWord(job)}…`, job.status !== 'retrying')}
            {form('signal', 'Send a signal…', Boolean(job.wait?.correlation_key) && job.wait?.type !== 'human')}
            {form('cancel', 'Cancel…')}
            {form('dead_letter', 'Dead-letter…')}
            {form('drop', 'Drop…')}
        </div>
    );
}

export function JobActions({ job, actions = [], onDone, onPlan }: Props & { onPlan?: boolean }) {
    useEffect(
        () => () => {
            asked.value = null;
        },
        [job.id],
    );
    const Open = asked.value ? dialogs[asked.value] : null;
    return (
        <>
            {job.plan && !onPlan && (
                <Button icon="plan" onClick={() => go(to.plan(job.id))}>
                    Plan
                </Button>
            )}
            {actions.includes('run') && (
                <Button icon="play" onClick={() => void runNow(job, onDone)}>
                    Run now
                </Button>
            )}
            {actions.includes('requeue') && job.status !== 'retrying' && (
                <Button icon="loop" onClick={() => openAction('requeue')}>
                    {againWord(job)}
                </Button>
            )}
            {actions.includes('cancel') && (
                <Button icon="stop" onClick={() => openAction('cancel')}>
                    Cancel
                </Button>
            )}
            <Menu label="Actions" items={items(job, actions, onDone)} />
            {Open && (
                <Open
                    job={job}
                    onClose={() => {
                        asked.value = null;
                    }}
                    onDone={onDone}
                />
            )}
        </>
    );
}
