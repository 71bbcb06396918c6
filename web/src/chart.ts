// Pictures over time, by uPlot. All of a view have one axis and one cursor; dragging zooms.

import uPlot from "uplot";
import { type Range, setRange } from "./address";
import { type Column, type Heat, type Value } from "./ask";
import { element, nothing } from "./element";
import { numbers } from "./table";
import { type Unit, shown } from "./units";

/** One line of a picture. */
export interface Line {
	name: string;
	title: string;
	/** The number of its colour. */
	colour: number;
	isDashed?: boolean;
	values: (number | null)[];
}

/** Something that happened at a moment. */
export interface Mark {
	time: number;
	colour: number;
}

const drawn = new Set<uPlot>();
const resized = new ResizeObserver((entries) => {
	for (const { target, contentRect } of entries) {
		for (const chart of drawn) {
			const isHere = chart.root.parentElement === target;
			if (isHere && contentRect.width > 0) chart.setSize({ width: contentRect.width, height: chart.height });
		}
	}
});

/** Pictures that are shown no more go. */
export function forgetCharts(): void {
	for (const chart of drawn) {
		if (chart.root.isConnected) continue;
		if (chart.root.parentElement !== null) resized.unobserve(chart.root.parentElement);
		chart.destroy();
		drawn.delete(chart);
	}
}

/** A colour of the style sheet, as it is in this scheme. */
function colour(name: string): string {
	document.body.style.setProperty("outline-color", `var(--${name})`);
	return getComputedStyle(document.body).outlineColor;
}

