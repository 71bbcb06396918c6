// How long the page takes: node speed.mjs ADDRESS FROM TO. Prints rows of the summary of benchmarks.
import { chromium } from "playwright-core";

const [, , address, from, to] = process.argv;
const range = `from=${from}&to=${to}`;
const row = (what, most, seconds) => {
	console.log(`| serve, ${what} | at most ${most} s | ${seconds.toFixed(2)} s | ${seconds <= most ? "reached" : "MISSED"} |`);
	return seconds <= most;
};

const pictures = ["heat?measure=rtt", "heat?measure=latency", "activity?", "lists/flows?", "lists/flows?sort=rtt_p99_ns", "lists/servers?", "lists/networks?", "lists/hops?", "lists/connections?", "lists/dns?", "lists/hosts?"];
let isReached = true;
for (const picture of pictures) {
	const begin = performance.now();
	const response = await fetch(`${address}api/v1/${picture}&${range}`);
	await response.arrayBuffer();
	if (!response.ok) throw new Error(`${picture}: ${response.status}`);
	isReached = row(`the answer to \`${picture}\``, 2, (performance.now() - begin) / 1000) && isReached;
}

const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
const page = await browser.newPage({ viewport: { width: 1400, height: 900 } });
// Another range than before, so that nothing is answered already.
const later = new Date(Date.parse(from) + 1000).toISOString();
const begin = performance.now();
await page.goto(`${address}#/overview?from=${later}&to=${to}`);
const paint = await page.waitForFunction(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime);
isReached = row("the first paint of the overview", 1, (await paint.jsonValue()) / 1000) && isReached;
await page.waitForFunction(() => document.querySelectorAll(".card").length > 0 && document.querySelector("main[aria-busy]") === null, null, { timeout: 120_000 });
console.log(`| serve, the overview with everything in it | | ${((performance.now() - begin) / 1000).toFixed(2)} s | |`);
await browser.close();
process.exitCode = isReached ? 0 : 1;
