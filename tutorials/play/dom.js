// Elements of the page, and numbers as it shows them.

// element("b", { class: "x", onclick: f }, "text", other): attributes, then what stands in it.
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

export function byId(id) {
  return document.getElementById(id);
}

// 0.4 as 0.40; what is below a hundredth keeps two digits.
export function shown(value) {
  if (value === 0 || Math.abs(value) >= 0.00995) return value.toFixed(2);
  return Math.abs(value) < 1e-4 ? value.toExponential(0) : Number(value.toPrecision(2)).toString();
}

// A formula such as max(0, p − q) is not broken between two lines.
export function unbroken(text) {
  return text.replace(/\w\([^()]*\)/g, (formula) => formula.replaceAll(" ", "\u00a0"));
}

// With two digits in any case, so that the ratio of two such numbers is nearly that of the true
// ones.
export function fine(value) {
  return value === 0 || value >= 0.0995 ? shown(value) : value.toPrecision(2);
}

export function percent(value) {
  return `${(100 * value).toFixed(value > 0 && value < 0.0095 ? 1 : 0)} %`;
}

export function clamp(value, low, high) {
  return Math.min(Math.max(value, low), high);
}
