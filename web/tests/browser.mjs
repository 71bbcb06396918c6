// The page in Chromium, as the tests use it. Whatever the browser complains about is a failure.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
export const [, , address, communityId] = process.argv;
/** The hour that the store has. */
export const hour = "from=2025-11-24T16:00:00Z&to=2025-11-24T17:00:00Z";
export const views = ["overview", "flows", "servers", "networks", "hops", "connections", "dns", "hosts", "sql"];

/** Runs steps with a page, and fails if anything was complained about or fetched from elsewhere. */
export async function withPage(options, steps) {
	const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
	try {
		// The content security policy holds for the page; axe is put in beside it.
		const context = await browser.newContext({ viewport: { width: 1400, height: 900 }, ...options });
		const page = await context.newPage();
		page.setDefaultTimeout(30_000);
		const complaints = [];
		page.on("console", (message) => ["error", "warning"].includes(message.type()) && complaints.push(message.text()));
		page.on("pageerror", (error) => complaints.push(error.message));
		page.on("request", (request) => !request.url().startsWith(address) && !request.url().startsWith("blob:") && complaints.push(`fetched ${request.url()}`));
		await steps(page, complaints);
		assert.deepEqual(complaints, []);
	} finally {
		await browser.close();
	}
}

/** Goes to a view and waits until it is shown. */
export async function go(page, hash) {
	await page.goto("about:blank");
	await page.goto(`${address}#/${hash}`);
	await settled(page);
}

export async function settled(page) {
	await page.waitForFunction(() => {
		const main = document.querySelector("main");
		return main !== null && main.childElementCount > 0 && !main.hasAttribute("aria-busy");
	});
}

/** What axe-core finds that is serious. */
export async function serious(page) {
	const session = await page.context().newCDPSession(page);
	await session.send("Runtime.evaluate", { expression: axe });
	const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
	return found.violations
		.filter((violation) => ["serious", "critical"].includes(violation.impact))
		.map((violation) => `${violation.id}: ${violation.nodes.map((node) => node.target.join(" ")).join("; ")}`);
}

/** Is anything wider than the window? */
export async function overflow(page) {
	return page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
}
