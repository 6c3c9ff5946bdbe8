// Plan graph: scrolled and zoomed, and only what is in sight is in the page.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { Step } from '../api/types';
import { duration } from '../format';
import { StateMark, stepLook } from '../ui/badge';
import { Button } from '../ui/button';
import { type Layout, layoutPlan, NODE_H, NODE_W } from './plan-layout';

const ZOOM_MIN = 0.2;
const ZOOM_MAX = 1.5;
/* What is drawn changes when the view has moved by so much, not with every pixel. */
const SIGHT_STEP = 160;
const SIGHT_MARGIN = 2 * SIGHT_STEP;

interface View {
    left: number;
    top: number;
    width: number;
    height: number;
}

interface Props {
    steps: Step[];
    critical: string[];
    selected: string | null;
    onSelect: (id: string) => void;
}

/* The first look: all of it if that can be read, else its beginning. */
function firstZoom(layout: Layout, width: number, height: number): number {
    const fit = Math.min(width / layout.width, height / layout.height);
    return Math.max(0.75, Math.min(1, fit));
}

function useZoom(box: { current: HTMLDivElement | null }, layout: Layout) {
    const [zoom, setZoom] = useState(1);
    const [view, setView] = useState<View>({ left: 0, top: 0, width: 1200, height: 700 });
    const measure = () => {
        const b = box.current;
        if (!b) return;
        const step = (n: number) => Math.round(n / SIGHT_STEP) * SIGHT_STEP;
        const next = {
            left: step(b.scrollLeft),
            top: step(b.scrollTop),
            width: b.clientWidth,
            height: b.clientHeight,
        };
        setView((old) =>
            old.left === next.left &&
            old.top === next.top &&
            old.width === next.width &&
            old.height === next.height
                ? old
                : next,
        );
    };
    useLayoutEffect(() => {
        const b = box.current!;
        setZoom(firstZoom(layout, b.clientWidth, b.clientHeight));
        const sizes = new ResizeObserver(measure);
        sizes.observe(b);
        measure();
        return () => sizes.disconnect();
    }, [layout]);

    /* Keeps what is in the middle there. */
    function zoomTo(next: number): void {
        const b = box.current!;
        const to = Math.max(ZOOM_MIN, Math.min(ZOOM_MAX, next));
        const x = (b.scrollLeft + b.clientWidth / 2) / zoom;
        const y = (b.scrollTop + b.clientHeight / 2) / zoom;
        setZoom(to);
        requestAnimationFrame(() => {
            b.scrollLeft = x * to - b.clientWidth / 2;
            b.scrollTop = y * to - b.clientHeight / 2;
            measure();
        });
    }
    const fit = () => {
        const b = box.current!;
        zoomTo(Math.min(b.clientWidth / layout.width, b.clientHeight / layout.height));
    };
    return { zoom, view, measure, zoomTo, fit };
}

/* Dragging moves the graph, as a finger does by itself. */
function usePanning(box: { current: HTMLDivElement | null }): void {
    useEffect(() => {
        const b = box.current!;
        let from: { x: number; y: number; left: number; top: number } | null = null;
        const down = (event: PointerEvent) => {
            if (
                event.pointerType === 'mouse' &&
                event.button === 0 &&
                !(event.target as HTMLElement).closest('button')
            )
                from = { x: event.clientX, y: event.clientY, left: b.scrollLeft, top: b.scrollTop };
        };
        const move = (event: PointerEvent) => {
            if (!from) return;
            b.scrollLeft = from.left - (event.clientX - from.x);
            b.scrollTop = from.top - (event.clientY - from.y);
        };
        const up = () => {
            from = null;
        };
        b.addEventListener('pointerdown', down);
        window.addEventListener('pointermove', move);
        window.addEventListener('pointerup', up);
        return () => {
            b.removeEventListener('pointerdown', down);
            window.removeEventListener('pointermove', move);
            window.removeEventListener('pointerup', up);
        };
    }, []);
}

