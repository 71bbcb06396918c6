// Lists: a table with a filter, sorted by any column.

import { change, link } from "../address";
import { type List, ask, path } from "../ask";
import { card, element, nothing } from "../element";
import { type Leads, listTable } from "../table";
import { type View } from "./view";

export const titles: Record<string, string> = {
	flows: "Flows",
	servers: "Servers",
	networks: "Networks",
	hops: "Hops",
	connections: "Connections",
	dns: "DNS",
};

/** Where rows of a list lead. */
export function leads(list: string): Leads {
	const text = (value: unknown) => String(value ?? "");
	return (value) => {
		switch (list) {
			case "flows":
			case "connections":
				return value("community_id") === null ? null : link("flow", { community_id: text(value("community_id")), host: text(value("host")) });
			case "servers":
				return link("service", { destination: text(value("destination")), destination_port: text(value("destination_port")) });
			case "networks":
				return link("flows", { filter: text(value("network")).replace(/(\.0|:)?\/\d+$/, (_, end: string) => (end === ".0" ? "." : (end ?? ""))) });
			default:
				return null;
		}
	};
}

/** Columns that tell little, or what the row leads to. */
const hidden: Record<string, string[]> = {
	flows: ["community_id", "packets", "reverse_packets", "interface"],
	connections: ["community_id", "pod", "systemd_unit"],
};

export function list(name: string): View {
	return async ({ range, parameters, signal }) => {
		const filter = parameters.get("filter") ?? "";
		const asked: Record<string, string> = { filter, limit: "200" };
		const sort = parameters.get("sort");
		if (sort !== null) asked["sort"] = sort;
		const answer = await ask<List>(`lists/${name}`, range, asked, signal);
		const shown = answer.rows.length < answer.total ? `${answer.rows.length} of ${answer.total}` : String(answer.total);
		const box = element("input", { type: "search", id: "filter", placeholder: "Filter: address, port, name …", "aria-label": "Filter", value: filter, maxlength: 200, onchange: () => change({ filter: box.value }) });
		const csv = element("a", { href: path(`lists/${name}`, range, { ...asked, limit: "1000", format: "csv" }), download: `${name}.csv` }, "CSV");
		const table = answer.rows.length === 0 ? nothing(filter === "" ? "Nothing was measured in this range." : "Nothing in this range has this.") : listTable(answer, leads(name), hidden[name]);
		return [
			element("h1", {}, titles[name] ?? name),
			element("div", { class: "tools" }, box, element("span", { class: "count" }, shown), csv),
			card("", table),
		];
	};
}
