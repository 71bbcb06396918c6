// Takes the pictures of the documents: node pictures.mjs ADDRESS FOLDER
import { chromium } from "playwright-core";

const [, , address, folder] = process.argv;
/** The hour of the records that benches/src/bin/store makes. */
const hour = "from=2025-11-25T00:00:00Z&to=2025-11-25T01:00:00Z";
const flows = await (await fetch(`${address}api/v1/lists/flows?${hour}&sort=latency_p99_ns&limit=300`)).json();
const id = flows.columns.findIndex((column) => column.name === "community_id");
const hops = async (row) => (await (await fetch(`${address}api/v1/flow?${hour}&community_id=${encodeURIComponent(row[id])}`)).json()).hops.length;
// One whose path was probed.
let probed = flows.rows[0];
for (const row of flows.rows) {
	if ((await hops(row)) === 0) continue;
	probed = row;
	break;
}
const pictures = [
	["page-overview", "overview", { width: 1280, height: 900 }, "light"],
	["page-flow", `flow?community_id=${encodeURIComponent(probed[id])}`, { width: 1280, height: 900 }, "dark"],
	["page-phone", "servers", { width: 390, height: 700 }, "dark"],
];

const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
for (const [name, view, viewport, colorScheme] of pictures) {
	const page = await browser.newPage({ viewport, colorScheme });
	await page.goto(`${address}#/${view}${view.includes("?") ? "&" : "?"}${hour}`);
	await page.waitForFunction(() => document.querySelector("main .card") !== null && document.querySelector("main[aria-busy]") === null);
	await page.screenshot({ path: `${folder}/${name}.png` });
	await page.close();
}
await browser.close();
