// How the network is, on one screen.

import { type Range, link } from "../address";
import { type Activity, type Column, type Heat, type List, type Value, ask } from "../ask";
import { heatMap, lines } from "../chart";
import { card, element, nothing } from "../element";
import { listTable } from "../table";
import { type Unit } from "../units";
import { leads } from "./lists";
import { type View } from "./view";

/** Lists in brief: their first rows by what is worst, and the columns that tell it. */
const briefs: [string, string, string, string[]][] = [
	["Slowest networks", "networks", "rtt_p99_ns", ["network", "rtt_p50_ns", "rtt_p99_ns", "flows"]],
	["Slowest servers", "servers", "latency_p99_ns", ["destination", "destination_port", "latency_p50_ns", "latency_p99_ns", "responses"]],
	["Congested links", "hops", "queue_ns", ["responder", "ttl", "queue_ns", "rtt_p99_ns", "loss_ratio"]],
	["Connections that stalled", "connections", "stalled_ns", ["process", "destination", "stalls", "stalled_ns"]],
	["Flows that lose most", "flows", "loss_ratio", ["source", "destination", "loss_ratio", "bytes"]],
];

type Name = "bytes" | "loss_ratio" | "stalls";

export const overview: View = async ({ range, signal, early }) => {
	const filled: Promise<void>[] = [];
	/** A card that has its picture when the answer has come. */
	const coming = (title: string, content: Promise<Node>, height: number, ...more: Node[]): HTMLElement => {
		const holder = element("div");
		holder.style.minHeight = `${height}px`;
		filled.push(content.then((node) => holder.replaceWith(node)));
		return card(title, ...more, holder);
	};
	const heat = (name: string, title: string) =>
		coming(title, ask<Heat>("heat", range, { measure: name }, signal).then((heat) => heatMap(name, `${title} over time`, range, heat)), 310);
	const activity = ask<Activity>("activity", range, {}, signal);
	const line = (name: Name, title: string, unit: Unit, colour: number) =>
		coming(title, activity.then((all) => activityLines(all, name, title, unit, colour, range)), 190);
	const brief = ([title, list, sort, columns]: (typeof briefs)[number]) => {
		const answer = ask<List>(`lists/${list}`, range, { sort, limit: "6" }, signal);
		const all = element("a", { href: link(list, { sort }), class: "more" }, "All");
		return coming(title, answer.then((rows) => briefTable(list, sort, columns, rows)), 180, all);
	};
	const nodes = [
		element("h1", { class: "unseen" }, "Overview"),
		element("div", { class: "pair" }, heat("rtt", "Round trips"), heat("latency", "Response latency")),
		element("div", { class: "triple" }, line("bytes", "Traffic per second", "bytes", 1), line("loss_ratio", "Loss", "ratio", 4), line("stalls", "Stalls", "count", 2)),
		element("div", { class: "cards" }, ...briefs.map(brief)),
	];
	early(nodes);
	await Promise.all(filled);
	return nodes;
};

function activityLines({ step_ns, steps }: Activity, name: Name, title: string, unit: Unit, colour: number, range: Range): HTMLElement {
	const perSecond = (value: number | null) => (name === "bytes" && value !== null ? Math.round((value * 1e9) / step_ns) : value);
	const line = { name: name === "bytes" ? "bytes_per_second" : name, title, colour, values: steps.map((step) => perSecond(step[name])) };
	return lines(name, title, range, steps.map((step) => step.time), step_ns / 1e9, unit, [line], [], 120);
}

function briefTable(list: string, sort: string, names: string[], answer: List): HTMLElement {
	const worst = answer.columns.findIndex((column) => column.name === sort);
	const rows = answer.rows.filter((row) => Number(row[worst] ?? 0) > 0);
	const hidden = answer.columns.map((column) => column.name).filter((name) => !names.includes(name));
	// Columns in the order that is told here.
	const order = [...names, ...hidden].map((name) => answer.columns.findIndex((column) => column.name === name));
	const pick = <Item>(items: Item[]) => order.map((index) => items[index]).filter((item) => item !== undefined);
	const ordered: List = { ...answer, columns: pick<Column>(answer.columns), rows: rows.map((row) => pick<Value>(row)) };
	return rows.length === 0 ? nothing("None in this range.") : listTable(ordered, leads(list), hidden, false);
}
