// A stream of server-sent events, read with fetch.
//
// The events of a stream are named by their types, and EventSource hears named events only by name.
// Anybody may append events of types that this page has never heard of, so the frames are read here.

export interface StreamHandlers {
    opened(): void;
    received(id: string, data: string): void;
    /** What was read may not exist any more; the next stream goes on from the cursor. */
    reset?(cursor: string): void;
    lost(): void;
}

function takeFrame(frame: string, handlers: StreamHandlers): void {
    let id = '';
    let name = '';
    const data: string[] = [];
    for (const line of frame.split('\n'))
        if (line.startsWith('id: ')) id = line.slice(4);
        else if (line.startsWith('event: ')) name = line.slice(7);
        else if (line.startsWith('data: ')) data.push(line.slice(6));
    if (data.length === 0) return;
    if (name === 'feed_reset' && isReset(data.join('\n'))) handlers.reset?.(id);
    else handlers.received(id, data.join('\n'));
}

/* An event of a job may have any type, also this one; a problem has a status. */
function isReset(data: string): boolean {
    return (JSON.parse(data) as { status?: number }).status === 410;
}

/** Takes whole frames from the front of the text; returns what is left. */
function takeFrames(text: string, handlers: StreamHandlers): string {
    const frames = text.split('\n\n');
    const rest = frames.pop() ?? '';
    for (const frame of frames) takeFrame(frame, handlers);
    return rest;
}

async function read(url: string, signal: AbortSignal, handlers: StreamHandlers): Promise<void> {
    const headers = { Accept: 'text/event-stream' };
    const response = await fetch(url, { headers, cache: 'no-store', signal });
    if (response.status === 410) handlers.reset?.(((await response.json()) as { cursor: string }).cursor);
    if (!response.ok || !response.body) throw new Error(`the stream answered ${response.status}`);
    handlers.opened();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = '';
    for (let part = await reader.read(); !part.done; part = await reader.read())
        if (!signal.aborted) rest = takeFrames(rest + part.value, handlers);
}

/** Opens the stream; returns what closes it. A stream that was closed is not lost. */
export function openStream(url: string, handlers: StreamHandlers): () => void {
    const abort = new AbortController();
    const ended = () => {
        if (!abort.signal.aborted) handlers.lost();
    };
    read(url, abort.signal, handlers).then(ended, ended);
    return () => abort.abort();
}
