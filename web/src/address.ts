// What is shown is in the address, so that it can be sent to others: `#/flows?last=3600&filter=tcp`.

export interface Address {
	view: string;
	parameters: URLSearchParams;
}

const kept = ["last", "from", "to"];

export function address(): Address {
	const [view, query] = location.hash.replace(/^#\/?/, "").split("?", 2);
	return { view: view === undefined || view === "" ? "overview" : view, parameters: new URLSearchParams(query) };
}

/** The address of a view over the range that is shown now. */
export function link(view: string, parameters: Record<string, string> = {}): string {
	const now = address().parameters;
	const next = new URLSearchParams();
	for (const name of kept) {
		const value = now.get(name);
		if (value !== null) next.set(name, value);
	}
	for (const [name, value] of Object.entries(parameters)) next.set(name, value);
	const query = next.toString();
	return `#/${view}${query === "" ? "" : `?${query}`}`;
}

/** Changes parameters of this view; an empty one goes. */
export function change(parameters: Record<string, string>, isStep = true): void {
	const { view, parameters: next } = address();
	for (const [name, value] of Object.entries(parameters)) {
		if (value === "") next.delete(name);
		else next.set(name, value);
	}
	const query = next.toString();
	const hash = `#/${view}${query === "" ? "" : `?${query}`}`;
	if (isStep) location.hash = hash;
	else {
		history.replaceState(null, "", hash);
		window.dispatchEvent(new Event("hashchange"));
	}
}

export interface Range {
	from: Date;
	to: Date;
	/** Does it end now, and move on? */
	isLive: boolean;
}

export const usualSeconds = 3600;

export function range(): Range {
	const { parameters } = address();
	const from = new Date(parameters.get("from") ?? NaN);
	const to = new Date(parameters.get("to") ?? NaN);
	if (from < to) return { from, to, isLive: false };
	const seconds = Number(parameters.get("last"));
	const length = seconds > 0 && seconds <= 366 * 86400 ? seconds : usualSeconds;
	// Whole seconds: what is asked twice in one is answered once.
	const end = Math.floor(Date.now() / 1000) * 1000;
	return { from: new Date(end - length * 1000), to: new Date(end), isLive: true };
}

export function setRange(from: Date, to: Date): void {
	change({ from: from.toISOString(), to: to.toISOString(), last: "" });
}

export function setLast(seconds: number): void {
	change({ last: String(seconds), from: "", to: "" });
}
