// How the network is, on one screen.

import { link } from "../address";
import { type Activity, type Column, type Heat, type List, type Value, ask } from "../ask";
import { heatMap, lines } from "../chart";
import { card, element, nothing } from "../element";
import { listTable } from "../table";
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

export const overview: View = async ({ range, signal }) => {
	const heat = (measure: string) => ask<Heat>("heat", range, { measure }, signal);
	const brief = ([title, list, sort, columns]: (typeof briefs)[number]) =>
		ask<List>(`lists/${list}`, range, { sort, limit: "6" }, signal).then((answer) => briefCard(title, list, sort, columns, answer));
	const [rtt, latency, activity, ...cards] = await Promise.all([
		heat("rtt"),
		heat("latency"),
		ask<Activity>("activity", range, {}, signal),
		...briefs.map(brief),
	]);
	const times = activity.steps.map((step) => step.time);
	const values = (name: "bytes" | "loss_ratio" | "stalls") => activity.steps.map((step) => step[name]);
	const rate = values("bytes").map((bytes) => (bytes === null ? null : Math.round((bytes * 1e9) / activity.step_ns)));
	return [
		element("h1", { class: "unseen" }, "Overview"),
		element(
			"div",
			{ class: "pair" },
			card("Round trips", heatMap("rtt", "Round trips over time", range, rtt)),
			card("Response latency", heatMap("latency", "Response latency over time", range, latency)),
		),
		element(
			"div",
			{ class: "triple" },
			card("Traffic per second", lines("traffic", "Traffic over time", range, times, activity.step_ns / 1e9, "bytes", [{ name: "bytes_per_second", title: "Bytes a second", colour: 1, values: rate }], [], 120)),
			card("Loss", lines("loss", "Loss over time", range, times, activity.step_ns / 1e9, "ratio", [{ name: "loss_ratio", title: "Loss", colour: 4, values: values("loss_ratio") }], [], 120)),
			card("Stalls", lines("stalls", "Stalls over time", range, times, activity.step_ns / 1e9, "count", [{ name: "stalls", title: "Stalls", colour: 2, values: values("stalls") }], [], 120)),
		),
		element("div", { class: "cards" }, ...cards),
	];
};

function briefCard(title: string, list: string, sort: string, names: string[], answer: List): HTMLElement {
	const worst = answer.columns.findIndex((column) => column.name === sort);
	const rows = answer.rows.filter((row) => Number(row[worst] ?? 0) > 0);
	const hidden = answer.columns.map((column) => column.name).filter((name) => !names.includes(name));
	// Columns in the order that is told here.
	const order = [...names, ...hidden].map((name) => answer.columns.findIndex((column) => column.name === name));
	const pick = <Item>(items: Item[]) => order.map((index) => items[index]).filter((item) => item !== undefined);
	const ordered: List = { ...answer, columns: pick<Column>(answer.columns), rows: rows.map((row) => pick<Value>(row)) };
	const all = element("a", { href: link(list, { sort }), class: "more" }, "All");
	const table = rows.length === 0 ? nothing("None in this range.") : listTable(ordered, leads(list), hidden, false);
	return card(title, all, table);
}
