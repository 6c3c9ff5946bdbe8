// Answering a question in place: choices where there are some, else yes or no with words; and for an
// effect in doubt whether it has happened.

import { signal } from '@preact/signals';
import { useState } from 'preact/hooks';
import * as pawl from '../api/pawl';
import { parseExact, session } from '../api/client';
import { brief } from '../format';
import { Button } from '../ui/button';
import { toast } from '../ui/toast';

export interface Asked {
    id: string;
    step: string | null;
    attempt: number;
    prompt: string | null;
    choices: unknown[] | null;
    correlation_key: string | null;
    effect: string | null;
}

const WHO = 'pawl.by';

/* Who answers: told once, for all questions. */
const told = signal(localStorage.getItem(WHO));
const who = (): string => told.value ?? session.value?.name ?? '';

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
function answerOf(text: string): unknown {
    if (text.trim() === '') return undefined;
    try {
        return parseExact(text);
    } catch {
        return text;
    }
}

function send(
    asked: Asked,
    approved: boolean,
    answer: unknown,
    by: string | undefined,
): Promise<unknown> {
    if (asked.step !== null)
        return pawl.answerStep(asked.id, asked.step, asked.attempt, answer ?? { approved }, by);
    const payload = asked.effect ? { decision: answer } : { approved, answer, by };
    return pawl.signalJob(asked.id, asked.correlation_key ?? '', payload);
}

const doubts: [decision: string, label: string, means: string][] = [
    ['done', 'It has happened', 'The effect counts as done and is not done again'],
    ['retry', 'Do it again', 'It has not happened, or may happen twice'],
    ['fail', 'Give up', 'The job fails'],
];

export function AnswerForm({ asked, onDone }: { asked: Asked; onDone: () => void }) {
    const [text, setText] = useState('');
    const [busy, setBusy] = useState(false);
    const [problem, setProblem] = useState<string | null>(null);

    async function answer(approved: boolean, value: unknown): Promise<void> {
        setBusy(true);
        setProblem(null);
        try {
            await send(asked, approved, value, who().trim() || undefined);
            toast('Answered');
            onDone();
        } catch (error) {
            setProblem((error as Error).message);
        }
        setBusy(false);
    }

    const choices = asked.effect ? null : asked.choices;
    return (
        <div class="answer">
            {asked.effect ? (
                <div class="answer-buttons">
                    {doubts.map(([decision, label, means]) => (
                        <Button
                            key={decision}
                            title={means}
                            kind={decision === 'fail' ? 'danger' : 'plain'}
                            busy={busy}
                            onClick={() => answer(decision !== 'fail', decision)}
                        >
                            {label}
                        </Button>
                    ))}
                </div>
            ) : choices ? (
                <div class="answer-buttons">
                    {choices.map((choice, i) => (
                        <Button
                            key={i}
                            kind={i === 0 ? 'primary' : 'plain'}
                            busy={busy}
                            onClick={() => answer(true, choice)}
                        >
                            {brief(choice, 60)}
                        </Button>
                    ))}
                    {asked.step === null && (
                        <Button kind="danger" busy={busy} onClick={() => answer(false, undefined)}>
                            Reject
                        </Button>
                    )}
                </div>
            ) : (
                <div class="answer-buttons">
                    <input
                        aria-label="Answer"
                        placeholder="Answer, if there is more to say than yes or no"
                        value={text}
                        onInput={(event) => setText(event.currentTarget.value)}
                    />
                    <Button
                        kind="primary"
                        icon="check"
                        busy={busy}
                        onClick={() => answer(true, answerOf(text))}
                    >
                        Approve
                    </Button>
                    <Button
                        kind="danger"
                        icon="close"
                        busy={busy}
                        onClick={() => answer(false, answerOf(text))}
                    >
                        Reject
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
