// Where the latency of a flow, a host or a service comes from.

import { type Range, link } from "../address";
import { type Explanation, type Finding, ask } from "../ask";
import { card, element, nothing } from "../element";
import { duration, percent, time } from "../units";
import { type View } from "./view";

/** One of `flow` (a Community ID), `host` and `service`, as `fathom explain` takes them. */
export type Subject = Record<string, string>;

const sure = { high: "sure", medium: "likely", low: "possible" };

/** A card that says so when it has been asked: it is empty at first. */
export function explanationCard(): HTMLElement {
	return card("Where its latency comes from", nothing("Looking at everything that was measured …"));
}

/** Asks, and fills the card. */
export async function explainIn(shown: HTMLElement, range: Range, subject: Subject, signal: AbortSignal): Promise<void> {
	const title = shown.firstElementChild ?? "";
	try {
		const answer = await ask<Explanation>("explain", range, subject, signal);
		shown.replaceChildren(title, ...explained(answer));
	} catch (error) {
		if (signal.aborted) throw error;
		shown.replaceChildren(title, nothing(error instanceof Error ? error.message : String(error)));
	}
}

export const explanation: View = async ({ range, parameters, signal, early }) => {
	const names = ["flow", "host", "service"].filter((name) => parameters.has(name));
	const subject = Object.fromEntries(names.map((name) => [name, parameters.get(name) ?? ""]));
	const shown = explanationCard();
	const nodes = [element("h1", {}, Object.entries(subject).flat().join(" ")), shown];
	early(nodes);
	await explainIn(shown, range, subject, signal);
	return nodes;
};

function explained(answer: Explanation): HTMLElement[] {
	const latency = answer.latency_ns === null ? "" : ` A response takes ${duration(answer.latency_ns)}.`;
	const verdict = element("p", { class: answer.verdict.cause === null ? "verdict good" : "verdict bad" }, `${answer.verdict.text}.${latency}`);
	const missing = answer.missing.map(({ what, remedy }) => element("li", {}, `${what}: ${remedy}`));
	const lacking = element("details", { class: "lacking" }, element("summary", {}, `Not measured: ${answer.missing.length}`), element("ul", {}, ...missing));
	const findings = element("ol", { class: "findings" }, ...answer.findings.map(found));
	return [verdict, parts(answer), findings, ...(missing.length === 0 ? [] : [lacking])];
}

function parts(answer: Explanation): HTMLElement {
	const titles = ["Part", "", "Now", "Before", "Share"];
	const head = titles.map((text, index) => element("th", { scope: "col", class: index > 1 ? "number" : undefined }, text));
	const rows = answer.parts.map((part) => {
		const filled = element("i", { class: "median" });
		filled.style.width = `${part.share * 100}%`;
		const bar = element("span", { class: "bar", "aria-hidden": "true" }, filled);
		const before = part.before_ns === null ? "–" : duration(part.before_ns);
		const cells = [part.name, bar, duration(part.now_ns), before, percent(part.share)];
		return element("tr", {}, ...cells.map((content, index) => element("td", { class: index === 1 ? "ladder" : index > 1 ? "number" : undefined }, content)));
	});
	const table = element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows));
	return element("div", { class: "scrolling", tabindex: 0, role: "region", "aria-label": "Parts of the latency" }, table);
}

function found(finding: Finding): HTMLElement {
	const since = finding.since === null ? "" : `, since ${time(finding.since)}`;
	const shared = finding.shared_by === null ? "" : `; ${finding.shared_by.text}`;
	const statements = [...finding.evidence, ...(finding.shared_by === null ? [] : [finding.shared_by.evidence])];
	const evidence = statements.map((statement, index) => element("a", { href: link("sql", { statement }) }, index === 0 ? "evidence" : `evidence ${index + 1}`));
	return element(
		"li",
		{},
		element("span", {}, `${finding.text} `),
		element("span", { class: "count" }, `+${duration(finding.amount_ns)}, ${sure[finding.confidence]}${since}${shared} `),
		...evidence.flatMap((node) => [node, " "]),
	);
}
