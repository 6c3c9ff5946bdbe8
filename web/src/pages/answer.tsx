// Answering a question in place. With choices each is a button that sends that choice and nothing
// else; without them approve and reject, or an answer in words or JSON; and for an effect in doubt
// whether it has happened, and what it gave back.

import { signal } from '@preact/signals';
import { useState } from 'preact/hooks';
import * as pawl from '../api/pawl';
import { may, parseExact, session } from '../api/client';
import type { Json } from '../api/types';
import { brief } from '../format';
import { Button } from '../ui/button';
import { ActionDialog } from '../ui/dialog';
import { JsonField, jsonProblem, readJson } from '../ui/field';
import { toast } from '../ui/toast';

export interface Asked {
    id: string;
    step: string | null;
    attempt: number;
    prompt: string | null;
    choices: Json[] | null;
    correlation_key: string | null;
    effect: string | null;
}

const WHO = 'pawl.by';

/* Who answers: told once, for all questions. */
const told = signal(localStorage.getItem(WHO));
const who = (): string => told.value ?? session.value?.name ?? '';

/** Whether the token that the page has may answer questions at all. */
export const mayAnswer = (): boolean => may('answer');

export function AnswerAs() {
    return (
        <label class="by">
            Answer as
            <input
                value={who()}
                placeholder="your name"
                onInput={(event) => {
                    told.value = event.currentTarget.value;
                    localStorage.setItem(WHO, told.value);
                }}
            />
        </label>
    );
}

/* The answer as JSON if it is some, else as a text: as the command line reads it. */
function answerOf(text: string): Json {
    try {
        return parseExact(text);
    } catch {
        return text;
    }
}

/* To the question that was shown, and no later one. */
function send(asked: Asked, answer: Json, comment: string, result?: { value: Json }) {
    const body = {
        answer,
        by: who().trim() || undefined,
        comment: comment.trim() || undefined,
        attempt: asked.attempt,
        ...(result ? { result: result.value ?? null } : {}),
    };
    return asked.step !== null
        ? pawl.answerStep(asked.id, asked.step, body)
        : pawl.answerJob(asked.id, {
              ...body,
              correlation_key: asked.correlation_key ?? undefined,
          });
}

type Doubt = 'done' | 'retry' | 'fail';

const doubts: Record<Doubt, { label: string; title: string; action: string; means: string }> = {
    done: {
        label: 'Mark as done…',
        title: 'Mark the effect as done?',
        action: 'Record result',
        means: 'The effect does not run again; the worker receives this result.',
    },
    retry: {
        label: 'Run again…',
        title: 'Run the effect again?',
        action: 'Run effect again',
        means: 'Use this if the effect did not happen, or may safely happen twice.',
    },
    fail: {
        label: 'Fail the job…',
        title: 'Fail the job?',
        action: 'Fail job',
        means: 'The effect stays in doubt and the job fails.',
    },
};

function DoubtDialog({
    asked,
    doubt,
    onClose,
    onDone,
}: {
    asked: Asked;
    doubt: Doubt;
    onClose: () => void;
    onDone: () => void;
}) {
    const [result, setResult] = useState('');
    const [comment, setComment] = useState('');
    const { title, action, means } = doubts[doubt];
    const done = doubt === 'done';
    async function run(): Promise<void> {
        await send(asked, doubt, comment, done ? { value: readJson(result) } : undefined);
        toast('Answered');
        onDone();
    }
    return (
        <ActionDialog
            title={title}
            action={action}
            danger={doubt === 'fail'}
            ready={!done || (result.trim() !== '' && !jsonProblem(result))}
            run={run}
            onClose={onClose}
        >
            <p>
                <code>{asked.effect}</code>: {means}
            </p>
            {done && (
                <JsonField
                    label="Result"
                    hint="required: the result of the effect as JSON; null if it has none"
                    rows={4}
                    value={result}
                    onInput={setResult}
                />
            )}
            <Comment value={comment} onInput={setComment} />
        </ActionDialog>
    );
}

function Comment({ value, onInput }: { value: string; onInput: (value: string) => void }) {
    return (
        <input
            class="comment"
            aria-label="Comment"
            placeholder="Optional comment for the worker and the history"
            value={value}
            onInput={(event) => onInput(event.currentTarget.value)}
        />
    );
}

function InDoubt({ asked, onDone }: { asked: Asked; onDone: () => void }) {
    const [open, setOpen] = useState<Doubt | null>(null);
    return (
        <div class="answer-buttons">
            {(Object.keys(doubts) as Doubt[]).map((doubt) => (
                <Button
                    key={doubt}
                    title={doubts[doubt].means}
                    kind={doubt === 'fail' ? 'danger' : 'plain'}
                    onClick={() => setOpen(doubt)}
                >
                    {doubts[doubt].label}
                </Button>
            ))}
            {open && (
                <DoubtDialog
                    asked={asked}
                    doubt={open}
                    onClose={() => setOpen(null)}
                    onDone={onDone}
                />
            )}
        </div>
    );
}

export function AnswerForm({ asked, onDone }: { asked: Asked; onDone: () => void }) {
    const [text, setText] = useState('');
    const [comment, setComment] = useState('');
    const [busy, setBusy] = useState(false);
    const [problem, setProblem] = useState<string | null>(null);
    if (!mayAnswer())
        return (
            <p class="faint">Your token cannot answer questions: it lacks the scope answer.</p>
        );
    if (asked.effect) return <InDoubt asked={asked} onDone={onDone} />;

    async function answer(value: Json): Promise<void> {
        setBusy(true);
        setProblem(null);
        try {
            await send(asked, value, comment);
            toast('Answered');
            onDone();
        } catch (error) {
            setProblem((error as Error).message);
        }
        setBusy(false);
    }

    const said = text.trim() !== '';
    return (
        <div class="answer">
            <Comment value={comment} onInput={setComment} />
            {asked.choices ? (
                <div class="answer-buttons">
                    {asked.choices.map((choice, i) => (
                        <Button key={i} busy={busy} onClick={() => answer(choice)}>
                            {brief(choice, 60)}
                        </Button>
                    ))}
                </div>
            ) : (
                <div class="answer-buttons">
                    <Button
                        kind="primary"
                        icon="check"
                        busy={busy}
                        disabled={said}
                        onClick={() => answer({ approved: true })}
                    >
                        Approve
                    </Button>
                    <Button
                        kind="danger"
                        icon="close"
                        busy={busy}
                        disabled={said}
                        onClick={() => answer({ approved: false })}
                    >
                        Reject
                    </Button>
                    <span class="faint">or</span>
                    <input
                        aria-label="Answer"
                        placeholder="Another answer: text or JSON"
                        value={text}
                        onInput={(event) => setText(event.currentTarget.value)}
                    />
                    <Button
                        busy={busy}
                        disabled={!said || answerOf(text) === null}
                        onClick={() => answer(answerOf(text))}
                    >
                        Send
                    </Button>
                </div>
            )}
            {problem && (
                <p class="problem" role="alert">
                    {problem}
                </p>
            )}
        </div>
    );
}
