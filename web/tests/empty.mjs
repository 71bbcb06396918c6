// A store without records: every view says so.
import assert from "node:assert/strict";
import { go, serious, views, withPage } from "./browser.mjs";

await withPage({}, async (page) => {
	for (const view of views) {
		await go(page, view);
		assert.equal(await page.locator(".failed").count(), 0, view);
		assert.equal(await page.locator(".chart").count(), 0, view);
		if (view !== "sql") assert.ok((await page.locator(".nothing").count()) > 0, view);
		assert.deepEqual(await serious(page), [], view);
	}
	await page.waitForFunction(() => document.querySelector(".notice")?.textContent?.includes("no records yet"));
});
