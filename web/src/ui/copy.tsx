// Taking something along in the clipboard.

import { shortId } from '../format';
import { Icon } from './icon';
import { toast } from './toast';

/* Without https the clipboard is closed to pages; a selection can still be copied. */
function copyBySelection(text: string): void {
    const area = document.createElement('textarea');
    area.value = text;
    area.className = 'offscreen';
    document.body.append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
}

export async function copyText(text: string, what: string): Promise<void> {
    try {
        await navigator.clipboard.writeText(text);
    } catch {
        copyBySelection(text);
    }
    toast(`Copied ${what}`);
}

export function CopyId({ id, whole = false }: { id: string; whole?: boolean }) {
    return (
        <button
            type="button"
            class="copy mono"
            title={`Copy ${id}`}
            aria-label={`Copy id ${id}`}
            onClick={() => copyText(id, 'the id')}
        >
            {whole ? id : shortId(id)}
            <Icon name="copy" size={13} />
        </button>
    );
}
