// A box for SQL.

import { change } from "../address";
import { askStatement } from "../ask";
import { card, element, nothing } from "../element";
import { numbers, plainTable } from "../table";
import { type View } from "./view";

const example = "SELECT destination, sum(bytes + reverse_bytes) AS bytes\nFROM traffic GROUP BY 1 ORDER BY 2 DESC LIMIT 10";

export const statement: View = async ({ parameters, signal }) => {
	const asked = parameters.get("statement") ?? "";
	const box = element("textarea", { id: "statement", rows: 6, spellcheck: "false", "aria-label": "Statement in SQL" }, asked === "" ? example : asked);
	const run = () => change({ statement: box.value });
	box.addEventListener("keydown", (event) => {
		if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run();
	});
	const words = "Tables and views are those of `fathom query`. A statement changes nothing, and has 30 s and 1,000 rows.";
	const tools = element("div", { class: "tools" }, element("button", { type: "button", class: "main", onclick: run }, "Ask (Ctrl+Enter)"), element("span", { class: "count" }, words));
	return [element("h1", {}, "SQL"), card("", box, tools), await result(asked, signal)];
};

async function result(asked: string, signal: AbortSignal): Promise<Node> {
	if (asked === "") return element("span");
	try {
		const answer = await askStatement(asked, signal);
		if (answer.rows.length === 0) return card("Answer", nothing("No rows."));
		const columns = answer.columns.map((name) => ({ name, title: name, unit: "text" as const }));
		const cut = answer.is_cut ? element("p", { class: "notice" }, "There are more rows than these.") : null;
		return card("Answer", cut, plainTable(answer.columns, answer.rows), numbers("answer", columns, answer.rows));
	} catch (error) {
		if (signal.aborted) throw error;
		return card("Answer", element("p", { class: "failed", role: "alert" }, String(error instanceof Error ? error.message : error)));
	}
}
