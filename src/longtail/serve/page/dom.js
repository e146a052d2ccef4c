// Everything that comes from the model or the user reaches the page through textContent, never as HTML.

export const byId = (id) => document.getElementById(id);

export function element(name, className, text) {
  const node = document.createElement(name);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

export function button(className, text, onClick, name) {
  const node = element("button", className, text);
  node.type = "button";
  if (name) node.setAttribute("aria-label", name);
  node.addEventListener("click", onClick);
  return node;
}

export function formatCount(n, one, many = `${one}s`) {
  return `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
}

/** Put a text on the clipboard and say so on the button that was pressed. */
export async function copyText(text, pressed) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Without TLS, browsers offer no clipboard except on this machine.
    const area = element("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  const before = pressed.textContent;
  pressed.textContent = "Copied";
  setTimeout(() => { pressed.textContent = before; }, 1500);
}

export function download(name, type, text) {
  const link = element("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
