// Lines over time, drawn by uPlot in the colours of the theme.

import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import { colour, repaint } from '../theme';

export interface Line {
    label: string;
    token: string;
    fill?: boolean;
    /** The scale goes at least so far. */
    least?: number;
    format: (value: number) => string;
}

interface Props {
    label: string;
    lines: Line[];
    /** Seconds, then one column for each line. */
    data: (number | null)[][];
    height?: number;
}

function axisTime(_plot: uPlot, splits: number[]): string[] {
    return splits.map((s) =>
        new Date(s * 1000).toLocaleTimeString('sv-SE').slice(0, 5 + 3 * Number(s % 60 !== 0)),
    );
}

function alpha(rgb: string, part: number): string {
    return rgb.startsWith('rgb(') ? rgb.replace('rgb(', 'rgba(').replace(')', `, ${part})`) : rgb;
}

function options(lines: Line[], width: number, height: number): uPlot.Options {
    const grid = { stroke: colour('--line'), width: 1 };
    const text = colour('--text-3');
    const font = '11px Inter, system-ui, sans-serif';
    const format = lines[0]!.format;
    return {
        width,
        height,
        legend: { show: false },
        cursor: { points: { size: 6 }, drag: { setScale: false, x: false, y: false } },
        padding: [8, 24, 0, 0],
        scales: {
            y: { range: (_u, _min, max) => [0, Math.max(lines[0]!.least ?? 1, max * 1.15)] },
        },
        axes: [
            {
                stroke: text,
                font,
                grid: { show: false },
                ticks: { show: false },
                size: 24,
                values: axisTime,
                space: 90,
            },
            {
                stroke: text,
                font,
                grid,
                ticks: { show: false },
                size: 48,
                values: (_u, splits) => splits.map(format),
                space: 36,
            },
        ],
        series: [
            {},
            ...lines.map((line): uPlot.Series => {
                const stroke = colour(line.token);
                return {
                    label: line.label,
                    stroke,
                    width: 1.5,
                    fill: line.fill ? alpha(stroke, 0.12) : undefined,
                    points: { show: false },
                    spanGaps: true,
                };
            }),
        ],
    };
}

export function Chart({ label, lines, data, height = 180 }: Props) {
    const box = useRef<HTMLDivElement>(null);
    const hover = useRef<HTMLDivElement>(null);
    const plot = useRef<uPlot | null>(null);
    const painted = repaint.value;

    useEffect(() => {
        const element = box.current!;
        const made = new uPlot(
            options(lines, Math.max(120, element.clientWidth), height),
            data as uPlot.AlignedData,
            element,
        );
        plot.current = made;
        made.over.addEventListener('mousemove', () => {
            const at = made.cursor.idx;
            if (at == null || !hover.current) return;
            const time = new Date(made.data[0][at]! * 1000).toLocaleTimeString('sv-SE');
            const said = lines.map(
                (line, i) =>
                    `${line.label} ${made.data[i + 1]?.[at] == null ? '–' : line.format(made.data[i + 1]![at]!)}`,
            );
            hover.current.textContent = `${time}  ${said.join('  ')}`;
        });
        made.over.addEventListener('mouseleave', () => {
            if (hover.current) hover.current.textContent = '';
        });
        const sizes = new ResizeObserver(() =>
            made.setSize({ width: Math.max(120, element.clientWidth), height }),
        );
        sizes.observe(element);
        return () => {
            sizes.disconnect();
            made.destroy();
            plot.current = null;
        };
    }, [painted, height]);

    useEffect(() => {
        plot.current?.setData(data as uPlot.AlignedData);
    }, [data]);

    const last = lines.map((line, i) => {
        const value = data[i + 1]?.at(-1);
        return `${line.label} ${value == null ? 'none' : line.format(value)}`;
    });
    return (
        <div class="chart">
            <div class="chart-legend">
                {lines.map((line) => (
                    <span key={line.label}>
                        <i style={{ background: `var(${line.token})` }} />
                        {line.label}
                    </span>
                ))}
                <div class="chart-hover" ref={hover} />
            </div>
            <div
                ref={box}
                class="chart-box"
                role="img"
                aria-label={`${label}. Now: ${last.join(', ')}`}
            />
        </div>
    );
}
