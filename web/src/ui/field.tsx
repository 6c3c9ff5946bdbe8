// Labelled inputs.

import type { ComponentChildren } from 'preact';
import { useId } from 'preact/hooks';
import { parseExact } from '../api/client';

interface FieldProps {
    label: string;
    hint?: string;
    problem?: string | null;
    children: (id: string) => ComponentChildren;
}

export function Field({ label, hint, problem, children }: FieldProps) {
    const id = useId();
    return (
        <div class="field">
            <label for={id}>
                {label}
                {hint && <span class="hint">{hint}</span>}
            </label>
            {children(id)}
            {problem && <p class="field-problem">{problem}</p>}
        </div>
    );
}

interface TextProps {
    label: string;
    hint?: string;
    value: string;
    onInput: (value: string) => void;
    placeholder?: string;
    required?: boolean;
    autofocus?: boolean;
    type?: 'text' | 'number' | 'password';
    min?: number;
}

export function TextField({
    label,
    hint,
    value,
    onInput,
    placeholder,
    required,
    autofocus,
    type = 'text',
    min,
}: TextProps) {
    return (
        <Field label={label} hint={hint}>
            {(id) => (
                <input
                    id={id}
                    {...({ type } as { type: 'text' })}
                    min={min}
                    value={value}
                    placeholder={placeholder}
                    required={required}
                    autofocus={autofocus}
                    autocomplete="off"
                    spellcheck={false}
                    onInput={(event) => onInput(event.currentTarget.value)}
                />
            )}
        </Field>
    );
}

interface JsonProps {
    label: string;
    hint?: string;
    value: string;
    onInput: (value: string) => void;
    rows?: number;
    placeholder?: string;
}

/** undefined: nothing was written. Throws for what is no JSON. */
export function readJson(text: string): unknown {
    return text.trim() === '' ? undefined : parseExact(text);
}

export function jsonProblem(text: string): string | null {
    try {
        readJson(text);
        return null;
    } catch (error) {
        return `Invalid JSON: ${(error as Error).message}`;
    }
}

export function JsonField({ label, hint, value, onInput, rows = 5, placeholder }: JsonProps) {
    return (
        <Field label={label} hint={hint} problem={jsonProblem(value)}>
            {(id) => (
                <textarea
                    id={id}
                    class="mono"
                    rows={rows}
                    value={value}
                    placeholder={placeholder}
                    spellcheck={false}
                    onInput={(event) => onInput(event.currentTarget.value)}
                />
            )}
        </Field>
    );
}

interface SelectProps {
    label: string;
    hint?: string;
    value: string;
    options: [value: string, label: string][];
    onInput: (value: string) => void;
}

export function SelectField({ label, hint, value, options, onInput }: SelectProps) {
    return (
        <Field label={label} hint={hint}>
            {(id) => (
                <select
                    id={id}
                    value={value}
                    onInput={(event) => onInput(event.currentTarget.value)}
                >
                    {options.map(([name, text]) => (
                        <option key={name} value={name}>
                            {text}
                        </option>
                    ))}
                </select>
            )}
        </Field>
    );
}

export function CheckField({
    label,
    hint,
    checked,
    onInput,
}: {
    label: string;
    hint?: string;
    checked: boolean;
    onInput: (on: boolean) => void;
}) {
    return (
        <label class="check-field">
            <input
                type="checkbox"
                checked={checked}
                onInput={(event) => onInput(event.currentTarget.checked)}
            />
            <span>
                {label}
                {hint && <span class="hint">{hint}</span>}
            </span>
        </label>
    );
}
