// One thing done to many jobs: those selected, or all of a filter.

import { useState } from 'preact/hooks';
import * as pawl from '../api/pawl';
import { count, plural } from '../format';
import { ActionDialog } from '../ui/dialog';
import { CheckField, TextField } from '../ui/field';
import type { Filters } from './jobs';
import { all, each, tell, useCount } from './many';

export type BulkAction = 'cancel' | 'requeue';

interface Props {
    action: BulkAction;
    ids: string[] | null;
    filters: Filters;
    onClose: () => void;
}

export function BulkDialog({ action, ids, filters, onClose }: Props) {
    const filter = Object.fromEntries(Object.entries(filters).filter(([, value]) => value));
    const [reason, setReason] = useState('');
    const [hard, setHard] = useState(false);
    const [fresh, setFresh] = useState(false);
    const [rate, setRate] = useState('');
    const [typed, setTyped] = useState('');
    const [done, setDone] = useState(0);
    const { n, problem } = useCount(ids, pawl.bulk, { action, filter });
    const cancels = action === 'cancel';
    const why = reason || undefined;
    // What was selected was seen; of all that match, most were not.
    const wantsWord = cancels && ids === null && n !== 1;

    async function run(signal: AbortSignal): Promise<void> {
        const mode = hard ? 'hard' : 'soft';
        const how = cancels ? { mode } : { fresh };
        const running = { signal, onDone: setDone };
        const sum = ids
            ? await each(
                  ids,
                  (id, late) =>
                      cancels
                          ? pawl.cancelJob(id, mode, why, late)
                          : pawl.requeueJob(id, fresh, why, late),
                  running,
              )
            : await all(pawl.bulk, { action, filter, ...how, reason: why }, Number(rate), running);
        tell(cancels ? 'Cancelled' : 'Requeued', sum, signal.aborted);
    }

    const what = n === null ? 'the jobs that match' : plural(n, 'job');
    return (
        <ActionDialog
            title={`${cancels ? 'Cancel' : 'Requeue'} ${what}?`}
            action={`${cancels ? 'Cancel' : 'Requeue'} ${what}`}
            danger={cancels}
            ready={Boolean(n) && (!wantsWord || typed === 'cancel')}
            trouble={problem}
            progress={`${count(done)} done`}
            run={run}
            onClose={onClose}
        >
            <p>
                {ids === null &&
                    (Object.keys(filter).length
                        ? 'All that pass the filters of the list now. '
                        : 'No filter is set: this is every job there is. ')}
                {cancels
                    ? 'Those that no worker has end at once; workers are asked to stop. A cancelled job cannot be run again.'
                    : 'Failed jobs and dead letters get another life, and retrying ones go now. Others are left as they are.'}
            </p>
            <TextField
                label="Reason"
                hint="for the history"
                value={reason}
                onInput={setReason}
                autofocus
            />
            {ids === null && (
                <TextField
                    label="At most so many a second"
                    type="number"
                    min={1}
                    placeholder="as fast as it goes"
                    value={rate}
                    onInput={setRate}
                />
            )}
            {cancels ? (
                <CheckField
                    label="Hard"
                    hint="Take them away from their workers now"
                    checked={hard}
                    onInput={setHard}
                />
            ) : (
                <CheckField
                    label="Fresh"
                    hint="Forget recorded effects, so that they are done again"
                    checked={fresh}
                    onInput={setFresh}
                />
            )}
            {wantsWord && (
                <TextField label="Type cancel to go on" value={typed} onInput={setTyped} />
            )}
        </ActionDialog>
    );
}
