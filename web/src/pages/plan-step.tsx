// One step: where it stands, what went in, what came out, and what to do about it.

import { useState } from 'preact/hooks';
import { may } from '../api/client';
import * as pawl from '../api/pawl';
import type { Step, StepState } from '../api/types';
import { duration, sentence, words } from '../format';
import { to } from '../route';
import { stepStates } from '../states';
import { StepBadge } from '../ui/badge';
import { Button } from '../ui/button';
import { ActionDialog } from '../ui/dialog';
import { Field, TextField } from '../ui/field';
import { JsonView } from '../ui/json';
import { Panel } from '../ui/page';
import { Ago } from '../ui/time';
import { toast } from '../ui/toast';
import { AnswerAs, AnswerForm, mayAnswer } from './answer';
import { eventLook } from './event-words';

const decisions: [name: string, label: string, means: string][] = [
    ['accept', 'Accept', 'The step succeeds'],
    ['retry', 'Retry', 'Up to its maximum number of attempts'],
    ['switch_resource', 'Switch resource', 'Retry on another resource'],
    ['replan', 'Replan', 'The step fails and the job waits for a new plan'],
    ['needs_user', 'Ask a person', 'The step runs again with the answer'],
];

function VerdictDialog({
    id,
    step,
    onClose,
    onDone,
}: {
    id: string;
    step: Step;
    onClose: () => void;
    onDone: () => void;
}) {
    const [decision, setDecision] = useState('accept');
    const [reason, setReason] = useState('');
    const [prompt, setPrompt] = useState('');
    async function run(): Promise<void> {
        const question = decision === 'needs_user' ? { prompt } : undefined;
        await pawl.judgeStep(id, step.id, { decision, reason: reason || undefined, question });
        toast('Verdict recorded');
        onDone();
    }
    return (
        <ActionDialog
            title={`Judge ${step.id}`}
            action="Submit verdict"
            danger={decision === 'replan'}
            ready={decision !== 'needs_user' || prompt !== ''}
            run={run}
            onClose={onClose}
        >
            {step.held && <JsonView value={step.result} label="the result to judge" />}
            <Field label="Verdict">
                {(field) => (
                    <div class="choices" id={field} role="radiogroup" aria-label="Verdict">
                        {decisions.map(([name, label, means]) => (
                            <label key={name}>
                                <input
                                    type="radio"
                                    name="decision"
                                    value={name}
                                    checked={decision === name}
                                    onInput={() => setDecision(name)}
                                />
                                <span>
                                    {label}
                                    <span class="hint">{means}</span>
                                </span>
                            </label>
                        ))}
                    </div>
                )}
            </Field>
            {decision === 'needs_user' && (
                <TextField label="Question" value={prompt} onInput={setPrompt} required />
            )}
            <TextField label="Reason" hint="recorded in the history" value={reason} onInput={setReason} />
        </ActionDialog>
    );
}

/* Where a move leads to; other events are named as they are. */
function moveWords(type: string): string {
    const state = type.replace(/^step_/, '');
    return stepStates[state as StepState]?.label ?? sentence(words(state));
}

function History({ step }: { step: Step }) {
    return (
        <ol class="step-history">
            {step.history.map((move) => (
                <li key={move.version}>
                    <span class={`dot tone-${eventLook(move.type)}`} />
                    <span>
                        {moveWords(move.type)}
                        {move.worker_id && (
                            <span class="faint">
                                {' '}
                                {move.worker_id}
                                {move.resource_id && ` on ${move.resource_id}`}
                            </span>
                        )}
                        {move.verdict && <span class="chip">{words(move.verdict)}</span>}
                        {move.by && <span class="faint"> by {move.by}</span>}
                        {(move.error?.message ?? move.reason) && (
                            <span class="faint">
                                {' '}
                                {move.error?.message ?? words(move.reason ?? '')}
                            </span>
                        )}
                    </span>
                    <span class="faint num">
                        <Ago at={move.at} />
                    </span>
                </li>
            ))}
        </ol>
    );
}

function Inputs({ id, step, all }: { id: string; step: Step; all: Map<string, Step> }) {
    if (!step.deps?.length) return null;
    return (
        <>
            <h3>Inputs</h3>
            {step.deps.map((dep) => {
                const source = all.get(dep);
                return (
                    <details key={dep} class="input">
                        <summary>
                            {dep} {source && <StepBadge state={source.state} />}
                        </summary>
                        <a href={to.plan(id, dep)}>Open this step</a>
                        <JsonView value={source?.result} label={`the result of ${dep}`} />
                    </details>
                );
            })}
        </>
    );
}

