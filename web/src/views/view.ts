// What a view is given, and gives.

import { type Range } from "../address";

export interface Shown {
	range: Range;
	parameters: URLSearchParams;
	/** Another view is shown: what is asked for this one is not needed any more. */
	signal: AbortSignal;
}

/** Asks, then makes the whole view: it takes the place of the one before at once. */
export type View = (shown: Shown) => Promise<Node[]>;
