// Values as people read them.

export type Unit = "text" | "address" | "port" | "time" | "nanoseconds" | "count" | "bytes" | "ratio";

const none = "–";

function scaled(value: number, steps: [number, string][]): string {
	const step = steps.find(([least]) => Math.abs(value) >= least) ?? steps.at(-1);
	if (step === undefined) return String(value);
	const number = value / step[0];
	const digits = Math.abs(number) >= 100 || Number.isInteger(number) ? 0 : Math.abs(number) >= 10 ? 1 : 2;
	return `${number.toFixed(digits)} ${step[1]}`.trim();
}

export function duration(ns: number): string {
	if (ns === 0) return "0";
	if (ns >= 60e9) return scaled(ns, [[86400e9, "d"], [3600e9, "h"], [60e9, "min"]]);
	return scaled(ns, [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]]);
}

export function bytes(number: number): string {
	if (number === 0) return "0";
	return scaled(number, [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]]);
}

export function count(number: number): string {
	if (Math.abs(number) < 1e4) return Number.isInteger(number) ? String(number) : number.toFixed(1);
	return scaled(number, [[1e9, "G"], [1e6, "M"], [1e3, "k"]]);
}

export function percent(ratio: number): string {
	if (ratio === 0) return "0 %";
	return ratio < 0.0001 ? "< 0.01 %" : `${(ratio * 100).toFixed(ratio < 0.01 ? 2 : 1)} %`;
}

const two = (number: number) => String(number).padStart(2, "0");
const clock = (when: Date) => `${two(when.getHours())}:${two(when.getMinutes())}:${two(when.getSeconds())}`;
const day = (when: Date) => `${when.getFullYear()}-${two(when.getMonth() + 1)}-${two(when.getDate())}`;

/** A time of day, with the date where that is another. */
export function time(text: string): string {
	const when = new Date(text);
	return day(when) === day(new Date()) ? clock(when) : `${day(when)} ${clock(when)}`;
}

/** From when until when, without seconds where they are whole minutes. */
export function span(from: Date, to: Date): string {
	const isWhole = from.getSeconds() === 0 && to.getSeconds() === 0;
	const short = (when: Date) => clock(when).slice(0, isWhole ? 5 : 8);
	const end = day(from) === day(to) ? short(to) : `${day(to)} ${short(to)}`;
	return `${day(from)} ${short(from)} – ${end}`;
}

/** How long ago that was. */
export function ago(text: string): string {
	return `${duration(Math.max(0, Date.now() - Date.parse(text)) * 1e6)} ago`;
}

/** A value with its unit. */
export function shown(value: unknown, unit: Unit): string {
	if (value === null || value === undefined || value === "") return none;
	if (typeof value === "number") {
		if (unit === "nanoseconds") return duration(value);
		if (unit === "bytes") return bytes(value);
		if (unit === "ratio") return percent(value);
		if (unit === "count") return count(value);
	}
	return unit === "time" ? time(String(value)) : String(value);
}

/** Do its values stand below each other by their digits? */
export function isNumber(unit: Unit): boolean {
	return unit === "nanoseconds" || unit === "bytes" || unit === "ratio" || unit === "count";
}
