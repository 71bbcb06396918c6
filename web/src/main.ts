// The page: its frame, the keys, and which view is shown.

import "uplot/dist/uPlot.min.css";
import "./page.css";
import { type Address, address, change, link, range, setLast, setRange } from "./address";
import { type List, ask } from "./ask";
import { forgetCharts } from "./chart";
import { element } from "./element";
import { isSchemeChosen, switchScheme } from "./scheme";
import { ago, duration, span } from "./units";
import { explanation } from "./views/explanation";
import { flow } from "./views/flow";
import { hosts } from "./views/hosts";
import { list, titles } from "./views/lists";
import { overview } from "./views/overview";
import { service } from "./views/service";
import { statement } from "./views/statement";
import { type View } from "./views/view";

const views: Record<string, View> = { overview, flow, service, hosts, explain: explanation, sql: statement };
for (const name of Object.keys(titles)) views[name] = list(name);
const tabs: [string, string][] = [["overview", "Overview"], ...Object.entries(titles), ["hosts", "Hosts"], ["sql", "SQL"]];
/** The tab that a view is under: an explanation under that of its subject. */
function under({ view, parameters }: Address): string {
	const subject = ["flow", "service", "host"].find((name) => (view === "explain" ? parameters.has(name) : name === view));
	return { flow: "flows", service: "servers", host: "hosts" }[subject ?? ""] ?? view;
}
const lengths: [string, number][] = [["1 min", 60], ["10 min", 600], ["1 h", 3600], ["6 h", 21600], ["1 d", 86400], ["7 d", 604800], ["30 d", 2592000]];
const liveMilliseconds = 5_000;

const navigation = element("nav", { "aria-label": "Views" });
const when = element("span", { class: "when" });
const ranges = element("select", { "aria-label": "Range", onchange: () => choose(Number(ranges.value)) });
const live = element("button", { type: "button", class: "live", title: "Follow the newest records (l)", onclick: () => setLast(Math.round(seconds())) }, "Live");
const content = element("main", { tabindex: -1 });
const notice = element("p", { class: "notice", role: "status", hidden: true });
const help = element("dialog", { "aria-label": "Keys" });

let shownAddress = "";
let asking: AbortController | null = null;
let timer = 0;
/** How often another address was shown since the page was opened: so often there is a way back. */
let steps = 0;

function seconds(): number {
	const { from, to } = range();
	return (to.getTime() - from.getTime()) / 1000;
}

/** A range of this length that ends where the one before does. */
function choose(length: number): void {
	const { to, isLive } = range();
	if (isLive) setLast(length);
	else setRange(new Date(to.getTime() - length * 1000), to);
}

function step(direction: number): void {
	const { from, to } = range();
	const by = (direction * (to.getTime() - from.getTime())) / 2;
	setRange(new Date(from.getTime() + by), new Date(Math.min(Date.now(), to.getTime() + by)));
}

function widen(direction: number): void {
	const now = seconds();
	const found = direction > 0 ? lengths.find(([, length]) => length > now) : lengths.findLast(([, length]) => length < now);
	if (found !== undefined) choose(found[1]);
}

function frame(): void {
	const keys: [string, string][] = [
		["1 … 9", "views"], ["/", "filter"], ["↑ ↓ or j k", "rows"], ["Enter", "open the row"], ["[ ]", "earlier, later"],
		["− +", "shorter, longer range"], ["l", "live"], ["d", "dark or light"], ["Esc", "back"], ["?", "this help"],
	];
	help.append(element("h2", {}, "Keys"), element("dl", {}, ...keys.flatMap(([key, what]) => [element("dt", {}, element("kbd", {}, key)), element("dd", {}, what)])), element("p", {}, "Drag over a picture to zoom into its time."), element("form", { method: "dialog" }, element("button", { type: "submit", class: "main" }, "Close")));
	const button = (text: string, label: string, onclick: () => void) => element("button", { type: "button", title: label, "aria-label": label, onclick }, text);
	document.body.append(
		element(
			"header",
			{ class: "top" },
			element("a", { href: "#/overview", class: "brand" }, "fathom"),
			navigation,
			element("div", { class: "range" }, when, button("‹", "Earlier ([)", () => step(-1)), ranges, button("›", "Later (])", () => step(1)), live, button("◐", "Dark or light (d)", switchScheme), button("?", "Keys (?)", () => help.showModal())),
		),
		notice,
		content,
		help,
	);
}

function drawFrame(): void {
	const here = under(address());
	navigation.replaceChildren(...tabs.map(([name, title]) => element("a", { href: link(name), "aria-current": name === here ? "page" : undefined }, title)));
	const { from, to, isLive } = range();
	when.textContent = isLive ? "" : span(from, to);
	live.setAttribute("aria-pressed", String(isLive));
	const now = seconds();
	const known = lengths.some(([, length]) => length === now) ? lengths : [...lengths, [duration(now * 1e9), now] as [string, number]];
	ranges.replaceChildren(...known.map(([title, length]) => element("option", { value: length, selected: length === now }, title)));
}

