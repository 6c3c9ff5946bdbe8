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

    const what = n === null ? 'matching jobs' : plural(n, 'job');
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
                        ? 'All jobs that match the current filters. '
                        : 'No filter is set: this affects every job. ')}
                {cancels
                    ? 'Jobs without a worker end immediately; workers are asked to stop. A cancelled job cannot be run again.'
                    : 'Failed jobs and dead letters are queued again; retrying jobs run now. Other jobs do not change.'}
            </p>
            <TextField
                label="Reason"
                hint="recorded in the history"
                value={reason}
                onInput={setReason}
                autofocus
            />
            {ids === null && (
                <TextField
                    label="Limit per second"
                    type="number"
                    min={1}
                    placeholder="unlimited"
                    value={rate}
                    onInput={setRate}
                />
            )}
            {cancels ? (
                <CheckField
                    label="Hard"
                    hint="Revoke their leases now; later reports from the workers are rejected"
                    checked={hard}
                    onInput={setHard}
                />
            ) : (
                <CheckField
                    label="Fresh"
                    hint="Discard recorded effects, so that they run again"
                    checked={fresh}
                    onInput={setFresh}
                />
            )}
            {wantsWord && (
                <TextField label="Type cancel to confirm" value={typed} onInput={setTyped} />
            )}
        </ActionDialog>
    );
}
