// A server's port: what its clients wait, and how a balancer shares it.

import { link } from "../address";
import { type Heat, type List, type Share, ask } from "../ask";
import { heatMap } from "../chart";
import { card, element, nothing } from "../element";
import { listTable, numbers, plainTable } from "../table";
import { duration, percent, shown } from "../units";
import { explainIn, explanationCard } from "./explanation";
import { leads } from "./lists";
import { type View } from "./view";

export const service: View = async ({ range, parameters, signal, early }) => {
	const asked = { destination: parameters.get("destination") ?? "", destination_port: parameters.get("destination_port") ?? "" };
	const name = asked.destination.includes(":") ? `[${asked.destination}]:${asked.destination_port}` : `${asked.destination}:${asked.destination_port}`;
	const heat = (measure: string) => ask<Heat>("heat", range, { ...asked, measure }, signal);
	const filter = `${asked.destination}:${asked.destination_port}`;
	const [latency, rtt, shares, flows] = await Promise.all([
		heat("latency"),
		heat("rtt"),
		ask<Share[]>("shares", range, asked, signal),
		ask<List>("lists/flows", range, { filter, sort: "latency_p99_ns", limit: "20" }, signal),
	]);
	const hidden = ["destination", "destination_port", "community_id", "packets", "reverse_packets", "interface", "host"];
	const cause = explanationCard();
	const nodes = [
		element("header", { class: "heading" }, element("h1", {}, name), element("p", {}, "What clients of this server waited for responses.")),
		cause,
		element("div", { class: "pair" }, card("Distribution of latency", distribution(latency)), card("Latency over time", heatMap("latency", "Latency over time", range, latency))),
		element(
			"div",
			{ class: "pair" },
			card("Round trips to it", heatMap("rtt", "Round trips over time", range, rtt, 180)),
			card("Servers behind it", servers(shares)),
		),
		card("Its slowest flows", element("a", { href: link("flows", { filter }), class: "more" }, "All"), flows.rows.length === 0 ? nothing("No flows in this range.") : listTable(flows, leads("flows"), hidden, false)),
	];
	early(nodes);
	await explainIn(cause, range, { service: name }, signal);
	return nodes;
};

function distribution(heat: Heat): HTMLElement {
	const counts = heat.bands_ns.map((_, band) => heat.steps.reduce((sum, step) => sum + (step.counts[band] ?? 0), 0));
	const [most, total] = [Math.max(...counts), counts.reduce((sum, count) => sum + count, 0)];
	if (total === 0) return nothing("Nothing was measured in this range.");
	const bars = heat.bands_ns.map((begin, band) => {
		const count = counts[band] ?? 0;
		const bar = element("i", {});
		bar.style.height = `${(count / most) * 100}%`;
		return element("span", { title: `from ${duration(begin)}: ${percent(count / total)}` }, bar);
	});
	const ends = element("p", { class: "ends" }, element("span", {}, duration(heat.bands_ns[0] ?? 0)), element("span", {}, duration((heat.bands_ns.at(-1) ?? 0) * 10 ** 0.1)));
	const columns = [
		{ name: "from_ns", title: "From", unit: "nanoseconds" as const },
		{ name: "responses", title: "Samples", unit: "count" as const },
	];
	const rows = heat.bands_ns.map((begin, band) => [begin, counts[band] ?? 0]);
	return element("div", {}, element("div", { class: "distribution", role: "img", "aria-label": "Distribution of latency" }, ...bars), ends, numbers("distribution", columns, rows));
}

function servers(shares: Share[]): HTMLElement {
	if (shares.length === 0) return nothing("No balancer of fathom shares this service.");
	return plainTable(
		["Server", "Weight", "Latency", "State", "Why"],
		shares.map((share) => [`${share.server} (${share.address ?? "?"})`, shown(share.part, "ratio"), shown(share.latency_ns, "nanoseconds"), share.state ?? "", share.why ?? ""]),
	);
}