/** Shows what the address says; a view that is shown already takes new values in place. */
async function show(): Promise<void> {
	clearTimeout(timer);
	asking?.abort();
	const control = new AbortController();
	asking = control;
	const isSame = shownAddress === location.hash;
	shownAddress = location.hash;
	drawFrame();
	const { view, parameters } = address();
	const make = views[view] ?? overview;
	if (!isSame) content.setAttribute("aria-busy", "true");
	try {
		const early = (nodes: Node[]) => {
			if (!isSame && !control.signal.aborted) replace(nodes, false);
		};
		const nodes = await make({ range: range(), parameters, signal: control.signal, early });
		if (control.signal.aborted) return;
		if (nodes[0]?.parentNode !== content) replace(nodes, isSame);
		document.title = `${tabs.find(([name]) => name === under({ view, parameters }))?.[1] ?? "Overview"} – fathom`;
	} catch (error) {
		if (control.signal.aborted) return;
		const words = error instanceof Error ? error.message : String(error);
		content.replaceChildren(element("section", { class: "card" }, element("h1", {}, "This cannot be shown"), element("p", { class: "failed", role: "alert" }, words)));
		forgetCharts();
	}
	content.removeAttribute("aria-busy");
	if (range().isLive && view !== "sql") timer = window.setTimeout(again, liveMilliseconds);
	void tell();
}

/** New values, unless somebody is reading numbers, writing, or choosing. */
function again(): void {
	const isBusy = document.hidden || help.open || content.querySelector("details[open]") !== null || document.activeElement?.matches("main input, main textarea") === true;
	if (isBusy) timer = window.setTimeout(again, liveMilliseconds);
	else void show();
}

function replace(nodes: Node[], isSame: boolean): void {
	const selected = content.querySelector<HTMLAnchorElement>("tr.selected a")?.getAttribute("href");
	const { scrollX, scrollY } = window;
	content.replaceChildren(...nodes);
	forgetCharts();
	if (!isSame) {
		window.scrollTo(0, 0);
		return;
	}
	window.scrollTo(scrollX, scrollY);
	const row = [...content.querySelectorAll<HTMLTableRowElement>("tr.leads")].find((it) => it.querySelector("a")?.getAttribute("href") === selected);
	if (selected !== undefined) row?.classList.add("selected");
}

/** Says when the newest record is older than what is shown. */
async function tell(): Promise<void> {
	const { from, isLive } = range();
	let words: Node[] = [];
	if (isLive && asking !== null) {
		try {
			const answer = await ask<List>("lists/hosts", null, { limit: "1" }, asking.signal);
			const last = answer.rows[0]?.[answer.columns.findIndex((column) => column.name === "last_time")];
			if (typeof last !== "string") words = [new Text("The store has no records yet.")];
			else if (Date.parse(last) < from.getTime()) words = silence(last);
		} catch {
			return;
		}
	}
	notice.hidden = words.length === 0;
	notice.replaceChildren(...words);
}

function silence(last: string): Node[] {
	const end = new Date(Math.ceil(Date.parse(last) / 1000) * 1000);
	const show = element("button", { type: "button", onclick: () => setRange(new Date(end.getTime() - seconds() * 1000), end) }, "Show what was before");
	return [new Text(`The last record came ${ago(last)}. `), show];
}

function select(direction: number): void {
	const rows = [...content.querySelectorAll<HTMLTableRowElement>("tr.leads")];
	if (rows.length === 0) return;
	const now = rows.findIndex((row) => row.classList.contains("selected"));
	rows[now]?.classList.remove("selected");
	const next = rows[Math.max(0, Math.min(rows.length - 1, now < 0 ? 0 : now + direction))];
	next?.classList.add("selected");
	next?.scrollIntoView({ block: "nearest" });
}

/** Not out of the page. */
function back(): void {
	if (steps <= 0) return;
	steps -= 2;
	history.back();
}

const keys: Record<string, () => void> = {
	"?": () => help.showModal(),
	"/": () => (document.querySelector<HTMLInputElement>("#filter") ?? document.querySelector<HTMLElement>("#statement"))?.focus(),
	ArrowDown: () => select(1),
	ArrowUp: () => select(-1),
	j: () => select(1),
	k: () => select(-1),
	Enter: () => content.querySelector<HTMLAnchorElement>("tr.selected a")?.click(),
	"[": () => step(-1),
	"]": () => step(1),
	"-": () => widen(-1),
	"+": () => widen(1),
	l: () => setLast(Math.round(seconds())),
	d: switchScheme,
	Escape: back,
};
tabs.forEach(([name], index) => (keys[String(index + 1)] = () => (location.hash = link(name))));

function press(event: KeyboardEvent): void {
	if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
	const target = event.target as HTMLElement;
	if (target.matches("input, textarea, select")) {
		if (event.key === "Escape") target.blur();
		return;
	}
	// What has the focus takes these itself.
	if (event.key === "Enter" && target.matches("a, button, summary")) return;
	if (event.key.startsWith("Arrow") && content.querySelector("tr.leads") === null) return;
	const action = keys[event.key];
	if (action === undefined) return;
	event.preventDefault();
	action();
}

frame();
window.addEventListener("hashchange", (event) => {
	if (event.isTrusted) steps += 1;
	void show();
});
window.addEventListener("keydown", press);
// Pictures take their colours when they are drawn.
window.addEventListener("schemechange", () => void show());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
	if (!isSchemeChosen()) void show();
});
if (location.hash === "") change({}, false);
else void show();