export function StepPanel({
    id,
    step,
    all,
    onClose,
    onDone,
}: {
    id: string;
    step: Step;
    all: Map<string, Step>;
    onClose: () => void;
    onDone: () => void;
}) {
    const [judging, setJudging] = useState(false);
    const judgeable = step.held || step.state === 'running';
    const asked = step.question && {
        id,
        step: step.id,
        attempt: step.attempt,
        prompt: step.question.prompt,
        choices: step.question.choices,
        correlation_key: step.question.correlation_key,
        effect: step.question.effect,
    };
    return (
        <Panel
            title={step.id}
            aside={
                <>
                    {judgeable && may('admin') && (
                        <Button small icon="verify" onClick={() => setJudging(true)}>
                            Judge
                        </Button>
                    )}
                    <Button
                        small
                        kind="quiet"
                        icon="close"
                        label="Close the step"
                        onClick={onClose}
                    />
                </>
            }
        >
            <div class="step-state">
                <StepBadge state={step.state} />
                {step.held && <span class="chip wait">Result held for review</span>}
                {step.duration_ms !== null && (
                    <span class="faint">{duration(step.duration_ms)}</span>
                )}
            </div>
            {asked && step.state === 'needs_user' && (
                <div class="step-question">
                    <p class="prompt">{asked.prompt ?? 'Continue?'}</p>
                    <AnswerForm asked={asked} onDone={onDone} />
                    {mayAnswer() && <AnswerAs />}
                </div>
            )}
            {step.error && step.state !== 'succeeded' && (
                <p class="error-message">{step.error.message ?? 'no message'}</p>
            )}
            <dl class="facts">
                <div>
                    <dt>Kind</dt>
                    <dd>
                        {step.kind ??
                            (step.wait ? `waits for a ${words(step.wait.type ?? '')}` : 'any')}
                    </dd>
                </div>
                <div>
                    <dt>Attempt</dt>
                    <dd>
                        {step.attempt} ({step.failures} of {step.retry.max_attempts} failed)
                    </dd>
                </div>
                {step.lease && (
                    <div>
                        <dt>Worker</dt>
                        <dd class="mono">
                            {step.lease.worker_id}
                            {step.lease.resource_id && ` on ${step.lease.resource_id}`}
                        </dd>
                    </div>
                )}
                {step.lease && (
                    <div>
                        <dt>Lease expires</dt>
                        <dd>
                            <Ago at={step.lease.expires_at} />
                        </dd>
                    </div>
                )}
                {step.not_before && (
                    <div>
                        <dt>Not before</dt>
                        <dd>
                            <Ago at={step.not_before} />
                        </dd>
                    </div>
                )}
                {step.capabilities && (
                    <div>
                        <dt>Capabilities</dt>
                        <dd>{step.capabilities.join(', ')}</dd>
                    </div>
                )}
                {step.selector && (
                    <div>
                        <dt>Selector</dt>
                        <dd>
                            <code>{step.selector}</code>
                        </dd>
                    </div>
                )}
                {step.avoid && step.avoid.length > 0 && (
                    <div>
                        <dt>Excluded resources</dt>
                        <dd>{step.avoid.join(', ')}</dd>
                    </div>
                )}
                {step.answered_by && (
                    <div>
                        <dt>Answered by</dt>
                        <dd>{step.answered_by}</dd>
                    </div>
                )}
                {step.verdict && (
                    <div>
                        <dt>Verdict</dt>
                        <dd>{words(step.verdict)}</dd>
                    </div>
                )}
            </dl>
            <h3>History</h3>
            <History step={step} />
            <Inputs id={id} step={step} all={all} />
            {step.payload != null && (
                <>
                    <h3>Payload</h3>
                    <JsonView value={step.payload} label="the payload of the step" />
                </>
            )}
            {step.result != null && (
                <>
                    <h3>Result</h3>
                    <JsonView value={step.result} label="the result of the step" />
                </>
            )}
            {step.answer != null && (
                <>
                    <h3>Answer</h3>
                    <JsonView value={step.answer} label="the answer" />
                </>
            )}
            {judging && (
                <VerdictDialog
                    id={id}
                    step={step}
                    onClose={() => setJudging(false)}
                    onDone={onDone}
                />
            )}
        </Panel>
    );
}
