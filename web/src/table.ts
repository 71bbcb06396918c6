// Tables.

import { change } from "./address";
import { type Column, type List, type Value } from "./ask";
import { element } from "./element";
import { isNumber, shown } from "./units";

/** Where a row leads, if anywhere. */
export type Leads = (value: (name: string) => Value) => string | null;

/** The rows of a list, which are sorted by a click on a title. */
export function listTable(list: List, leads: Leads, hidden: string[] = [], isSorted = true): HTMLElement {
	const columns = list.columns.map((column, index) => ({ column, index })).filter(({ column }) => !hidden.includes(column.name));
	const head = columns.map(({ column }) => title(column, list.sort, isSorted));
	const rows = list.rows.map((row) => {
		const value = (name: string) => row[list.columns.findIndex((column) => column.name === name)] ?? null;
		const target = leads(value);
		const cells = columns.map(({ column, index }, place) => {
			const text = shown(row[index], column.unit);
			const isFirst = place === 0 && target !== null;
			const content = isFirst ? element("a", { href: target }, text) : text;
			return cell(content, column);
		});
		const leading = target === null ? {} : { class: "leads", onclick: () => (location.hash = target) };
		return element("tr", leading, ...cells);
	});
	return scrolling(head, rows);
}

function title(column: Column, sort: string, isSorted: boolean): HTMLElement {
	const kind = isNumber(column.unit) ? "number" : undefined;
	if (!isSorted) return element("th", { scope: "col", class: kind }, column.title);
	const isHere = column.name === sort;
	const button = element("button", { type: "button", "data-sort": column.name, onclick: () => change({ sort: column.name }) }, column.title, isHere ? " ↓" : null);
	return element("th", { scope: "col", class: kind, "aria-sort": isHere ? "descending" : undefined }, button);
}

function cell(content: Node | string, column: Pick<Column, "unit">): HTMLElement {
	const kind = isNumber(column.unit) ? "number" : column.unit === "address" ? "address" : undefined;
	return element("td", { class: kind }, content);
}

function scrolling(head: HTMLElement[], rows: HTMLElement[]): HTMLElement {
	const table = element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows));
	return element("div", { class: "scrolling", tabindex: 0, role: "region", "aria-label": "Table" }, table);
}

/** Texts as they are. */
export function plainTable(titles: string[], rows: string[][]): HTMLElement {
	const head = titles.map((text) => element("th", { scope: "col" }, text));
	return scrolling(head, rows.map((row) => element("tr", {}, ...row.map((text) => element("td", {}, text)))));
}

/** The numbers of a picture: a table to open, and a file. */
export function numbers(name: string, columns: Column[], rows: Value[][]): HTMLElement {
	const details = element("details", { class: "numbers" });
	const file = element("a", { href: "#", download: `${name}.csv`, onclick: (event) => save(event, columns, rows) }, "CSV");
	details.append(element("summary", {}, "Numbers"));
	details.addEventListener("toggle", () => {
		if (!details.open || details.childElementCount > 1) return;
		const head = columns.map((column) => title(column, "", false));
		const body = rows.map((row) => element("tr", {}, ...columns.map((column, index) => cell(shown(row[index], column.unit), column))));
		details.append(scrolling(head, body));
	});
	return element("div", { class: "below" }, details, file);
}

function save(event: Event, columns: Column[], rows: Value[][]): void {
	const quoted = (value: Value | undefined) => {
		const text = value === null || value === undefined ? "" : String(value);
		// A text that begins like a formula is none.
		const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
		return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
	};
	const lines = [columns.map((column) => column.name), ...rows].map((row) => row.map(quoted).join(","));
	const url = URL.createObjectURL(new Blob([`${lines.join("\n")}\n`], { type: "text/csv" }));
	const file = event.currentTarget as HTMLAnchorElement;
	file.href = url;
	setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
