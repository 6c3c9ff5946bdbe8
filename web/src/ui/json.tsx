// JSON as text with colours. It is built from text nodes only: what is in it is never markup.

import { useState } from 'preact/hooks';
import { pretty } from '../format';
import { Button } from './button';
import { copyText } from './copy';

const LINES_MAX = 200;
const token = /("(?:\\.|[^"\\])*")(\s*:)?|\b(true|false|null)\b|(-?\d[\d.eE+-]*)/g;

function coloured(text: string): preact.ComponentChildren[] {
    const parts: preact.ComponentChildren[] = [];
    let end = 0;
    for (const match of text.matchAll(token)) {
        const [all, string, colon, word] = match;
        parts.push(text.slice(end, match.index));
        const kind = string ? (colon ? 'key' : 'string') : word ? 'word' : 'number';
        parts.push(<span class={`json-${kind}`}>{string ?? all}</span>, colon ?? '');
        end = match.index + all.length;
    }
    parts.push(text.slice(end));
    return parts;
}

export function JsonView({ value, label }: { value: unknown; label: string }) {
    const [all, setAll] = useState(false);
    if (value === null || value === undefined) return <p class="nothing">None</p>;
    const text = pretty(value);
    const lines = text.split('\n');
    const cut = !all && lines.length > LINES_MAX;
    const shown = cut ? lines.slice(0, LINES_MAX).join('\n') : text;
    return (
        <div class="json">
            <div class="json-tools">
                <Button
                    small
                    kind="quiet"
                    icon="copy"
                    label={`Copy ${label}`}
                    onClick={() => copyText(text, label)}
                />
            </div>
            <pre tabIndex={0} aria-label={label}>
                {shown.length > 200_000 ? shown : coloured(shown)}
            </pre>
            {cut && (
                <Button small kind="quiet" onClick={() => setAll(true)}>
                    Show all {lines.length} lines
                </Button>
            )}
        </div>
    );
}
