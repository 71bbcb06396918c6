// What a view is given, and gives.

import { type Range } from "../address";

export interface Shown {
	range: Range;
	parameters: URLSearchParams;
	/** Another view is shown: what is asked for this one is not needed any more. */
	signal: AbortSignal;
	/** Shows these already, unless the view is shown and only takes new values. */
	early: (nodes: Node[]) => void;
}

/** Asks, and makes the whole view. */
export type View = (shown: Shown) => Promise<Node[]>;
