// Every view: what it shows, by mouse and keys, in both schemes, on a phone; and that hostile names harm nobody.
import assert from "node:assert/strict";
import { communityId, go, hour, overflow, serious, settled, views, withPage } from "./browser.mjs";

const pages = [...views, `flow?community_id=${encodeURIComponent(communityId)}`, "service?destination=192.0.2.1&destination_port=443", "explain?host=gateway"];
const over = (view) => `${view}${view.includes("?") ? "&" : "?"}${hour}`;

for (const [colorScheme, viewport] of [
	["light", { width: 1400, height: 900 }],
	["dark", { width: 390, height: 800 }],
]) {
	await withPage({ colorScheme, viewport }, async (page) => {
		for (const view of pages) {
			await go(page, over(view));
			assert.equal(await page.locator(".failed").count(), 0, `${view} fails`);
			assert.ok((await overflow(page)) <= 0, `${view} is wider than a window of ${viewport.width}`);
			assert.deepEqual(await serious(page), [], `${view}, ${colorScheme}`);
			assert.equal(await page.evaluate(() => globalThis.harmed), undefined, `${view} ran a name`);
		}
	});
}

await withPage({}, async (page) => {
	// Pictures are there, each with its numbers.
	await go(page, over("overview"));
	const pictures = page.locator(".chart");
	assert.equal(await pictures.count(), 5);
	assert.equal(await page.locator(".numbers").count(), 5);
	const bright = await page.locator(".chart canvas").first().evaluate((canvas) => {
		const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
		return data.some((value, index) => index % 4 === 3 && value > 0);
	});
	assert.ok(bright, "a picture is empty");
	await page.locator(".numbers summary").first().click();
	const rows = page.locator(".numbers").first().locator("tbody tr");
	await rows.first().waitFor();
	assert.equal(await rows.count(), 120);
	const [file] = await Promise.all([page.waitForEvent("download"), page.locator(".below a").first().click()]);
	assert.equal(file.suggestedFilename(), "rtt.csv");

	// Dragging zooms, and the address says so; going back undoes it.
	const box = await page.locator(".u-over").first().boundingBox();
	await page.mouse.move(box.x + box.width * 0.25, box.y + 50);
	await page.mouse.down();
	await page.mouse.move(box.x + box.width * 0.5, box.y + 60, { steps: 5 });
	await page.mouse.up();
	await page.waitForFunction(() => /from=2025-11-24T16%3A1\d/.test(location.hash));
	await settled(page);
	assert.equal(await page.locator(".failed").count(), 0);
	await page.keyboard.press("Escape");
	await page.waitForFunction(() => location.hash.includes("16:00:00Z"));
	await settled(page);

	// Keys: another view, the filter, rows, and into a flow.
	await page.keyboard.press("2");
	await page.waitForSelector("#filter");
	assert.equal(await page.locator("tr.leads").count(), 5);
	await page.keyboard.press("/");
	await page.keyboard.type("10.0.1.1");
	await page.keyboard.press("Enter");
	await page.waitForFunction(() => document.querySelectorAll("tr.leads").length === 1);
	await page.keyboard.press("ArrowDown");
	await page.keyboard.press("Enter");
	await page.waitForFunction(() => location.hash.startsWith("#/flow?"));
	await page.waitForSelector(".heading");
	await settled(page);
	assert.match(await page.locator("h1").innerText(), /10\.0\.1\.1:40001 → 192\.0\.2\.1:443/);
	assert.equal(await page.locator(".chart").count(), 4);
	assert.equal(await page.locator("section", { hasText: "Routers on the path" }).locator(".bar").count(), 4);
	await page.waitForSelector(".verdict");
	await page.keyboard.press("?");
	assert.ok(await page.locator("dialog").isVisible());
	await page.keyboard.press("Escape");

	// A click on a title sorts.
	await go(page, over("flows"));
	await page.locator("[data-sort=rtt_p99_ns]").click();
	await page.waitForFunction(() => document.querySelector("th[aria-sort]")?.textContent?.startsWith("RTT p99"));
	assert.match(await page.locator("tr.leads").first().innerText(), /10\.0\.5\.1/);

	// The range: earlier, longer, and the scheme by hand.
	await page.keyboard.press("[");
	await page.waitForFunction(() => location.hash.includes("15%3A30"));
	await settled(page);
	await page.keyboard.press("+");
	await page.waitForFunction(() => location.hash.includes("T10%3A30"));
	await page.keyboard.press("d");
	assert.equal(await page.evaluate(() => document.documentElement.dataset.scheme), "dark");

	// An agent that is silent, and what was before.
	await go(page, "hosts");
	assert.match(await page.locator(".state").innerText(), /silent for/);
	await go(page, "overview");
	await page.locator(".notice button").click();
	await page.waitForFunction(() => document.querySelectorAll(".chart").length === 5);

	// SQL.
	await go(page, "sql");
	await page.locator("textarea").fill("SELECT count(*) AS rows FROM traffic");
	await page.keyboard.press("Control+Enter");
	await page.waitForFunction(() => document.querySelector("td")?.textContent === "1800");
});

// What fails is told, and the browser's own complaint about the status is expected.
await withPage({}, async (page, complaints) => {
	await go(page, `sql?statement=${encodeURIComponent("SELECT <script>")}`);
	await page.waitForSelector(".failed");
	await go(page, over("flow?community_id=none"));
	assert.match(await page.locator(".failed").innerText(), /no records of this flow/);
	await go(page, over("flows?sort=nothing"));
	assert.match(await page.locator(".failed").innerText(), /there is no column/);
	const expected = complaints.splice(0);
	assert.ok(expected.every((words) => /status of 40[04]/.test(words)), expected.join("\n"));
});
