// What the interface answers, as /api/v1/openapi.json describes it.

import { type Range } from "./address";
import { type Unit } from "./units";

export interface Column {
	name: string;
	title: string;
	unit: Unit;
}

export type Value = string | number | boolean | null;

export interface List {
	columns: Column[];
	rows: Value[][];
	total: number;
	sort: string;
}

export interface Heat {
	step_ns: number;
	bands_ns: number[];
	steps: { time: string; p50_ns: number | null; p99_ns: number | null; counts: number[] }[];
}

export interface Activity {
	step_ns: number;
	steps: ({ time: string } & Record<"bytes" | "loss_ratio" | "flows" | "stalls" | "stalled_ns", number | null>)[];
}

export type Point = { time: string } & Record<string, number | string | null>;

export interface Hop {
	ttl: number;
	responder: string | null;
	responder_name: string | null;
	rtt_min_ns: number | null;
	rtt_p50_ns: number | null;
	rtt_p99_ns: number | null;
	queue_ns: number | null;
	probes_sent: number | null;
	probes_lost: number | null;
	silence: string | null;
	marks: string | null;
}

export interface Happened {
	time: string;
	kind: string;
	text: string | null;
}

export interface Flow {
	flow: Record<string, string | number | null>;
	series: Point[];
	step_ns: number;
	hops: Hop[];
	events: Happened[];
}

export interface Share {
	service: string;
	server: string;
	address: string | null;
	part: number | null;
	latency_ns: number | null;
	state: string | null;
	why: string | null;
	last_time: string;
}

export interface Finding {
	cause: string;
	text: string;
	since: string | null;
	confidence: "low" | "medium" | "high";
	amount_ns: number;
	shared_by: { count: number; text: string; evidence: string } | null;
	evidence: string[];
}

export interface Explanation {
	latency_ns: number | null;
	parts: { name: string; now_ns: number; before_ns: number | null; share: number }[];
	findings: Finding[];
	missing: { what: string; remedy: string }[];
	verdict: { cause: string | null; text: string };
}

export interface StatementAnswer {
	columns: string[];
	rows: string[][];
	is_cut: boolean;
}

/** The address of an answer. */
export function path(name: string, range: Range | null, parameters: Record<string, string> = {}): string {
	const query = new URLSearchParams(parameters);
	if (range !== null) {
		query.set("from", range.from.toISOString());
		query.set("to", range.to.toISOString());
	}
	return `/api/v1/${name}?${query}`;
}

async function answered<Answer>(response: Response): Promise<Answer> {
	const answer: unknown = await response.json();
	if (response.ok) return answer as Answer;
	const words = (answer as { error?: string }).error;
	throw new Error(words ?? `${response.status} ${response.statusText}`);
}

export async function ask<Answer>(
	name: string,
	range: Range | null,
	parameters: Record<string, string>,
	signal: AbortSignal,
): Promise<Answer> {
	return answered(await fetch(path(name, range, parameters), { signal }));
}

export async function askStatement(statement: string, signal: AbortSignal): Promise<StatementAnswer> {
	const headers = { "content-type": "application/json" };
	const body = JSON.stringify({ statement });
	return answered(await fetch("/api/v1/sql", { method: "POST", headers, body, signal }));
}
