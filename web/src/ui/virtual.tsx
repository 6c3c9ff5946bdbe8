// Long tables: only the rows in sight are in the page.

import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';

const OVERSCAN = 8;

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

export function VirtualTable({ count, rowHeight, columns, head, label, render, onEnd, onScroll, toTop = 0 }: Props) {
    const box = useRef<HTMLDivElement>(null);
    const [view, setView] = useState({ top: 0, height: 800 });

    useLayoutEffect(() => {
        const element = box.current!;
        const measure = () => setView({ top: element.scrollTop, height: element.clientHeight });
        const sizes = new ResizeObserver(measure);
        sizes.observe(element);
        measure();
        return () => sizes.disconnect();
    }, []);

    useEffect(() => {
        if (box.current) box.current.scrollTop = 0;
    }, [toTop]);

    const first = Math.max(0, Math.floor(view.top / rowHeight) - OVERSCAN);
    const last = Math.min(count, Math.ceil((view.top + view.height) / rowHeight) + OVERSCAN);
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
                const element = box.current!;
                setView({ top: element.scrollTop, height: element.clientHeight });
                onScroll?.(element.scrollTop);
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
                            <td colSpan={columns} style={{ height: `${(count - last) * rowHeight}px` }} />
                        </tr>
                    )}
                </tbody>
            </table>
        </div>
    );
}
