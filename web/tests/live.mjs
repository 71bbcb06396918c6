// Records come while the page is open: it shows them without being touched.
import assert from "node:assert/strict";
import { go, withPage } from "./browser.mjs";

await withPage({}, async (page) => {
	await go(page, "flows?last=600");
	assert.equal(await page.locator("tr.leads").count(), 0);
	console.log("ready");
	await page.waitForSelector("tr.leads");
	assert.equal(await page.locator("tr.leads").count(), 5);
	await page.waitForFunction(() => document.querySelector(".notice")?.hidden === true);
	await go(page, "hosts");
	const texts = await page.locator(".host h2").allInnerTexts();
	assert.ok(texts.some((text) => text.includes("<b>host</b>") && text.includes("reports")), texts.join());
	assert.ok(texts.some((text) => text.includes("gateway") && text.includes("silent")), texts.join());
});
