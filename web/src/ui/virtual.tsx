// Long tables: only the rows in sight are in the page.

import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';

const OVERSCAN = 8;
/* The window moves by so many rows at a time, not with every pixel. */
const STEP = 4;

interface Props {
    count: number;
    rowHeight: number;
    columns: number;
    head: ComponentChildren;
    label: string;
    render: (index: number) => ComponentChildren;
    /** The end is near: there may be more to load. */
    onEnd?: () => void;
    onScroll?: (top: number) => void;
    /** Grows to go back to the top. */
    toTop?: number;
}

export function VirtualTable({
    count,
    rowHeight,
    columns,
    head,
    label,
    render,
    onEnd,
    onScroll,
    toTop = 0,
}: Props) {
    const box = useRef<HTMLDivElement>(null);
    const [first, setFirst] = useState(0);
    const [height, setHeight] = useState(800);

    useLayoutEffect(() => {
        const element = box.current!;
        const sizes = new ResizeObserver(() => setHeight(element.clientHeight));
        sizes.observe(element);
        setHeight(element.clientHeight);
        return () => sizes.disconnect();
    }, []);

    useEffect(() => {
        if (box.current) box.current.scrollTop = 0;
    }, [toTop]);

    const last = Math.min(count, first + Math.ceil(height / rowHeight) + 2 * OVERSCAN + STEP);
    useEffect(() => {
        if (onEnd && last >= count - OVERSCAN) onEnd();
    }, [last, count]);

    const rows: ComponentChildren[] = [];
    for (let i = first; i < last; i++) rows.push(render(i));
    return (
        <div
            class="scroller"
            ref={box}
            onScroll={() => {
                const top = box.current!.scrollTop;
                setFirst(
                    Math.max(0, Math.floor((Math.floor(top / rowHeight) - OVERSCAN) / STEP) * STEP),
                );
                onScroll?.(top);
            }}
        >
            <table class="table virtual" aria-label={label} aria-rowcount={count + 1}>
                <thead>{head}</thead>
                <tbody>
                    {first > 0 && (
                        <tr class="spacer" aria-hidden="true">
                            <td colSpan={columns} style={{ height: `${first * rowHeight}px` }} />
                        </tr>
                    )}
                    {rows}
                    {last < count && (
                        <tr class="spacer" aria-hidden="true">
                            <td
                                colSpan={columns}
                                style={{ height: `${(count - last) * rowHeight}px` }}
                            />
                        </tr>
                    )}
                </tbody>
            </table>
        </div>
    );
}
