// One flow: everything on one axis of time, and the ladder of routers.

import { link } from "../address";
import { type Flow, type Happened, type Hop, ask } from "../ask";
import { type Line, type Mark, lines } from "../chart";
import { card, element, nothing } from "../element";
import { plainTable } from "../table";
import { duration, percent, shown, time } from "../units";
import { explainIn, explanationCard } from "./explanation";
import { type View } from "./view";

const colours: Record<string, number> = { congestion: 4, route: 3, waiting: 2, profile: 5 };

export const flow: View = async ({ range, parameters, signal, early }) => {
	const asked: Record<string, string> = { community_id: parameters.get("community_id") ?? "" };
	const host = parameters.get("host");
	if (host !== null && host !== "") asked["host"] = host;
	const answer = await ask<Flow>("flow", range, asked, signal);
	const times = answer.series.map((point) => point.time);
	const values = (name: string) => answer.series.map((point) => (typeof point[name] === "number" ? (point[name] as number) : null));
	const line = (name: string, title: string, colour: number, isDashed = false): Line => ({ name, title, colour, isDashed, values: values(name) });
	const marks = answer.events.map((event): Mark => ({ time: Date.parse(event.time) / 1000, colour: colours[event.kind] ?? 5 }));
	const picture = (title: string, name: string, unit: Parameters<typeof lines>[5], all: Line[], height: number) =>
		card(title, lines(name, title, range, times, answer.step_ns / 1e9, unit, all, marks, height));
	const cause = explanationCard();
	const nodes = [
		heading(answer),
		cause,
		picture("Round trips", "round-trips", "nanoseconds", [
			line("rtt_p50_ns", "To the server, median", 1),
			line("rtt_p99_ns", "99th percentile", 1, true),
			line("client_rtt_p50_ns", "To the client, median", 3),
			line("client_rtt_p99_ns", "99th percentile", 3, true),
		], 180),
		picture("Response latency", "latency", "nanoseconds", [line("latency_p50_ns", "Median", 2), line("latency_p99_ns", "99th percentile", 2, true), line("waiting_ns", "Waiting", 4)], 150),
		picture("Loss", "loss", "ratio", [line("loss_ratio", "To the server", 4), line("reverse_loss_ratio", "To the client", 5)], 110),
		picture("Bytes", "bytes", "bytes", [line("bytes", "To the server", 1), line("reverse_bytes", "To the client", 3)], 130),
		element("div", { class: "pair" }, card("Routers on the path", ladder(answer.hops)), card("What happened", happened(answer.events))),
	];
	early(nodes);
	await explainIn(cause, range, { flow: asked["community_id"] ?? "" }, signal);
	return nodes;
};

function heading({ flow }: Flow): HTMLElement {
	const end = (address: string, port: string) => {
		const [host, number] = [flow[address], flow[port]];
		const text = String(host ?? "?");
		return number === null ? text : text.includes(":") ? `[${text}]:${number}` : `${text}:${number}`;
	};
	const server = link("service", { destination: String(flow["destination"] ?? ""), destination_port: String(flow["destination_port"] ?? "") });
	return element(
		"header",
		{ class: "heading" },
		element("h1", {}, end("source", "source_port"), " → ", element("a", { href: server }, end("destination", "destination_port"))),
		element("p", {}, [flow["protocol"], `seen by ${flow["host"]}`, flow["interface"]].filter((it) => it !== null).join(" · "), ` · last ${time(String(flow["last_time"]))}`),
	);
}

function ladder(hops: Hop[]): HTMLElement {
	if (hops.length === 0) return nothing("Its path was not probed in this range (`fathom hops`).");
	const most = Math.max(1, ...hops.map((hop) => hop.rtt_p99_ns ?? hop.rtt_p50_ns ?? 0));
	const rows = hops.map((hop) => {
		const [least, median, worst] = [hop.rtt_min_ns ?? hop.rtt_p50_ns ?? 0, hop.rtt_p50_ns ?? 0, hop.rtt_p99_ns ?? 0];
		const bar = element("span", { class: "bar", "aria-hidden": "true" }, part(least / most, "least"), part((median - least) / most, "median"), part((worst - median) / most, "worst"));
		const lost = hop.probes_sent === null || hop.probes_sent === 0 ? "–" : percent((hop.probes_lost ?? 0) / hop.probes_sent);
		const who = hop.responder ?? hop.silence ?? "silent";
		const cells = [String(hop.ttl), who, bar, shown(hop.rtt_p50_ns, "nanoseconds"), shown(hop.queue_ns, "nanoseconds"), lost];
		const kinds = ["number", "address", "ladder", "number", "number", "number"];
		return element("tr", {}, ...cells.map((content, index) => element("td", { class: kinds[index], title: index === 1 ? (hop.responder_name ?? hop.marks ?? undefined) : undefined }, content)));
	});
	const titles = ["Hop", "Router", `0 to ${duration(most)}`, "Median", "Queue", "Loss"];
	const head = titles.map((title, index) => element("th", { scope: "col", class: index === 1 || index === 2 ? undefined : "number" }, title));
	const table = element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows));
	return element("div", { class: "scrolling", tabindex: 0, role: "region", "aria-label": "Routers" }, table);
}

function part(share: number, kind: string): HTMLElement {
	const made = element("i", { class: kind });
	made.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
	return made;
}

function happened(events: Happened[]): HTMLElement {
	if (events.length === 0) return nothing("Nothing that stands out.");
	return plainTable(["Time", "Kind", "What"], events.map((event) => [time(event.time), event.kind, event.text ?? ""]));
}
