// Redriving or dropping dead letters: those selected, or a whole group, with what it would do first.

import { useState } from 'preact/hooks';
import * as pawl from '../api/pawl';
import type { DeadGroup } from '../api/types';
import { brief, count, plural, words } from '../format';
import { deadReasons } from '../states';
import { ActionDialog } from '../ui/dialog';
import { CheckField, TextField } from '../ui/field';
import { all, each, tell, useCount } from './many';

export const reasonWords = (code: string): string => deadReasons[code] ?? words(code);

/** What the errors of a group have in common. */
export const errorWords = (g: DeadGroup): string =>
    brief(g.type ?? g.message ?? g.last_error?.message ?? 'no message');

export type DeadAction = 'redrive' | 'drop';

interface Props {
    action: DeadAction;
    /** null: all that pass the filter. */
    ids: string[] | null;
    filter: pawl.DeadFilter;
    /** What the filter stands for, when it is a group. */
    group?: DeadGroup;
    onClose: () => void;
}

export function DeadDialog({ action, ids, filter, group, onClose }: Props) {
    const [reason, setReason] = useState('');
    const [fresh, setFresh] = useState(false);
    const [rate, setRate] = useState('');
    const [typed, setTyped] = useState('');
    const [done, setDone] = useState(0);
    const { n, problem } = useCount(ids, pawl[action], { ...filter });
    const drops = action === 'drop';
    const what = n === null ? 'them' : plural(n, 'dead letter');
    const wantsWord = drops && n !== 1;

    async function run(signal: AbortSignal): Promise<void> {
        const how = { reason: reason || undefined, ...(drops ? {} : { fresh }) };
        const running = { signal, onDone: setDone };
        const sum = ids
            ? await each(ids, (id, late) => pawl[action]({ id, ...how }, late), running)
            : await all(pawl[action], { ...filter, ...how }, Number(rate), running);
        tell(drops ? 'Dropped' : 'Redriven', sum, signal.aborted);
    }

    return (
        <ActionDialog
            title={`${drops ? 'Drop' : 'Redrive'} ${what}?`}
            action={`${drops ? 'Drop' : 'Redrive'} ${what}`}
            danger={drops}
            ready={Boolean(n) && (!wantsWord || typed === 'drop')}
            trouble={problem}
            progress={`${count(done)} done`}
            run={run}
            onClose={onClose}
        >
            {!ids && group && (
                <p class="acted-on">
                    <b>{group.kind}</b> {reasonWords(group.reason_code)}
                    <code>{errorWords(group)}</code>
                </p>
            )}
            <p>
                {drops
                    ? 'They are deleted permanently, with their history. This cannot be undone.'
                    : 'They are queued again and their failure counts are reset. Recorded effects do not run again.'}
            </p>
            <TextField
                label="Reason"
                hint={drops ? 'recorded in the log' : 'recorded in the history'}
                value={reason}
                onInput={setReason}
                autofocus
            />
            {!drops && (
                <CheckField
                    label="Fresh"
                    hint="Discard recorded effects, so that they run again"
                    checked={fresh}
                    onInput={setFresh}
                />
            )}
            {!ids && (
                <TextField
                    label="Limit per second"
                    type="number"
                    min={1}
                    placeholder="unlimited"
                    value={rate}
                    onInput={setRate}
                />
            )}
            {wantsWord && (
                <TextField label="Type drop to confirm" value={typed} onInput={setTyped} />
            )}
        </ActionDialog>
    );
}
