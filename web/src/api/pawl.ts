// Every call that the pages make, one function each.

import { ask, may } from './client';
import type {
    Counts,
    DeadGroups,
    DeadLetter,
    Explained,
    Job,
    JobPage,
    Json,
    PawlEvent,
    PlanDiff,
    Question,
    Queue,
    Resource,
    Stats,
    Steps,
    Verified,
    Worker,
} from './types';

const job = (id: string) => `/v1/jobs/${encodeURIComponent(id)}`;
const step = (id: string, name: string) => `${job(id)}/steps/${encodeURIComponent(name)}`;
const post = <T>(path: string, body: unknown = {}, signal?: AbortSignal) =>
    ask<T>(path, { method: 'POST', body, signal });

/** Which jobs: the same members as parameters of the list and as the filter of a bulk action. */
export interface JobFilter {
    status?: string;
    kind?: string;
    queue?: string;
    agent_id?: string;
    correlation_id?: string;
    label?: string;
    created_after?: string;
    search?: string;
}

export interface Paging {
    limit?: number;
    cursor?: string | null;
}

export interface DeadFilter {
    kind?: string;
    queue?: string;
    reason_code?: DeadLetter['reason_code'];
    group?: string;
}

export const listJobs = (filter: JobFilter, paging: Paging = {}, signal?: AbortSignal) =>
    ask<JobPage>('/v1/jobs', { query: { ...filter, ...paging }, signal });
export const getJob = (id: string) => ask<Job>(job(id), { exact: true });
export const submitJob = (body: Record<string, Json>) =>
    post<Job & { duplicate?: boolean }>('/v1/jobs', body);
export const jobEvents = (id: string, after: number, limit: number) =>
    ask<{ events: PawlEvent[] }>(`${job(id)}/events`, { query: { after, limit }, exact: true });
export const heartbeats = (id: string) =>
    ask<{ events: PawlEvent[] }>(`${job(id)}/events`, { query: { telemetry: true, limit: 1000 } });
export const verifyJob = (id: string) => ask<Verified>(`${job(id)}/verify`);
/** Where a job can be had with all of its history, as a file. */
export const exportAddress = (id: string) => `${job(id)}/export`;
export const explainJob = (id: string) => ask<Explained>(`${job(id)}/explain`);

export const cancelJob = (
    id: string,
    mode: 'soft' | 'hard',
    reason?: string,
    signal?: AbortSignal,
) => post<Job>(`${job(id)}/cancel`, { mode, reason }, signal);
export const requeueJob = (id: string, fresh: boolean, reason?: string, signal?: AbortSignal) =>
    post<Job>(`${job(id)}/requeue`, { fresh, reason }, signal);
/** Now, and not when it is due. */
export const runJob = (id: string) => post<Job>(`${job(id)}/run`);
export const signalJob = (
    id: string,
    correlation_key: string,
    payload: Json,
    more: { early?: boolean; signal_id?: string } = {},
) => post<{ signal: string }>(`${job(id)}/signal`, { correlation_key, payload, ...more });
export const deadLetterJob = (id: string, reason_code: string, message?: string) =>
    post<Job>(`${job(id)}/dead-letter`, { reason_code, message });
export const redactJob = (id: string) => post<Job>(`${job(id)}/redact`);
export const bulk = (body: Record<string, Json>, signal?: AbortSignal) =>
    post<Counts>('/v1/jobs/bulk', body, signal);

export const planSteps = (id: string) => ask<Steps>(`${job(id)}/steps`, { exact: true });
export const planDiff = (id: string) => ask<PlanDiff>(`${job(id)}/plan/diff`, { exact: true });
export const addPlan = (id: string, steps: Json, reason?: string) =>
    post<Job>(`${job(id)}/plan`, { steps, reason });
export const judgeStep = (id: string, name: string, body: Record<string, Json>) =>
    post<Job>(`${step(id, name)}/verdict`, body);
/** What a person says. With `attempt` only to the question that this attempt has asked. */
export interface Answer {
    answer: Json;
    by?: string;
    comment?: string;
    result?: Json;
    attempt?: number;
    correlation_key?: string;
}

export const answerStep = (id: string, name: string, body: Answer) =>
    post<Job>(`${step(id, name)}/answer`, body);
export const answerJob = (id: string, body: Answer) => post<Job>(`${job(id)}/answer`, body);

export const inbox = (cursor?: string | null) =>
    ask<{ questions: Question[]; next_cursor: string | null }>('/v1/inbox', {
        query: { cursor },
        exact: true,
    });
export const deadLetters = (filter: DeadFilter, paging: Paging = {}) =>
    ask<JobPage>('/v1/dead-letters', { query: { ...filter, ...paging } });
export const deadGroups = () => ask<DeadGroups>('/v1/dead-letters/groups');
export const redrive = (body: Record<string, Json>, signal?: AbortSignal) =>
    post<Counts>('/v1/dead-letters/redrive', body, signal);
export const drop = (body: Record<string, Json>, signal?: AbortSignal) =>
    post<Counts>('/v1/dead-letters/drop', body, signal);

export const queues = () => ask<{ queues: Queue[] }>('/v1/queues');
export const switchQueue = (queue: string, paused: boolean) =>
    post<{ paused: boolean }>(
        `/v1/queues/${encodeURIComponent(queue)}/${paused ? 'pause' : 'resume'}`,
    );
export const resources = () => ask<{ resources: Resource[] }>('/v1/resources');
export const putResource = (id: string, body: Record<string, Json>) =>
    ask<Resource>(`/v1/resources/${encodeURIComponent(id)}`, { method: 'PUT', body });
export const forgetResource = (id: string) =>
    ask<Resource>(`/v1/resources/${encodeURIComponent(id)}`, { method: 'DELETE' });
/** Only admins may see workers: for others there are none. */
export const workers = () =>
    may('admin')
        ? ask<{ workers: Worker[] }>('/v1/workers')
        : Promise.resolve({ workers: [] as Worker[] });
export const stats = () => ask<Stats>('/v1/stats');