function Node({
    step,
    x,
    y,
    critical,
    selected,
    onSelect,
}: {
    step: Step;
    x: number;
    y: number;
    critical: boolean;
    selected: boolean;
    onSelect: () => void;
}) {
    const look = stepLook(step.state);
    const took = step.duration_ms === null ? '' : duration(step.duration_ms);
    const notes = [step.kind ?? step.wait?.type, took, step.held ? 'needs review' : '']
        .filter(Boolean)
        .join(' · ');
    return (
        <button
            type="button"
            data-row
            data-step={step.id}
            data-state={step.state}
            class={`node tone-${look.tone}${critical ? ' critical' : ''}${selected ? ' selected' : ''}`}
            style={{ transform: `translate(${x - NODE_W / 2}px, ${y - NODE_H / 2}px)` }}
            aria-pressed={selected}
            title={`${step.id}: ${look.means}`}
            onClick={onSelect}
        >
            <StateMark look={look} />
            <span class="offscreen">
                {look.label}
                {critical ? ', on the critical path' : ''}
            </span>
            <span class="node-text">
                <b>{step.id}</b>
                <span>{notes || look.label}</span>
            </span>
        </button>
    );
}

export function PlanGraph({ steps, critical, selected, onSelect }: Props) {
    const shape = steps.map((step) => `${step.id}<${(step.deps ?? []).join(',')}`).join(';');
    const layout = useMemo(() => layoutPlan(steps), [shape]);
    const byId = useMemo(() => new Map(steps.map((step) => [step.id, step])), [steps]);
    const path = useMemo(() => new Map(critical.map((id, i) => [id, i])), [critical]);
    const box = useRef<HTMLDivElement>(null);
    const { zoom, view, measure, zoomTo, fit } = useZoom(box, layout);
    usePanning(box);

    const sight = {
        left: view.left / zoom - SIGHT_MARGIN,
        right: (view.left + view.width) / zoom + SIGHT_MARGIN,
        top: view.top / zoom - SIGHT_MARGIN,
        bottom: (view.top + view.height) / zoom + SIGHT_MARGIN,
    };
    const nodes = layout.nodes.filter(
        (n) =>
            n.x + NODE_W / 2 > sight.left &&
            n.x - NODE_W / 2 < sight.right &&
            n.y + NODE_H > sight.top &&
            n.y - NODE_H < sight.bottom,
    );
    const edges = layout.edges.filter(
        (e) =>
            e.right > sight.left &&
            e.left < sight.right &&
            e.bottom > sight.top &&
            e.top < sight.bottom,
    );
    return (
        <div class="graph">
            <div
                class="graph-box"
                ref={box}
                tabIndex={0}
                role="group"
                aria-label="Plan graph"
                onScroll={measure}
                onWheel={(event) => {
                    if (!event.ctrlKey && !event.metaKey) return;
                    event.preventDefault();
                    zoomTo(zoom * (event.deltaY > 0 ? 0.9 : 1.1));
                }}
            >
                <div
                    class="graph-size"
                    style={{
                        width: `${layout.width * zoom}px`,
                        height: `${layout.height * zoom}px`,
                    }}
                >
                    <div
                        class="graph-drawing"
                        style={{
                            transform: `scale(${zoom})`,
                            width: `${layout.width}px`,
                            height: `${layout.height}px`,
                        }}
                    >
                        <svg width={layout.width} height={layout.height} aria-hidden="true">
                            {edges.map((e) => {
                                const on = path.get(e.to) === (path.get(e.from) ?? -2) + 1;
                                const done = byId.get(e.from)?.state === 'succeeded';
                                return (
                                    <path
                                        key={`${e.from}>${e.to}`}
                                        d={e.path}
                                        class={`edge${done ? ' done' : ''}${on ? ' critical' : ''}`}
                                    />
                                );
                            })}
                        </svg>
                        {nodes.map((n) => {
                            const step = byId.get(n.id);
                            return (
                                step && (
                                    <Node
                                        key={n.id}
                                        step={step}
                                        x={n.x}
                                        y={n.y}
                                        critical={path.has(n.id)}
                                        selected={selected === n.id}
                                        onSelect={() => onSelect(n.id)}
                                    />
                                )
                            );
                        })}
                    </div>
                </div>
            </div>
            <div class="graph-tools">
                <Button small icon="minus" label="Zoom out" onClick={() => zoomTo(zoom * 0.8)} />
                <Button small icon="plus" label="Zoom in" onClick={() => zoomTo(zoom * 1.25)} />
                <Button small icon="fit" label="Zoom to fit" onClick={fit} />
            </div>
        </div>
    );
}
