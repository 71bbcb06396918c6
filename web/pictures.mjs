// Takes the pictures of the documents: node pictures.mjs ADDRESS FOLDER
import { chromium } from "playwright-core";

const [, , address, folder] = process.argv;
const ask = async (path) => (await fetch(`${address}api/v1/${path}`)).json();
const value = (list, row, name) => row[list.columns.findIndex((column) => column.name === name)];

// The last minute that the store has.
const hosts = await ask("lists/hosts");
const to = new Date(value(hosts, hosts.rows[0], "last_time"));
const range = `from=${new Date(to.getTime() - 60_000).toISOString()}&to=${to.toISOString()}`;
// The slowest flow whose path was probed.
const flows = await ask(`lists/flows?${range}&sort=latency_p99_ns&limit=50`);
let flow = "";
for (const row of flows.rows) {
	flow = encodeURIComponent(value(flows, row, "community_id"));
	if ((await ask(`flow?${range}&community_id=${flow}`)).hops.length > 0) break;
}
const pictures = [
	["page-overview", "overview?", { width: 1280, height: 880 }, "light"],
	["page-flow", `flow?community_id=${flow}&`, { width: 1280, height: 1180 }, "dark"],
	["page-phone", "flows?", { width: 390, height: 700 }, "dark"],
];

const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
for (const [name, view, viewport, colorScheme] of pictures) {
	const page = await browser.newPage({ viewport, colorScheme });
	await page.goto(`${address}#/${view}${range}`);
	await page.waitForFunction(() => document.querySelector("main .card") !== null && document.querySelector("main[aria-busy]") === null);
	await page.screenshot({ path: `${folder}/${name}.png` });
	await page.close();
}
await browser.close();
