// Dark or light: as the system has it, until somebody chooses.

const key = "scheme";
const root = document.documentElement;

export function isSchemeChosen(): boolean {
	return root.dataset["scheme"] !== undefined;
}

function isDark(): boolean {
	return root.dataset["scheme"] === undefined ? matchMedia("(prefers-color-scheme: dark)").matches : root.dataset["scheme"] === "dark";
}

export function switchScheme(): void {
	const scheme = isDark() ? "light" : "dark";
	root.dataset["scheme"] = scheme;
	localStorage.setItem(key, scheme);
	window.dispatchEvent(new Event("schemechange"));
}

const chosen = localStorage.getItem(key);
if (chosen === "dark" || chosen === "light") root.dataset["scheme"] = chosen;
