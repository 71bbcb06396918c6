// Takes the pictures of the documents: node pictures.mjs ADDRESS FOLDER VIEWS, where VIEWS is a
// JSON object with the view of each picture.
import { chromium } from "playwright-core";

const [, , address, folder, views] = process.argv;
const pictures = {
	"page-overview": [{ width: 1280, height: 880 }, "light"],
	"page-flow": [{ width: 1280, height: 1180 }, "dark"],
	"page-explained": [{ width: 1280, height: 300 }, "light"],
	"page-phone": [{ width: 390, height: 700 }, "dark"],
};

const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
for (const [name, view] of Object.entries(JSON.parse(views))) {
	const [viewport, colorScheme] = pictures[name];
	const page = await browser.newPage({ viewport, colorScheme });
	await page.goto(`${address}#/${view}`);
	await page.waitForFunction(() => document.querySelector("main .card") !== null && document.querySelector("main[aria-busy]") === null);
	await page.waitForFunction(() => document.body.innerText.includes("Looking at everything") === false);
	await page.screenshot({ path: `${folder}/${name}.png`, fullPage: name === "page-explained" });
	await page.close();
}
await browser.close();
