// Dialogs: the browser's own, which keep the focus and close with Escape.

import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { Button } from './button';
import { toast } from './toast';

interface DialogProps {
    title: string;
    onClose: () => void;
    children: ComponentChildren;
    wide?: boolean;
}

export function Dialog({ title, onClose, children, wide }: DialogProps) {
    const ref = useRef<HTMLDialogElement>(null);
    // Before anybody can press a key.
    useLayoutEffect(() => {
        const dialog = ref.current;
        if (dialog && !dialog.open) dialog.showModal();
    }, []);
    return (
        <dialog
            ref={ref}
            class={wide ? 'wide' : undefined}
            aria-labelledby="dialog-title"
            onClose={onClose}
            onClick={(event) => {
                if (event.target === ref.current) ref.current?.close();
            }}
        >
            <div class="dialog-body">
                <header>
                    <h2 id="dialog-title">{title}</h2>
                    <Button
                        kind="quiet"
                        icon="close"
                        label="Close"
                        onClick={() => ref.current?.close()}
                    />
                </header>
                {children}
            </div>
        </dialog>
    );
}

interface AskProps {
    title: string;
    /** What will happen, in words. */
    children?: ComponentChildren;
    action: string;
    danger?: boolean;
    wide?: boolean;
    ready?: boolean;
    /** Why it cannot be done, known before it was tried. */
    trouble?: string | null;
    /** How far a long run has come. Such a run minds the signal, and can be stopped. */
    progress?: string;
    run: (signal: AbortSignal) => Promise<void>;
    onClose: () => void;
}

/** A form that does one thing: closes when it is done, and says why when it is not. */
export function ActionDialog({
    title,
    children,
    action,
    danger,
    wide,
    ready = true,
    trouble,
    progress,
    run,
    onClose,
}: AskProps) {
    const [busy, setBusy] = useState(false);
    const [stopping, setStopping] = useState(false);
    const [problem, setProblem] = useState<string | null>(null);
    const running = useRef<AbortController | null>(null);
    const gone = useRef(false);
    // Nothing goes on behind a dialog that was left, and what ends later closes no other dialog.
    useEffect(
        () => () => {
            gone.current = true;
            running.current?.abort();
        },
        [],
    );
    function stop(): void {
        setStopping(true);
        running.current?.abort();
    }
    async function submit(event: Event): Promise<void> {
        event.preventDefault();
        running.current = new AbortController();
        setBusy(true);
        setProblem(null);
        try {
            await run(running.current.signal);
            if (!gone.current) onClose();
        } catch (error) {
            const { message } = error as Error;
            if (gone.current) toast(message, { bad: true });
            setProblem(message);
            setBusy(false);
            setStopping(false);
        }
    }
    const stoppable = busy && progress !== undefined;
    const wrong = problem ?? trouble;
    return (
        <Dialog title={title} onClose={onClose} wide={wide}>
            <form onSubmit={submit}>
                <div class="dialog-content">{children}</div>
                {(stoppable || problem) && progress && <p role="status">{progress}</p>}
                {wrong && (
                    <p class="problem" role="alert">
                        {wrong}
                    </p>
                )}
                <footer>
                    {stoppable ? (
                        <Button onClick={stop} disabled={stopping}>
                            Stop
                        </Button>
                    ) : (
                        <Button onClick={onClose}>Never mind</Button>
                    )}
                    <Button
                        type="submit"
                        kind={danger ? 'danger' : 'primary'}
                        busy={busy}
                        disabled={!ready}
                    >
                        {action}
                    </Button>
                </footer>
            </form>
        </Dialog>
    );
}
