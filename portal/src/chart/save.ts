//! What is on the screen as a file.

/** Offers a file for download. */
export function save(name: string, content: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  // Some browsers read it after the click has returned.
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export type Column = { name: string; unit?: string; values: readonly unknown[] };

/** Columns as CSV (RFC 4180), units in the head. */
export function csvOf(columns: readonly Column[]): string {
  const head = columns.map(({ name, unit }) => (unit === undefined ? name : `${name} (${unit})`));
  const rows = Math.max(0, ...columns.map(({ values }) => values.length));
  const lines = Array.from({ length: rows }, (_, i) => columns.map(({ values }) => values[i]));
  return [head, ...lines].map((cells) => `${cells.map(cell).join(",")}\r\n`).join("");
}

function cell(value: unknown): string {
  const text = value === null || value === undefined ? "" : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function saveCsv(name: string, columns: readonly Column[]): void {
  save(`${name}.csv`, new Blob([csvOf(columns)], { type: "text/csv" }));
}

export function saveSvg(name: string, svg: string): void {
  save(`${name}.svg`, new Blob([svg], { type: "image/svg+xml" }));
}

/** The same picture in pixels, twice as many as its size, for slides and printing. */
export async function savePng(name: string, svg: string): Promise<void> {
  const url = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
  try {
    const image = new Image();
    image.src = url;
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = 2 * image.width;
    canvas.height = 2 * image.height;
    canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
    const png = await new Promise<Blob | null>((resolve) => canvas.toBlob(resolve, "image/png"));
    if (png) save(`${name}.png`, png);
  } finally {
    URL.revokeObjectURL(url);
  }
}
