// Builds the page into a folder: dist, or the one that is named.
import { copyFile, mkdir } from "node:fs/promises";
import { build } from "esbuild";

const folder = process.argv[2] ?? "dist";
await mkdir(folder, { recursive: true });
await build({
	entryPoints: { page: "src/main.ts" },
	outdir: folder,
	bundle: true,
	minify: true,
	format: "esm",
	target: "es2022",
	legalComments: "none",
	logLevel: "warning",
});
for (const name of ["index.html", "icon.svg"]) {
	await copyFile(`src/${name}`, `${folder}/${name}`);
}