function axes(unit: Unit): uPlot.Axis[] {
	const common = { stroke: colour("faint"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
	return [
		{ ...common, space: 70, size: 26, values: (_: uPlot, splits: number[]) => splits.map(clock) },
		{ ...common, size: 64, values: (_: uPlot, splits: number[]) => splits.map((value) => (value === null ? "" : shown(value, unit))) },
	];
}

function clock(seconds: number, index: number, all: number[]): string {
	const when = new Date(seconds * 1000);
	const two = (number: number) => String(number).padStart(2, "0");
	const before = all[index - 1];
	const isNewDay = before !== undefined && new Date(before * 1000).getDate() !== when.getDate();
	const step = (all[1] ?? 0) - (all[0] ?? 0);
	if (isNewDay || step >= 86400) return `${two(when.getMonth() + 1)}-${two(when.getDate())}`;
	return `${two(when.getHours())}:${two(when.getMinutes())}${step < 60 ? `:${two(when.getSeconds())}` : ""}`;
}

function options(range: Range, unit: Unit, height: number): Omit<uPlot.Options, "series"> & { width: number } {
	return {
		width: 600,
		height,
		padding: [8, 28, 0, 0],
		cursor: { sync: { key: "time" }, drag: { x: true, y: false, setScale: false }, points: { size: 6 } },
		scales: { x: { time: true, range: [range.from.getTime() / 1000, range.to.getTime() / 1000] } },
		axes: axes(unit),
		hooks: {
			setSelect: [
				(chart) => {
					if (chart.select.width < 4) return;
					const at = (left: number) => new Date(Math.round(chart.posToVal(left, "x")) * 1000);
					const [from, to] = [at(chart.select.left), at(chart.select.left + chart.select.width)];
					if (from < to) setRange(from, to);
				},
			],
		},
	};
}

/** Where nothing was measured for longer than a step, lines have a gap. */
function withGaps(times: number[], stepSeconds: number, values: (number | null)[][]): uPlot.AlignedData {
	const all: number[] = [];
	const columns: (number | null)[][] = values.map(() => []);
	times.forEach((time, index) => {
		const before = times[index - 1];
		if (before !== undefined && time - before > 1.5 * stepSeconds) {
			all.push(before + stepSeconds / 2);
			for (const column of columns) column.push(null);
		}
		all.push(time);
		columns.forEach((column, line) => column.push(values[line]?.[index] ?? null));
	});
	return [all, ...columns];
}

function place(options: uPlot.Options, data: uPlot.AlignedData, label: string): HTMLElement {
	const holder = element("div", { class: "chart", role: "img", "aria-label": label });
	const chart = new uPlot(options, data, holder);
	drawn.add(chart);
	resized.observe(holder);
	return holder;
}

/** Lines over time, with their numbers. */
export function lines(name: string, label: string, range: Range, times: string[], stepSeconds: number, unit: Unit, all: Line[], marks: Mark[] = [], height = 170): HTMLElement {
	const there = all.filter((line) => line.values.some((value) => value !== null));
	if (there.length === 0) return nothing("Nothing was measured in this range.");
	const seconds = times.map((text) => Date.parse(text) / 1000);
	const made = options(range, unit, height);
	const series: uPlot.Series[] = there.map((line) => ({
		label: line.title,
		stroke: colour(`c${line.colour}`),
		width: line.isDashed === true ? 1 : 1.75,
		...(line.isDashed === true ? { dash: [4, 3] } : {}),
		points: { show: seconds.length < 3, size: 5 },
		value: (_: uPlot, value: number | null) => shown(value, unit),
	}));
	const greatest = Math.max(...there.flatMap((line) => line.values.map((value) => value ?? 0)));
	made.scales = { ...made.scales, y: { range: [0, greatest > 0 ? greatest * 1.08 : unit === "ratio" ? 0.01 : 1] } };
	made.hooks = { ...made.hooks, draw: [(chart) => drawMarks(chart, marks)] };
	const picture = place(
		{ ...made, series: [{ label: "Time", value: (_: uPlot, value: number | null) => (value === null ? "–" : new Date(value * 1000).toLocaleTimeString()) }, ...series] },
		withGaps(seconds, stepSeconds, there.map((line) => line.values)),
		label,
	);
	const columns: Column[] = [{ name: "time", title: "Time", unit: "time" }, ...there.map((line) => ({ name: line.name, title: line.title, unit }))];
	const rows = times.map((time, index): Value[] => [time, ...there.map((line) => line.values[index] ?? null)]);
	return element("div", {}, picture, numbers(name, columns, rows));
}

function drawMarks(chart: uPlot, marks: Mark[]): void {
	const { ctx, bbox } = chart;
	ctx.save();
	for (const mark of marks) {
		const left = chart.valToPos(mark.time, "x", true);
		if (left < bbox.left || left > bbox.left + bbox.width) continue;
		ctx.fillStyle = colour(`c${mark.colour}`);
		ctx.globalAlpha = 0.75;
		ctx.fillRect(left, bbox.top, Math.max(1, devicePixelRatio), bbox.height);
	}
	ctx.restore();
}

/** How often which latency was measured when: the darker, the more often. */
export function heatMap(name: string, label: string, range: Range, heat: Heat, height = 240): HTMLElement {
	const [first, last] = [heat.bands_ns[0], heat.bands_ns.at(-1)];
	if (first === undefined || last === undefined) return nothing("Nothing was measured in this range.");
	const times = heat.steps.map((step) => Date.parse(step.time) / 1000);
	const made = options(range, "nanoseconds", height);
	made.scales = { ...made.scales, y: { distr: 3, range: [first, last * 1.26] } };
	const [time, latency] = made.axes ?? [];
	made.axes = [time ?? {}, { ...latency, splits: () => roundNumbers(first, last * 1.26) }];
	const line = (title: string, dash?: number[]): uPlot.Series => ({
		label: title,
		stroke: colour(dash === undefined ? "c2" : "c4"),
		width: 1.5,
		...(dash === undefined ? {} : { dash }),
		points: { show: false },
		value: (_: uPlot, value: number | null) => shown(value, "nanoseconds"),
	});
	made.hooks = { ...made.hooks, drawAxes: [(chart) => drawHeat(chart, heat, times)] };
	const picture = place(
		{ ...made, series: [{ label: "Time", value: (_: uPlot, value: number | null) => (value === null ? "–" : new Date(value * 1000).toLocaleTimeString()) }, line("Median"), line("99th percentile", [4, 3])] },
		withGaps(times, heat.step_ns / 1e9, [heat.steps.map((step) => step.p50_ns), heat.steps.map((step) => step.p99_ns)]),
		label,
	);
	const columns: Column[] = [
		{ name: "time", title: "Time", unit: "time" },
		{ name: "p50_ns", title: "Median", unit: "nanoseconds" },
		{ name: "p99_ns", title: "99th percentile", unit: "nanoseconds" },
		...heat.bands_ns.map((begin): Column => ({ name: `from_${begin}_ns`, title: `≥ ${shown(begin, "nanoseconds")}`, unit: "count" })),
	];
	const rows = heat.steps.map((step): Value[] => [step.time, step.p50_ns, step.p99_ns, ...step.counts]);
	return element("div", {}, picture, numbers(name, columns, rows));
}

/** 1, 2 and 5 times powers of ten; fewer where there would be many. */
function roundNumbers(first: number, last: number): number[] {
	const steps = last / first > 500 ? [1] : [1, 2, 5];
	const powers = Array.from({ length: 13 }, (_, power) => 10 ** power);
	return powers.flatMap((power) => steps.map((step) => step * power)).filter((value) => value >= first && value <= last);
}

function drawHeat(chart: uPlot, heat: Heat, times: number[]): void {
	const { ctx, bbox } = chart;
	const most = Math.max(1, ...heat.steps.flatMap((step) => step.counts));
	const stepSeconds = heat.step_ns / 1e9;
	ctx.save();
	ctx.beginPath();
	ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
	ctx.clip();
	ctx.fillStyle = colour("c1");
	heat.steps.forEach((step, index) => {
		const end = times[index] ?? 0;
		// Edges are whole pixels, so that neighbours meet and do not overlap.
		const left = Math.round(chart.valToPos(end - stepSeconds, "x", true));
		const right = Math.round(chart.valToPos(end, "x", true));
		step.counts.forEach((samples, band) => {
			const begin = heat.bands_ns[band];
			if (samples === 0 || begin === undefined) return;
			const next = heat.bands_ns[band + 1] ?? begin * 10 ** 0.1;
			const bottom = Math.round(chart.valToPos(begin, "y", true));
			const top = Math.round(chart.valToPos(next, "y", true));
			ctx.globalAlpha = 0.1 + (0.85 * Math.log1p(samples)) / Math.log1p(most);
			ctx.fillRect(left, top, right - left, bottom - top);
		});
	});
	ctx.restore();
}
