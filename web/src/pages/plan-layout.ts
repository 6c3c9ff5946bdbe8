// Where the steps of a plan are drawn: from left to right, each behind those it depends on.

import {
    coordCenter,
    coordSimplex,
    decrossDfs,
    decrossTwoLayer,
    graph,
    layeringLongestPath,
    sugiyama,
    twolayerAgg,
} from 'd3-dag';
import type { Step } from '../api/types';

export const NODE_W = 188;
export const NODE_H = 48;
const GAP_ACROSS = 16;
const GAP_ALONG = 56;
const MARGIN = 24;
/* The finest layout takes time that grows fast with the plan; large ones get a plainer one. */
const FINE_MAX = 60;
const WOVEN_MAX = 300;

export interface Placed {
    id: string;
    x: number;
    y: number;
}

export interface Edge {
    from: string;
    to: string;
    path: string;
    left: number;
    right: number;
    top: number;
    bottom: number;
}

export interface Layout {
    nodes: Placed[];
    edges: Edge[];
    width: number;
    height: number;
}

type Point = [number, number];

/* Bends between the layers only: past the steps of a layer it goes straight, and so never over one. */
function curve(points: Point[]): string {
    const [first, ...rest] = points;
    let path = `M${first![0]} ${first![1]}`;
    let [x, y] = first!;
    rest.forEach(([nx, ny], i) => {
        const reach = i < rest.length - 1 ? NODE_W / 2 : 0;
        const to = nx - reach;
        const half = (to - x) / 2;
        path += `C${x + half} ${y} ${to - half} ${ny} ${to} ${ny}`;
        if (reach) path += `H${nx + reach}`;
        [x, y] = [nx + reach, ny];
    });
    return path;
}

function edgeOf(from: string, to: string, points: Point[]): Edge {
    const xs = points.map((p) => p[0]);
    const ys = points.map((p) => p[1]);
    return {
        from,
        to,
        path: curve(points),
        left: Math.min(...xs),
        right: Math.max(...xs),
        top: Math.min(...ys),
        bottom: Math.max(...ys),
    };
}

export function layoutPlan(steps: Pick<Step, 'id' | 'deps'>[]): Layout {
    if (steps.length === 0) return { nodes: [], edges: [], width: 0, height: 0 };
    const dag = graph<string, undefined>();
    const nodes = new Map(steps.map((step) => [step.id, dag.node(step.id)]));
    for (const step of steps)
        for (const dep of step.deps ?? []) {
            const source = nodes.get(dep);
            if (source) dag.link(source, nodes.get(step.id)!, undefined);
        }
    const plain = sugiyama()
        .layering(layeringLongestPath())
        .nodeSize([NODE_H, NODE_W] as const)
        .gap([GAP_ACROSS, GAP_ALONG] as const);
    const { width, height } =
        steps.length <= FINE_MAX
            ? plain.decross(decrossTwoLayer()).coord(coordSimplex())(dag)
            : steps.length <= WOVEN_MAX
              ? plain.decross(decrossTwoLayer().order(twolayerAgg())).coord(coordCenter())(dag)
              : plain.decross(decrossDfs()).coord(coordCenter())(dag);

    // d3-dag goes from top to bottom; we read from left to right.
    const placed = [...dag.nodes()].map((node) => ({
        id: node.data,
        x: node.y + MARGIN,
        y: node.x + MARGIN,
    }));
    const edges = [...dag.links()].map((link) => {
        const points = link.points.map(([x, y]): Point => [y + MARGIN, x + MARGIN]);
        points[0]![0] += NODE_W / 2;
        points[points.length - 1]![0] -= NODE_W / 2;
        return edgeOf(link.source.data, link.target.data, points);
    });
    return { nodes: placed, edges, width: height + 2 * MARGIN, height: width + 2 * MARGIN };
}
