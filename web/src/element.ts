// Elements of the page. Texts become text, whatever is in them: nothing is ever read as HTML.

type Child = Node | string | null | undefined;
type Attributes = Record<string, string | number | boolean | ((event: Event) => void) | undefined>;

/** An element with its attributes, listeners (`onclick`) and children. */
export function element<Name extends keyof HTMLElementTagNameMap>(
	name: Name,
	attributes: Attributes = {},
	...children: Child[]
): HTMLElementTagNameMap[Name] {
	const made = document.createElement(name);
	for (const [key, value] of Object.entries(attributes)) {
		if (typeof value === "function") {
			made.addEventListener(key.slice(2), value);
		} else if (value === true) {
			made.setAttribute(key, "");
		} else if (value !== undefined && value !== false) {
			made.setAttribute(key, String(value));
		}
	}
	made.append(...children.filter((child) => child !== null && child !== undefined));
	return made;
}

/** A card with a title. */
export function card(title: string, ...children: Child[]): HTMLElement {
	return element("section", { class: "card" }, element("h2", {}, title), ...children);
}

/** A sentence where there is nothing to show. */
export function nothing(words: string): HTMLElement {
	return element("p", { class: "nothing" }, words);
}
