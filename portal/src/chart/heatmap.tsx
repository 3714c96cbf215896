//! A matrix as a picture of squares.
import { useEffect, useRef, useState } from "react";

import { number } from "../part/number.ts";
import { savePng, saveSvg } from "./save.ts";
import { useFileName } from "./subject.ts";
import { FULL, svgOfSquares } from "./svg.ts";
import type { Matrix } from "./table.ts";

const WIDTH = 420;

export function Heatmap({ matrix }: { matrix: Matrix }) {
  const { title, name, of, unit, size, values, largest, labelOf } = matrix;
  const canvas = useRef<HTMLCanvasElement>(null);
  const [pointed, point] = useState("");
  useEffect(() => {
    if (canvas.current) draw(canvas.current, matrix);
  }, [matrix]);
  const fileName = useFileName(title);
  const figure = () => svgOfSquares(matrix, canvas.current?.toDataURL() ?? "");
  const withUnit = (value: number) => (unit === "" ? number(value, 3) : `${number(value, 3)} ${unit}`);
  return <figure className="chart">
    <figcaption className="spread">
      <span className="quiet">{name} of {of}, from 0 (white) to {withUnit(largest)} (blue)</span>
      <span className="saves">
        <button type="button" className="plain" aria-label={`${title} as PNG`} onClick={() => void savePng(fileName, figure())}>PNG</button>
        <button type="button" className="plain" aria-label={`${title} as SVG`} onClick={() => saveSvg(fileName, figure())}>SVG</button>
      </span>
    </figcaption>
    <canvas ref={canvas} className="heatmap" role="img" aria-label={`${title}: ${name} of ${of}, ${size} by ${size}`}
      onPointerLeave={() => point("")}
      onPointerMove={({ currentTarget, nativeEvent }) => {
        const place = (offset: number) => Math.floor((offset / currentTarget.clientWidth) * size);
        const [column, row] = [place(nativeEvent.offsetX), size - 1 - place(nativeEvent.offsetY)];
        const value = values[row * size + column] ?? NaN;
        point(`${number(labelOf(column))} and ${number(labelOf(row))}: ${Number.isNaN(value) ? "none" : withUnit(value)}`);
      }} />
    <p className="small quiet" aria-live="off">{pointed || `From ${number(labelOf(0))} to ${number(labelOf(size - 1))}, from the lower left corner.`}</p>
  </figure>;
}

/** A pixel for each number, made as large as the picture needs. */
function draw(canvas: HTMLCanvasElement, { size, values, largest }: Matrix): void {
  const pixels = document.createElement("canvas");
  pixels.width = pixels.height = size;
  const own = pixels.getContext("2d");
  const scale = Math.max(1, Math.ceil((2 * WIDTH) / size));
  canvas.width = canvas.height = size * scale;
  const context = canvas.getContext("2d");
  if (!own || !context) return;
  const image = own.createImageData(size, size);
  image.data.fill(255);
  values.forEach((value, i) => {
    if (Number.isNaN(value)) return;
    const share = Math.min(1, Math.max(0, value / largest));
    const at = 4 * ((size - 1 - Math.floor(i / size)) * size + (i % size));
    FULL.forEach((full, colour) => (image.data[at + colour] = Math.round(255 + (full - 255) * share)));
  });
  own.putImageData(image, 0, 0);
  context.imageSmoothingEnabled = false;
  context.drawImage(pixels, 0, 0, canvas.width, canvas.height);
}
