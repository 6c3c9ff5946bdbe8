// Redriving or dropping dead letters: those selected, or a whole group, with what it would do first.

import { useEffect, useState } from 'preact/hooks';
import * as pawl from '../api/pawl';
import type { Counts } from '../api/types';
import { count, plural } from '../format';
import { ActionDialog } from '../ui/dialog';
import { CheckField, TextField } from '../ui/field';
import { toast } from '../ui/toast';
import { each } from './bulk';

export type DeadAction = 'redrive' | 'drop';

interface Props {
    action: DeadAction;
    /** null: the whole group. */
    ids: string[] | null;
    group: pawl.DeadFilter;
    expected: number;
    onClose: () => void;
}

async function all(
    action: DeadAction,
    body: Record<string, unknown>,
): Promise<{ done: number; refused: number; why: string }> {
    const sum = { done: 0, refused: 0, why: '' };
    let cursor: string | null = null;
    do {
        const counts: Counts = await pawl[action]({ ...body, cursor: cursor ?? undefined });
        sum.done += counts.done;
        sum.refused += counts.refused;
        cursor = counts.next_cursor;
    } while (cursor);
    return sum;
}

export function DeadDialog({ action, ids, group, expected, onClose }: Props) {
    const [matched, setMatched] = useState<number | null>(ids ? ids.length : null);
    const [reason, setReason] = useState('');
    const [fresh, setFresh] = useState(false);
    const [rate, setRate] = useState('');
    const [typed, setTyped] = useState('');
    useEffect(() => {
        if (!ids)
            pawl[action]({ ...group, dry_run: true }).then(
                (counts) => setMatched(counts.matched),
                () => setMatched(expected),
            );
    }, []);
    const drops = action === 'drop';
    const what = matched === null ? 'them' : plural(matched, 'dead letter');
    const sure = !drops || matched === 1 || typed === 'drop';

    async function run(): Promise<void> {
        const how = { reason: reason || undefined, ...(drops ? {} : { fresh }) };
        const sum = ids
            ? await each(ids, (id) => pawl[action]({ id, ...how }))
            : await all(action, { ...group, ...how, rate_per_s: Number(rate) || undefined });
        const refused = sum.refused
            ? `, ${count(sum.refused)} refused${sum.why ? `: ${sum.why}` : ''}`
            : '';
        toast(`${drops ? 'Dropped' : 'Redriven'}: ${count(sum.done)}${refused}`, {
            bad: sum.done === 0,
        });
    }

    return (
        <ActionDialog
            title={`${drops ? 'Drop' : 'Redrive'} ${what}?`}
            action={`${drops ? 'Drop' : 'Redrive'} ${what}`}
            danger={drops}
            ready={sure && matched !== 0}
            run={run}
            onClose={onClose}
        >
            <p>
                {drops
                    ? 'They are deleted for good, history and all. Nothing brings them back.'
                    : 'They are queued again, with their failures counted from zero. Effects that were recorded are not done again.'}
            </p>
            <TextField
                label="Reason"
                hint={drops ? 'for the log' : 'for the history'}
                value={reason}
                onInput={setReason}
                autofocus
            />
            {!drops && (
                <CheckField
                    label="Fresh"
                    hint="Forget recorded effects, so that they are done again"
                    checked={fresh}
                    onInput={setFresh}
                />
            )}
            {!ids && (
                <TextField
                    label="At most so many a second"
                    type="number"
                    min={1}
                    placeholder="as fast as it goes"
                    value={rate}
                    onInput={setRate}
                />
            )}
            {drops && matched !== 1 && (
                <TextField label="Type drop to go on" value={typed} onInput={setTyped} />
            )}
        </ActionDialog>
    );
}
