// Hosts and their agents, and whether they still report.

import { link } from "../address";
import { type List, ask, path } from "../ask";
import { card, element, nothing } from "../element";
import { ago, count, duration, time } from "../units";
import { type View } from "./view";

/** An agent that said nothing for so many of its intervals is silent. */
const patience = 4;
const usualIntervalNs = 10e9;

export const hosts: View = async ({ signal }) => {
	const answer = await ask<List>("lists/hosts", null, { limit: "1000" }, signal);
	if (answer.rows.length === 0) return [element("h1", {}, "Hosts"), card("", nothing("No host has reported anything yet: run `fathom agent`."))];
	const cards = answer.rows.map((row) => {
		const value = (name: string) => row[answer.columns.findIndex((column) => column.name === name)] ?? null;
		const text = (name: string) => String(value(name) ?? "–");
		const last = text("last_time");
		const interval = Number(value("interval_ns") ?? usualIntervalNs);
		const silentNs = (Date.now() - Date.parse(last)) * 1e6;
		const isAlive = silentNs < patience * interval + 5e9;
		const facts: [string, string][] = [
			["Last record", `${time(last)} (${ago(last)})`],
			["First record", time(text("first_time"))],
			["Measurements", text("measurements")],
			["Records", count(Number(value("records") ?? 0))],
			["Interfaces", text("interfaces")],
			["Interval", value("interval_ns") === null ? "–" : duration(interval)],
			["Labels", text("labels")],
			["Version", text("version")],
		];
		const state = element("span", { class: isAlive ? "state good" : "state bad" }, isAlive ? "reports" : `silent for ${duration(silentNs)}`);
		const list = element("dl", {}, ...facts.flatMap(([name, fact]) => [element("dt", {}, name), element("dd", {}, fact)]));
		return element("section", { class: "card host" }, element("h2", {}, element("a", { href: link("flows", { filter: text("host") }) }, text("host")), " ", state), list, element("a", { href: link("explain", { host: text("host") }) }, "Where its latency comes from"));
	});
	const csv = element("a", { href: path("lists/hosts", null, { format: "csv", limit: "1000" }), download: "hosts.csv" }, "CSV");
	return [element("h1", {}, "Hosts"), element("div", { class: "tools" }, element("span", { class: "count" }, String(answer.total)), csv), element("div", { class: "cards" }, ...cards)];
};
